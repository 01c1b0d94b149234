"""The target: where an assignor wants every item of one kind to run, and the loads that result."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cooperator.model import TaskId
from cooperator.planner.problem import Assignor, DealtInTurn, PlacementProblem


@dataclass(frozen=True, slots=True)
class Target:
    """``released`` and ``placed``: as in ``Placement``.

    ``put_off``: items would be released if this round allowed it.
    """

    released: Mapping[str, Collection[TaskId]]
    placed: Mapping[TaskId, str]
    put_off: bool = False


def find(problem: PlacementProblem, assignor: Assignor, ask_what_is_put_off: bool = False) -> Target:
    """Return the target of ``problem``."""
    if not problem.kept:
        return Target({}, {})
    placement = assignor.assign(problem)
    put_off = ask_what_is_put_off and bool(assignor.assign(replace(problem, balance=True)).released)
    return Target(placement.released, placement.placed, put_off)


def loads(problem: PlacementProblem, found: Target) -> dict[str, int]:
    """Return how many items each receiver of ``problem`` has once everything is placed as in ``found``."""
    counts = problem.loads()
    for identity, items in found.released.items():
        counts[identity] -= len(items)
    if isinstance(found.placed, DealtInTurn):
        for identity, items in found.placed.by_receiver():
            counts[identity] += len(items)
    else:
        for identity, count in Counter(found.placed.values()).items():
            counts[identity] += count
    for identity, owed in problem.owed.items():
        if identity in counts:
            counts[identity] -= sum(item in found.placed for item in owed)
    return counts
