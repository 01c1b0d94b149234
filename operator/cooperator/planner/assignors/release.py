"""Which items make up a surplus: of each member's connectors the one with the most tasks there, and of those
with as many the one that has the fewest tasks on the way already. What does not run yet goes before what
would have to be stopped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import filterfalse, islice

from cooperator.model import TaskId
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import Problem


class Releaser:
    """One surplus to be chosen; ``surpluses``: how many items of each identity.

    ``crowded``: connectors of which a member that lets go of something keeps several.
    """

    def __init__(self, problem: Problem, surpluses: Mapping[str, int]) -> None:
        self._problem, self._surpluses = problem, surpluses
        self._moving: dict[str, int] = dict(Counter(item.connector for item in problem.pool))
        self._in_order: list[str] | None = None
        self.crowded: set[str] = set()

    def release(self) -> dict[TaskId, str]:
        """The surplus: item to the identity that lets go of it."""
        homes: dict[TaskId, str] = {}
        for identity, surplus in self._surpluses.items():
            kept = self._problem.kept[identity]
            owed = frozenset(self._problem.owed.get(identity, ()))
            counts = dict(connector_counts(kept))
            for connector, count in connector_counts(owed).items():
                counts[connector] = counts.get(connector, 0) + count
            chosen = self._choose(owed, counts, surplus) if owed else []
            chosen += self._choose(kept, counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            if counts and max(counts.values()) > 1:
                self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(self, items: frozenset[TaskId], counts: dict[str, int], wanted: int) -> list[TaskId]:
        """``wanted`` of ``items``; ``counts`` (of all that the member has) falls with each."""
        of_items = connector_counts(items)
        if wanted and max(counts.values(), default=0) == 1 and len(of_items) == len(counts):
            return self._choose_single(items, counts, wanted)
        left = dict(of_items)
        in_order: dict[str, list[TaskId]] = {}
        chosen: list[TaskId] = []
        while left and len(chosen) < wanted:
            most = max(map(counts.__getitem__, left))
            crowded = self._sorted([connector for connector in left if counts[connector] == most])
            crowded.sort(key=self._on_the_way)
            turn = crowded[: wanted - len(chosen)]
            if not in_order.keys() >= set(turn):
                # Often one turn is enough; else all that is left is looked up at once.
                _gather(items, left.keys() - in_order.keys() if in_order else frozenset(turn), in_order)
            self._take_note(turn, counts)
            for connector in turn:
                # The highest number goes first.
                chosen.append(in_order[connector].pop())
                left[connector] -= 1
                if not left[connector]:
                    del left[connector]
        return chosen

    def _choose_single(self, items: frozenset[TaskId], counts: dict[str, int], wanted: int) -> list[TaskId]:
        """As ``_choose``, of a member that has one item of each connector."""
        resting = filterfalse(self._moving.__contains__, filter(counts.__contains__, self._all_sorted()))
        turn = list(islice(resting, wanted))
        if len(turn) < wanted:
            turn = sorted(self._sorted(list(counts)), key=self._on_the_way)[:wanted]
        self._take_note(turn, counts)
        among = frozenset(turn)
        found = {item[0]: item for item in items if item[0] in among}
        return [found[connector] for connector in turn]

    def _take_note(self, turn: Sequence[str], counts: dict[str, int]) -> None:
        moving = self._moving
        for connector in turn:
            counts[connector] -= 1
            moving[connector] = moving.get(connector, 0) + 1

    def _on_the_way(self, connector: str) -> int:
        return self._moving.get(connector, 0)

    def _all_sorted(self) -> list[str]:
        if self._in_order is None:
            self._in_order = sorted(self._problem.sizes)
        return self._in_order

    def _sorted(self, connectors: list[str]) -> list[str]:
        """``connectors`` in order; many of them are taken out of the order of all."""
        if len(connectors) * 8 < len(self._problem.sizes):
            return sorted(connectors)
        found = list(filter(frozenset(connectors).__contains__, self._all_sorted()))
        return found if len(found) == len(connectors) else sorted(connectors)


def _gather(items: Iterable[TaskId], connectors: Set[str], into: dict[str, list[TaskId]]) -> None:
    """The items of each of ``connectors``, in order."""
    found: dict[str, list[TaskId]] = {}
    for item in items:
        if item[0] in connectors:
            found.setdefault(item[0], []).append(item)
    for connector, own in found.items():
        into[connector] = sorted(own)
