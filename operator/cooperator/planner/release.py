"""Which items make up a surplus: of each member's connectors the one with the most tasks there, and of those
with as many the one that has the fewest tasks on the way already. What does not run yet goes before what
would have to be stopped.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set

from cooperator.model import INSTANCE, TaskId
from cooperator.planner.itemsets import connector_counts


class Releaser:
    """One surplus to be chosen. ``waiting``: what moves anyway; ``surpluses``: how many, per identity.

    ``sizes``: connector name to its number of tasks; empty for instances. ``crowded``: connectors of which a
    member that lets go of something keeps several.
    """

    def __init__(
        self,
        kept: Mapping[str, frozenset[TaskId]],
        owed: Mapping[str, Collection[TaskId]],
        sizes: Mapping[str, int],
        waiting: Iterable[TaskId],
        surpluses: Mapping[str, int],
    ) -> None:
        self._kept, self._owed, self._sizes, self._surpluses = kept, owed, sizes, surpluses
        self._moving = Counter(item.connector for item in waiting)
        self.crowded: set[str] = set()

    def release(self) -> dict[TaskId, str]:
        """The surplus: item to the identity that lets go of it."""
        homes: dict[TaskId, str] = {}
        for identity, surplus in self._surpluses.items():
            owed = frozenset(self._owed.get(identity, ()))
            counts = dict(connector_counts(self._kept[identity]))
            for connector, count in connector_counts(owed).items():
                counts[connector] = counts.get(connector, 0) + count
            chosen = self._choose(owed, counts, surplus)
            chosen += self._choose(self._kept[identity], counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(self, items: Set[TaskId], counts: dict[str, int], wanted: int) -> list[TaskId]:
        """``wanted`` of ``items``; ``counts`` (of all that the member has) falls with each."""
        left = dict(connector_counts(frozenset(items)))
        chosen: list[TaskId] = []
        while left and len(chosen) < wanted:
            most = max(counts[connector] for connector in left)
            crowded = sorted(connector for connector in left if counts[connector] == most)
            crowded.sort(key=self._moving.__getitem__)
            for connector in crowded[: wanted - len(chosen)]:
                chosen.append(self._last(connector, left[connector], items))
                counts[connector] -= 1
                self._moving[connector] += 1
                left[connector] -= 1
                if not left[connector]:
                    del left[connector]
        return chosen

    def _last(self, connector: str, nth: int, items: Set[TaskId]) -> TaskId:
        """The ``nth`` task of ``connector`` among ``items``, in order of their numbers."""
        if not self._sizes:
            return TaskId(connector, INSTANCE)
        found = 0
        for number in range(self._sizes[connector]):
            item = TaskId(connector, number)
            found += item in items
            if found == nth:
                return item
        raise AssertionError(f"{connector} has fewer than {nth} tasks here")
