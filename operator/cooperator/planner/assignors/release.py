"""Chooses the items of a surplus: from the member's connector with the most tasks there; on a tie, from the
one with the fewest tasks on the way already. Items that do not run yet go before items that would have to be
stopped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice

from cooperator.model import TaskId
from cooperator.planner.itemsets import by_connector, connector_counts
from cooperator.planner.problem import PlacementProblem


class Releaser:
    """Chooses the surplus of one problem. ``surpluses``: number of items per identity.

    ``crowded``: connectors of which a releasing member keeps several items.
    """

    def __init__(self, problem: PlacementProblem, surpluses: Mapping[str, int]) -> None:
        self._problem, self._surpluses = problem, surpluses
        self._moving: dict[str, int] = dict(Counter(item.connector for item in problem.pool))
        self.crowded: set[str] = set()

    def release(self) -> dict[TaskId, str]:
        """Return the surplus: the identity that releases each item."""
        homes: dict[TaskId, str] = {}
        for identity, surplus in self._surpluses.items():
            kept = self._problem.kept[identity]
            owed = frozenset(self._problem.owed.get(identity, ()))
            own, only = by_connector(kept, len(self._problem.sizes))
            if only is not None and not owed:
                homes.update(dict.fromkeys(self._choose_single(only, surplus), identity))
                continue
            counts, coming = dict(own), connector_counts(owed)
            for connector, count in coming.items():
                counts[connector] = counts.get(connector, 0) + count
            chosen = self._choose(owed, coming, counts, surplus) if owed else []
            chosen += self._choose(kept, own, counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            if counts and max(counts.values()) > 1:
                self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(
        self, items: frozenset[TaskId], left: dict[str, int], counts: dict[str, int], wanted: int
    ) -> list[TaskId]:
        """Choose ``wanted`` of ``items``, and subtract them from ``left``, the counts of ``items``, and from
        ``counts`` (of all that the member has)."""
        in_order: dict[str, list[TaskId]] = {}
        chosen: list[TaskId] = []
        while left and len(chosen) < wanted:
            most = max(map(counts.__getitem__, left))
            crowded = self._sorted([connector for connector in left if counts[connector] == most])
            crowded.sort(key=self._on_the_way)
            turn = crowded[: wanted - len(chosen)]
            if not in_order.keys() >= set(turn):
                # Often one turn is enough; otherwise everything left is looked up at once.
                _gather(items, left.keys() - in_order.keys() if in_order else frozenset(turn), in_order)
            self._take_note(turn)
            for connector in turn:
                counts[connector] -= 1
                # The highest number goes first.
                chosen.append(in_order[connector].pop())
                left[connector] -= 1
                if not left[connector]:
                    del left[connector]
        return chosen

    def _choose_single(self, only: Mapping[str, TaskId], wanted: int) -> list[TaskId]:
        """Like ``_choose``, for a member that has ``only`` one item of each connector."""
        turn = list(islice(filter(only.__contains__, self._resting), wanted))
        if len(turn) < wanted:
            turn = sorted(self._sorted(list(only)), key=self._on_the_way)[:wanted]
        self._take_note(turn)
        return list(map(only.__getitem__, turn))

    def _take_note(self, turn: Sequence[str]) -> None:
        moving, resting = self._moving, self._resting
        for connector in turn:
            moving[connector] = moving.get(connector, 0) + 1
            resting.pop(connector, None)

    def _on_the_way(self, connector: str) -> int:
        return self._moving.get(connector, 0)

    @cached_property
    def _resting(self) -> dict[str, None]:
        """The connectors of which nothing is on the way, in order; empty when instances are placed."""
        resting = dict.fromkeys(self._all_sorted)
        for connector in self._moving:
            resting.pop(connector, None)
        return resting

    @cached_property
    def _all_sorted(self) -> list[str]:
        return sorted(self._problem.sizes)

    def _sorted(self, connectors: list[str]) -> list[str]:
        """Sort ``connectors``; many of them are filtered from the sorted list of all."""
        if len(connectors) * 8 < len(self._problem.sizes):
            return sorted(connectors)
        found = list(filter(frozenset(connectors).__contains__, self._all_sorted))
        return found if len(found) == len(connectors) else sorted(connectors)


def _gather(items: Iterable[TaskId], connectors: Set[str], into: dict[str, list[TaskId]]) -> None:
    """Put the sorted items of each of ``connectors`` into ``into``."""
    found: dict[str, list[TaskId]] = {}
    for item in items:
        if item[0] in connectors:
            found.setdefault(item[0], []).append(item)
    for connector, own in found.items():
        into[connector] = sorted(own)
