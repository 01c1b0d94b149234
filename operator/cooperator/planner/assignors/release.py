"""Which items make up a surplus: of each member's connectors the one with the most tasks there, and of those
with as many the one that has the fewest tasks on the way already. What does not run yet goes before what
would have to be stopped.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

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
            chosen = self._choose(owed, counts, surplus) if owed else []
            chosen += self._choose(kept, counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            if counts and max(counts.values()) > 1:
                self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(self, items: Set[TaskId], counts: dict[str, int], wanted: int) -> list[TaskId]:
        """``wanted`` of ``items``; ``counts`` (of all that the member has) falls with each."""
        left = dict(connector_counts(frozenset(items)))
        in_order: dict[str, list[TaskId]] = {}
        chosen: list[TaskId] = []
        while left and len(chosen) < wanted:
            most, crowded = _most_crowded(left, counts)
            crowded = self._sorted(crowded)
            crowded.sort(key=self._moving.__getitem__)
            turn = crowded[: wanted - len(chosen)]
            for connector in turn:
                counts[connector] -= 1
                self._moving[connector] += 1
            if most == 1 and not in_order:
                # They have one item each, and it is the last turn, or all that is left.
                chosen += _only_items(items, turn)
                for connector in turn:
                    del left[connector]
                continue
            if not in_order.keys() >= set(turn):
                # Often one turn is enough; else all that is left is looked up at once.
                _gather(items, left.keys() - in_order.keys() if in_order else frozenset(turn), in_order)
            for connector in turn:
                # The highest number goes first.
                chosen.append(in_order[connector].pop())
                left[connector] -= 1
                if not left[connector]:
                    del left[connector]
        return chosen

    def _sorted(self, connectors: Collection[str]) -> list[str]:
        """``connectors`` in order; many of them are taken out of the order of all."""
        sizes = self._problem.sizes
        if len(connectors) * 8 < len(sizes):
            return sorted(connectors)
        if self._in_order is None:
            self._in_order = sorted(sizes)
        wanted = connectors if isinstance(connectors, dict) else frozenset(connectors)
        found = list(filter(wanted.__contains__, self._in_order))
        return found if len(found) == len(wanted) else sorted(connectors)


def _most_crowded(left: dict[str, int], counts: Mapping[str, int]) -> tuple[int, Collection[str]]:
    """The most that the member has of one connector, of those that are ``left``, and all that it has so many
    of."""
    if left == counts:
        of_left: Collection[int] = counts.values()
    else:
        of_left = list(map(counts.__getitem__, left))
    most = max(of_left)
    if most == min(of_left):
        return most, left
    return most, [connector for connector in left if counts[connector] == most]


def _only_items(items: Iterable[TaskId], connectors: Sequence[str]) -> list[TaskId]:
    """The one item of each of ``connectors``, in their order."""
    wanted = frozenset(connectors)
    found = {item[0]: item for item in items if item[0] in wanted}
    return [found[connector] for connector in connectors]


def _gather(items: Iterable[TaskId], connectors: Set[str], into: dict[str, list[TaskId]]) -> None:
    """The items of each of ``connectors``, in order."""
    found: dict[str, list[TaskId]] = {}
    for item in items:
        if item[0] in connectors:
            found.setdefault(item[0], []).append(item)
    for connector, own in found.items():
        into[connector] = sorted(own)
