"""Which items make up a surplus: of each member's connectors the one with the most tasks there, and of those
with as many the one that has the fewest tasks on the way already. What does not run yet goes before what
would have to be stopped.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set

from cooperator.model import TaskId
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import Problem


class Releaser:
    """One surplus to be chosen; ``surpluses``: how many items of each identity.

    ``crowded``: connectors of which a member that lets go of something keeps several.
    """

    def __init__(self, problem: Problem, surpluses: Mapping[str, int]) -> None:
        self._problem, self._surpluses = problem, surpluses
        self._moving = defaultdict(int, Counter(item.connector for item in problem.pool))
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
            chosen = self._choose(owed, counts, surplus)
            chosen += self._choose(kept, counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(self, items: Set[TaskId], counts: dict[str, int], wanted: int) -> list[TaskId]:
        """``wanted`` of ``items``; ``counts`` (of all that the member has) falls with each."""
        left = dict(connector_counts(frozenset(items)))
        in_order: dict[str, list[TaskId]] = {}
        chosen: list[TaskId] = []
        while left and len(chosen) < wanted:
            most = max(map(counts.__getitem__, left))
            crowded = self._sorted([connector for connector in left if counts[connector] == most])
            crowded.sort(key=self._moving.__getitem__)
            turn = crowded[: wanted - len(chosen)]
            if not in_order.keys() >= set(turn):
                # Often one turn is enough; else all that is left is looked up at once.
                _gather(items, left.keys() - in_order.keys() if in_order else frozenset(turn), in_order)
            for connector in turn:
                # The highest number goes first.
                chosen.append(in_order[connector].pop())
                counts[connector] -= 1
                self._moving[connector] += 1
                left[connector] -= 1
                if not left[connector]:
                    del left[connector]
        return chosen

    def _sorted(self, connectors: list[str]) -> list[str]:
        """``connectors`` in order; many of them are taken out of the order of all."""
        sizes = self._problem.sizes
        if len(connectors) * 8 < len(sizes):
            return sorted(connectors)
        if self._in_order is None:
            self._in_order = sorted(sizes)
        wanted = frozenset(connectors)
        found = [connector for connector in self._in_order if connector in wanted]
        return found if len(found) == len(wanted) else sorted(connectors)


def _gather(items: Iterable[TaskId], connectors: Set[str], into: dict[str, list[TaskId]]) -> None:
    """The items of each of ``connectors``, in order."""
    found: dict[str, list[TaskId]] = {}
    for item in items:
        if item[0] in connectors:
            found.setdefault(item[0], []).append(item)
    for connector, own in found.items():
        into[connector] = sorted(own)
