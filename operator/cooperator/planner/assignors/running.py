"""How many items of each connector the members have before a pool is dealt; counted as far as asked for."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Set
from functools import cached_property
from operator import itemgetter

from cooperator.model import TaskId
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import Problem


class Running:
    """What each member keeps or gets back, less what it is to let go (``homes``: item to that member).

    ``connectors``: those of the pool; nothing else is asked for.
    """

    def __init__(self, problem: Problem, homes: Mapping[TaskId, str], connectors: Collection[str]) -> None:
        self._connectors = connectors
        self._homes = homes
        self._counts = {identity: _counts(problem, identity) for identity in problem.kept}
        self._size = sum(map(len, self._counts.values()))
        self._looked_up = 0

    def of(self, connector: str) -> Mapping[str, int] | None:
        """Per identity; None if nobody has had any of it."""
        if self._many_lookups():
            return self._by_connector.get(connector)
        here = {identity: own[connector] for identity, own in self._counts.items() if connector in own}
        for identity in here:
            here[identity] -= self._leaving.get((connector, identity), 0)
        return here or None

    def occupied(self, connectors: Collection[str]) -> Set[str]:
        """Those of ``connectors`` of which somebody has had something."""
        wanted = dict.fromkeys(connectors).keys()
        return set[str]().union(*(wanted & own.keys() for own in self._counts.values() if own))

    @cached_property
    def several(self) -> Set[str]:
        """At least those connectors of which one member has several."""
        more = (own for own in self._counts.values() if own and max(own.values()) > 1)
        return {connector for own in more for connector, count in own.items() if count > 1}

    def has_any(self, identity: str) -> bool:
        """Whether the member has had anything."""
        return bool(self._counts[identity])

    def lacking(self, connectors: Collection[str]) -> dict[str, str]:
        """Those of ``connectors`` that all members but one have one item of, and that one.

        Some may be left out. None is found where most members have little of most connectors.
        """
        found: dict[str, str] = {}
        most = len(connectors)
        if self._size < (len(self._counts) - 2) * most:
            return found
        left_out = self.several | {item.connector for item in self._homes}
        wanted = dict.fromkeys(connectors).keys() - left_out
        several: set[str] = set()
        for identity, own in self._counts.items():
            missing = wanted - own.keys()
            several |= missing & found.keys()
            found.update(dict.fromkeys(missing, identity))
            if len(several) * 2 > most:
                return {}
        for connector in several:
            del found[connector]
        return found

    def _many_lookups(self) -> bool:
        """Whether it is cheaper by now to look at everything once."""
        self._looked_up += len(self._counts)
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


def _counts(problem: Problem, identity: str) -> Mapping[str, int]:
    own = connector_counts(problem.kept[identity])
    if not problem.owed.get(identity):
        return own
    counts = Counter(own)
    counts.update(item.connector for item in problem.owed[identity])
    return counts
