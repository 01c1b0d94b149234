"""Placement by weight and capacity: load(m) = Σ weights of m's items / capacity(m).

    pool     the heaviest item first, each to the member that has the least load with it
    moves    while the most loaded member a has a task that fits the least loaded member b better,
             (load of b with it) < (load of a): the task that levels the two most
    at rest  load(a) ≤ load(b with t) for every task t of a; with equal capacities: ≤ mean + heaviest task

Items already on their way move before items about to be started again, and those before running ones. Every
item is placed, whatever the load: capacity is a soft limit. The number of moves is not minimal; it is
reported.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from cooperator.model import TaskId
from cooperator.planner.problem import Placement, PlacementProblem

_LEAST_CAPACITY = 1e-6


@dataclass(slots=True)
class _Bin:
    """A receiver: its items by weight and connector, in the order in which they may be moved."""

    identity: str
    capacity: float
    load: float = 0.0
    items: dict[float, dict[str, list[TaskId]]] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        return self.load / self.capacity

    def with_more(self, weight: float) -> float:
        return (self.load + weight) / self.capacity

    def add(self, item: TaskId, weight: float) -> None:
        self.load += weight
        self.items.setdefault(weight, {}).setdefault(item.connector, []).append(item)

    def count(self, connector: str, weight: float) -> int:
        return len(self.items.get(weight, {}).get(connector, ()))

    def take(self, connector: str, weight: float) -> TaskId:
        self.load -= weight
        of_weight = self.items[weight]
        item = of_weight[connector].pop()
        if not of_weight[connector]:
            del of_weight[connector]
        if not of_weight:
            del self.items[weight]
        return item


class _Ranking:
    """Receivers by relative load."""

    def __init__(self, bins: Iterable[_Bin]) -> None:
        self._bins = {bin_.identity: bin_ for bin_ in bins}
        self._order = sorted((bin_.relative, identity) for identity, bin_ in self._bins.items())

    @property
    def least(self) -> _Bin:
        return self._bins[self._order[0][1]]

    @property
    def most(self) -> _Bin:
        return self._bins[self._order[-1][1]]

    @contextmanager
    def changing(self, bin_: _Bin) -> Iterator[None]:
        """Wrap a change of ``bin_``'s load, to keep the order."""
        del self._order[bisect_left(self._order, (bin_.relative, bin_.identity))]
        yield
        insort(self._order, (bin_.relative, bin_.identity))


def place_by_weight(problem: PlacementProblem) -> Placement:
    """Place the pool; if ``balance``, level the loads."""
    weights = problem.weights if problem.sizes else {}
    bins = {
        identity: _Bin(identity, max(problem.capacities.get(identity, 1.0), _LEAST_CAPACITY))
        for identity in problem.kept
    }
    homes: dict[TaskId, str] = {}
    for identity, bin_ in bins.items():
        bin_.load += sum(_weight(item, weights) for item in problem.reserved.get(identity, ()))
        # The last item of a list moves first, so running items precede those that do not run yet.
        for items in (sorted(problem.kept[identity]), sorted(problem.owed.get(identity, ()))):
            for item in items:
                bin_.add(item, _weight(item, weights))
                homes[item] = identity
    _deal(problem, list(bins.values()), weights)
    if problem.balance:
        _level(list(bins.values()))
    return _answer(problem, bins, homes)


def _deal(problem: PlacementProblem, bins: list[_Bin], weights: Mapping[str, float]) -> None:
    """Deal the heaviest item first, to the member with the least load with it; among equal capacities, to
    the least loaded one."""
    classes: dict[float, _Ranking] = {}
    for capacity in sorted({bin_.capacity for bin_ in bins}):
        classes[capacity] = _Ranking(bin_ for bin_ in bins if bin_.capacity == capacity)
    for item in sorted(problem.pool, key=lambda item: (-_weight(item, weights), item)):
        weight = _weight(item, weights)
        ranking = min(classes.values(), key=lambda ranking: ranking.least.with_more(weight))
        best = ranking.least
        with ranking.changing(best):
            best.add(item, weight)


def _level(bins: list[_Bin]) -> None:
    ranking = _Ranking(bins)
    while True:
        most, least = ranking.most, ranking.least
        fitting = [
            (max((most.load - weight) / most.capacity, least.with_more(weight)), weight)
            for weight in most.items
            if least.with_more(weight) < most.relative
        ]
        if not fitting:
            return
        _, weight = min(fitting)
        of_weight = most.items[weight]
        connector = min(of_weight, key=lambda c: (least.count(c, weight) - len(of_weight[c]), c))
        with ranking.changing(most), ranking.changing(least):
            least.add(most.take(connector, weight), weight)


def _answer(problem: PlacementProblem, bins: Mapping[str, _Bin], homes: Mapping[TaskId, str]) -> Placement:
    pool = frozenset(problem.pool)
    released: dict[str, list[TaskId]] = {}
    placed: dict[TaskId, str] = {}
    for identity, bin_ in bins.items():
        for item in _all(bin_.items.values()):
            if item in pool or homes[item] != identity:
                placed[item] = identity
            if item not in pool and homes[item] != identity and item in problem.kept[homes[item]]:
                released.setdefault(homes[item], []).append(item)
    return Placement(released, placed)


def _all(by_weight: Iterable[Mapping[str, list[TaskId]]]) -> Iterable[TaskId]:
    return (item for by_connector in by_weight for items in by_connector.values() for item in items)


def _weight(item: TaskId, weights: Mapping[str, float]) -> float:
    return weights.get(item.connector, 1.0)
