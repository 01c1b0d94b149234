"""Which items make up a surplus: those whose leaving spreads their connectors most.

    gain of moving a task of c away from m ≈ n(c, m) − (tasks of c on their way or at the members below
    their quota) / (number of those members)

What does not run yet goes before what would have to be stopped.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from cooperator.model import TaskId


class Releaser:
    """One surplus to be chosen. ``waiting``: what moves anyway; ``loads`` and ``surpluses``: per identity.

    ``crowded``: connectors of which a member that lets go of something keeps several.
    """

    def __init__(
        self,
        kept: Mapping[str, frozenset[TaskId]],
        owed: Mapping[str, Collection[TaskId]],
        waiting: Iterable[TaskId],
        loads: Mapping[str, int],
        surpluses: Mapping[str, int],
    ) -> None:
        self._kept, self._owed, self._surpluses = kept, owed, surpluses
        most = min(loads[identity] - count for identity, count in surpluses.items())
        below = [identity for identity, load in loads.items() if load < most]
        self._takers = max(1, len(below))
        self._ahead = Counter(item.connector for item in waiting)
        for identity in below:
            self._ahead.update(item.connector for item in kept[identity])
        self.crowded: set[str] = set()

    def release(self) -> dict[TaskId, str]:
        """The surplus: item to the identity that lets go of it."""
        homes: dict[TaskId, str] = {}
        for identity, surplus in self._surpluses.items():
            kept, owed = self._kept[identity], self._owed.get(identity, ())
            counts = Counter(item.connector for item in kept)
            counts.update(item.connector for item in owed)
            chosen = self._choose(owed, counts, surplus)
            chosen += self._choose(kept, counts, surplus - len(chosen))
            homes.update(dict.fromkeys(chosen, identity))
            self.crowded.update(connector for connector, count in counts.items() if count > 1)
        return homes

    def _choose(self, items: Collection[TaskId], counts: Counter[str], wanted: int) -> list[TaskId]:
        if wanted <= 0 or not items:
            return []
        by_connector: dict[str, list[TaskId]] = {}
        for item in sorted(items):
            by_connector.setdefault(item.connector, []).append(item)
        heap = [(self._loss(c, counts), self._ahead[c], c) for c in by_connector]
        heapify(heap)
        chosen: list[TaskId] = []
        while heap and len(chosen) < wanted:
            _, _, connector = heappop(heap)
            chosen.append(by_connector[connector].pop())
            counts[connector] -= 1
            self._ahead[connector] += 1
            if by_connector[connector]:
                heappush(heap, (self._loss(connector, counts), self._ahead[connector], connector))
        return chosen

    def _loss(self, connector: str, counts: Counter[str]) -> int:
        return self._ahead[connector] // self._takers - counts[connector]
