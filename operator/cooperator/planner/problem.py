"""The plug-in interface of assignors: the problem they get, and the placement they return.

An assignor decides which receiver should run each item of one kind: connector instances and tasks are two
problems. It decides nothing else. The tasks that wait, the members that may receive work and the tasks that
may move in this round are settled before; that nothing starts before it has stopped elsewhere is ensured
afterwards, whatever the answer.

A plug-in is a class with the method ``assign``, named by an entry point of the group
``cooperator.assignors``; ``cooperator.scenarios.conformance`` has the checks that it must pass.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import cycle
from typing import Protocol

from cooperator.model import TaskId


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """Items of one kind, to be placed with the receivers: the keys of ``kept``, in order of identity.

    ``kept``: what a receiver runs and may keep running. ``owed``: what it gets back now and does not run
    yet; it counts as its own. ``reserved``: what it will get back later; an assignor cannot place it now.
    ``pool``: items that are free now or will be soon, sorted. ``sizes``: number of tasks per connector name;
    empty for instances. ``balance``: whether receivers may be asked to release items in this round.
    ``of_other_kind``: number of items of the other kind per receiver, for ties. ``weights``: weight of one
    task per connector, 1 if absent. ``capacities``: per receiver, 1 if absent; its fair load is proportional
    to it. ``zones``: per receiver, "" if absent.
    """

    kept: Mapping[str, frozenset[TaskId]]
    pool: Sequence[TaskId]
    sizes: Mapping[str, int] = field(default_factory=dict)
    owed: Mapping[str, Collection[TaskId]] = field(default_factory=dict)
    reserved: Mapping[str, Collection[TaskId]] = field(default_factory=dict)
    balance: bool = True
    of_other_kind: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    capacities: Mapping[str, float] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)

    def loads(self) -> dict[str, int]:
        """Return how many items count as each receiver's own, before anything is placed."""
        owed, reserved = self.owed, self.reserved
        return {
            identity: len(kept) + len(owed.get(identity, ())) + len(reserved.get(identity, ()))
            for identity, kept in self.kept.items()
        }

    @property
    def is_even(self) -> bool:
        """Whether every item weighs the same and every receiver has the same capacity."""
        capacities = {self.capacities.get(identity, 1.0) for identity in self.kept}
        return len(capacities) < 2 and len({*self.weights.values(), 1.0}) < 2


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer of an assignor.

    ``released``: per receiver, items of its ``kept`` that it must release; none unless ``balance``.
    ``placed``: the receiver that should run the item, for every item of ``pool``, every released one, and
    every owed one that is better placed elsewhere.
    """

    released: Mapping[str, Collection[TaskId]] = field(default_factory=dict)
    placed: Mapping[TaskId, str] = field(default_factory=dict)


class DealtInTurn(Mapping[TaskId, str]):
    """Round-robin placement: ``items[n]`` goes to ``receivers[n % len(receivers)]``.

    The mapping is made when an item is looked up.
    """

    def __init__(self, items: Sequence[TaskId], receivers: Sequence[str]) -> None:
        self._items, self._receivers = items, receivers

    def by_receiver(self) -> Iterator[tuple[str, Sequence[TaskId]]]:
        """Yields the items of each receiver, in order, as one slice; receivers without items are left out."""
        count = len(self._receivers)
        return ((receiver, self._items[n::count]) for n, receiver in enumerate(self._receivers[: len(self)]))

    @cached_property
    def _placed(self) -> dict[TaskId, str]:
        return dict(zip(self._items, cycle(self._receivers), strict=False))

    def __getitem__(self, item: TaskId) -> str:
        return self._placed[item]

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Assignor(Protocol):
    """A placement strategy. It is pure: the same problem gives the same placement, in any process."""

    def assign(self, problem: PlacementProblem) -> Placement:
        """Place ``problem.pool``; ``problem.kept`` has at least one receiver."""
