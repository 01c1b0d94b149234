"""Counts, on demand, the items of each connector that members have before a pool is dealt."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Set
from functools import cached_property
from itertools import filterfalse
from operator import itemgetter
from typing import Final

from cooperator.model import TaskId
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import PlacementProblem

_LOOKUP: Final = 20
"""A lookup costs as much as going through so many more members."""


class Running:
    """The tasks that each member keeps or gets back, minus those that it releases (``homes``: the releasing
    member per item).

    ``connectors``: the connectors of the pool; no others are looked up.
    """

    def __init__(
        self, problem: PlacementProblem, homes: Mapping[TaskId, str], connectors: Collection[str]
    ) -> None:
        self._connectors = connectors
        self._homes = homes
        self._counts = {identity: _counts(problem, identity) for identity in problem.kept}
        self._loads = {i: len(kept) + len(problem.owed.get(i, ())) for i, kept in problem.kept.items()}
        self._size = sum(map(len, self._counts.values()))
        self._looked_up = 0

    def of(self, connector: str) -> Mapping[str, int] | None:
        """Return the count of ``connector`` per identity; None if no member has had any of it."""
        if self._many_lookups():
            return self._by_connector.get(connector)
        here = {identity: own[connector] for identity, own in self._counts.items() if connector in own}
        for identity in here:
            here[identity] -= self._leaving.get((connector, identity), 0)
        return here or None

    @property
    def is_empty(self) -> bool:
        """Whether no member has had any item."""
        return not self._size

    def occupied(self, connectors: Collection[str]) -> Set[str]:
        """Return those of ``connectors`` of which some member has had items."""
        if self.is_empty:
            return frozenset()
        wanted = dict.fromkeys(connectors).keys()
        return set[str]().union(*(wanted & own.keys() for own in self._counts.values() if own))

    @cached_property
    def several(self) -> Set[str]:
        """A superset of the connectors of which one member has several items."""
        more = (own for identity, own in self._counts.items() if len(own) < self._loads[identity])
        return {connector for own in more for connector, count in own.items() if count > 1}

    def has_any(self, identity: str) -> bool:
        """Return whether the member has had any item."""
        return bool(self._counts[identity])

    def lacking(self, connectors: Collection[str]) -> dict[str, list[str]]:
        """Return, by member, those of ``connectors`` of which all other members have one item, in order.

        Some may be missing. The result is empty where most members have little of most connectors.
        """
        found: dict[str, list[str]] = {}
        most = len(connectors)
        if self._size < (len(self._counts) - 2) * most:
            return {}
        left_out = self.several | {item.connector for item in self._homes}
        wanted = list(filterfalse(left_out.__contains__, connectors) if left_out else connectors)
        seen: set[str] = set()
        several: set[str] = set()
        for identity, own in self._counts.items():
            missing = list(filterfalse(own.__contains__, wanted))
            if not seen.isdisjoint(missing):
                several.update(seen.intersection(missing))
            seen.update(missing)
            found[identity] = missing
            if len(several) * 2 > most:
                return {}
        if several:
            found = {i: list(filterfalse(several.__contains__, missing)) for i, missing in found.items()}
        return {identity: missing for identity, missing in found.items() if missing}

    def _many_lookups(self) -> bool:
        """Return whether a single pass over everything is cheaper by now."""
        self._looked_up += _LOOKUP + len(self._counts)
        return self._looked_up * 4 > self._size

    @cached_property
    def _leaving(self) -> Mapping[tuple[str, str], int]:
        return Counter(zip(map(itemgetter(0), self._homes), self._homes.values(), strict=True))

    @cached_property
    def _by_connector(self) -> Mapping[str, Mapping[str, int]]:
        running: defaultdict[str, dict[str, int]] = defaultdict(dict)
        connectors = self._connectors
        for identity, own in self._counts.items():
            if len(connectors) < len(own):
                for connector in connectors:
                    if connector in own:
                        running[connector][identity] = own[connector]
            else:
                for connector, count in own.items():
                    if connector in connectors:
                        running[connector][identity] = count
        for (connector, identity), count in self._leaving.items():
            running[connector][identity] -= count
        return dict(running)


def _counts(problem: PlacementProblem, identity: str) -> Mapping[str, int]:
    return connector_counts((*problem.kept[identity], *problem.owed.get(identity, ())))
