"""Where every item of one kind should run, as an assignor finds it, and what that means for the loads."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cooperator.model import TaskId
from cooperator.planner.problem import Assignor, Problem


@dataclass(frozen=True, slots=True)
class Target:
    """``released`` and ``placed``: as in ``Placement``. ``loads``: per receiver, once everything is placed.

    ``put_off``: something would be released if that were allowed in this round.
    """

    released: Mapping[str, Collection[TaskId]]
    placed: Mapping[TaskId, str]
    loads: Mapping[str, int]
    put_off: bool = False


def find(problem: Problem, assignor: Assignor, ask_what_is_put_off: bool = False) -> Target:
    """The target of ``problem``."""
    loads = problem.loads()
    if not loads:
        return Target({}, {}, {})
    placement = assignor.assign(problem)
    for identity, items in placement.released.items():
        loads[identity] -= len(items)
    for identity, count in Counter(placement.placed.values()).items():
        loads[identity] += count
    for identity, items in problem.owed.items():
        if identity in loads:
            loads[identity] -= sum(item in placement.placed for item in items)
    put_off = ask_what_is_put_off and bool(assignor.assign(replace(problem, balance=True)).released)
    return Target(placement.released, placement.placed, loads, put_off)
