"""The checks themselves: what is right passes, and wrong histories do not."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cooperator.model import Assignment, Member, Memory, TaskId, Warmth
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.view import View
from tests.simulation.promises.base import Broken
from tests.simulation.promises.moves import LeastMoves
from tests.simulation.simulation import Planned


def tasks(*numbers: int) -> tuple[TaskId, ...]:
    return tuple(TaskId("a", number) for number in numbers)


def round_of(members: dict[Member, Assignment], count: int, given: dict[str, tuple[TaskId, ...]]) -> Planned:
    view = View(now_ms=0, generation=5, members=tuple(members), tasks={"a": count})
    plan = Plan(
        assignments={member.member_id: assignment for member, assignment in members.items()},
        revoked_why={t: Reason(Why.BALANCE) for assignment in members.values() for t in assignment.revoked},
    )
    # Of several incarnations the last one named is the newest.
    newest = {member.identity: member.incarnation for member in members}
    after = Memory(1, 5, {i: frozenset(of) for i, of in given.items()}, newest)
    return Planned(view, Memory(), plan, after)


def check(planned: Planned) -> None:
    LeastMoves(cast("Any", SimpleNamespace(plans=[planned]))).check()


def test_an_earlier_incarnation_is_nobody_to_balance_with() -> None:
    """Simulation seed 801334: it was warm, and the tasks of its warming successor were counted as to be
    dealt."""
    warming = Member("w1#2", "w1", "2", tasks(2, 3), warmth=Warmth.WARMING)
    members = {
        Member("w0#1", "w0", "1", tasks(0, 1)): Assignment(revoked=tasks(1)),
        Member("w1#1", "w1", "1"): Assignment(),
        warming: Assignment(),
        Member("w2#1", "w2", "1"): Assignment(),
    }
    check(round_of(members, 4, {"w0": tasks(0), "w1": tasks(2, 3), "w2": ()}))


def test_a_move_that_nobody_needs_is_found_beside_an_earlier_incarnation() -> None:
    members = {
        Member("w0#1", "w0", "1", tasks(0)): Assignment(revoked=tasks(0)),
        Member("w1#1", "w1", "1"): Assignment(),
        Member("w1#2", "w1", "2", tasks(1, 2), warmth=Warmth.WARMING): Assignment(),
        Member("w2#1", "w2", "1"): Assignment(),
    }
    with pytest.raises(Broken, match="1 tasks are moved for balance, and 0 would do"):
        check(round_of(members, 3, {"w0": (), "w1": tasks(1, 2), "w2": ()}))
