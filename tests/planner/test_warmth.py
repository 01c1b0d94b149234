"""Members whose runtime is not up yet: what they are given, what is taken for them, and what waits."""

import pytest

from cooperator.model import Policy, TaskId, Warmth
from cooperator.planner import Facts, Plan, Why
from tests.planner.test_departures import SECOND_MS, running
from tests.planner.unreliable_group import UnreliableGroup, of, owned


def empty(plan: Plan) -> bool:
    return all(assignment.is_empty for assignment in plan.assignments.values())


def test_a_worker_s_first_start_is_shared_out_at_once() -> None:
    group = UnreliableGroup(a=6)
    for number in range(3):
        group.join(f"w{number}", Warmth.WARMING)
    group.round()
    assert sorted(map(len, owned(group).values())) == [2, 2, 3]
    for number in (1, 0, 2):
        group.named(f"w{number}").warmth = Warmth.WARM
        assert empty(group.round()), "each has what it would have"


def test_nothing_is_taken_for_a_newcomer_before_it_is_warm_and_then_all_in_one_round() -> None:
    group = running(3, a=12)
    before = owned(group)
    for identity in ("w3", "w4"):
        group.join(identity, Warmth.WARMING)
        assert empty(group.round())
    for identity in ("w3", "w4"):
        group.named(identity).warmth = Warmth.WARM
    taken = group.round()
    assert {reason.why for reason in taken.revoked_why.values()} == {Why.BALANCE}
    assert len(taken.revoked_why) == 4
    for process in group.members():
        group.stopped(process)
    given = group.round()
    assert given.assigned_why.keys() == taken.revoked_why.keys()
    assert all(owned(group)[identity] <= before[identity] for identity in before)
    group.check_complete_and_balanced()


@pytest.mark.parametrize("warmth", [Warmth.WARMING, Warmth.STALLED])
def test_unassigned_tasks_go_to_warm_members(warmth: Warmth) -> None:
    group = running(2, a=2)
    group.join("w2", warmth)
    group.task_counts["b"] = 5
    group.round()
    assert owned(group)["w2"] == set()
    assert group.memory.given["w2"] == frozenset()
    assert set().union(*owned(group).values()) == group.configured()


def test_a_returning_member_gets_exactly_its_own_tasks_at_once() -> None:
    group = running(3)
    lost = owned(group)["w1"]
    group.kill(group.named("w1"), proven=True)
    group.round()
    group.task_counts["c"] = 3
    group.join("w1", Warmth.WARMING)
    back = group.round()
    assert set(back.assignments[group.named("w1").incarnation].assigned) == lost
    assert not back.revoked_why
    assert {back.assigned_why[task].why for task in lost} == {Why.RETURNED}
    assert of("c", "c-0", "c-1", "c-2") <= owned(group)["w0"] | owned(group)["w2"]


def test_a_departing_member_runs_on_until_another_is_warm() -> None:
    group = running(1)
    running_there = owned(group)["w0"]
    group.join("w1", Warmth.WARMING)
    assert empty(group.round())
    group.named("w0").draining = True
    waits = group.round()
    assert empty(waits)
    assert not waits.held
    group.named("w1").warmth = Warmth.WARM
    assert group.round().revoked_why.keys() == running_there


def test_a_departing_member_does_not_wait_for_a_runtime_that_fails_to_start() -> None:
    group = running(1)
    group.join("w1", Warmth.WARMING)
    group.named("w0").draining = True
    assert empty(group.round())
    group.named("w1").warmth = Warmth.STALLED
    assert group.round().revoked_why.keys() == owned(group)["w0"] | group.configured()


def test_a_cold_departing_member_keeps_nothing() -> None:
    group = running(1)
    group.join("w1", Warmth.WARMING)
    group.named("w0").warmth = Warmth.WARMING
    group.named("w0").draining = True
    assert group.round().revoked_why.keys() == group.configured()


def test_a_member_that_will_return_is_not_kept_waiting() -> None:
    group = running(1)
    group.join("w1", Warmth.WARMING)
    group.facts = Facts(returning=frozenset({"w0"}))
    group.named("w0").draining = True
    draining = group.round()
    assert draining.revoked_why.keys() == group.configured() == draining.held.keys()


def test_the_tasks_of_who_is_gone_for_good_are_for_the_warm() -> None:
    group = running(3, Policy(scheduled_rebalance_max_delay_ms=20 * SECOND_MS))
    lost = owned(group)["w2"]
    group.join("w3", Warmth.WARMING)
    group.round()
    group.kill(group.named("w2"), proven=True)
    group.round()
    group.advance(20 * SECOND_MS)
    assert group.round().assigned_why.keys() == lost
    assert owned(group)["w3"] == set()


def test_a_warming_member_has_joined_and_is_not_awaited() -> None:
    group = running(2, a=6)
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2", "w3"}))
    group.join("w2", Warmth.WARM)
    group.join("w3", Warmth.WARMING)
    taken = group.round()
    assert len([task for task in taken.revoked_why if not task.is_instance]) == 2, "for w2, at once"
    assert "w3" not in group.memory.joins


A, B = "w0", "w1"


@pytest.mark.parametrize(
    ("cordoned", "warmth", "receiver"),
    [
        ({A}, {B: Warmth.WARMING}, B),
        ({A}, {B: Warmth.STALLED}, A),
        ({A, B}, {A: Warmth.WARMING}, B),
        ({A, B}, {A: Warmth.WARMING, B: Warmth.STALLED}, A),
        ({A}, {A: Warmth.STALLED, B: Warmth.STALLED}, B),
        (set(), {A: Warmth.STALLED, B: Warmth.WARMING}, B),
    ],
    ids=[
        "a cordon before warmth",
        "a cordoned one before one that has stalled",
        "the warm of two that are cordoned",
        "members that may come up before those that have stalled",
        "of two that have stalled the one without a cordon",
        "of two that are cold the one that may come up",
    ],
)
def test_the_receiver_of_unassigned_tasks(
    cordoned: set[str], warmth: dict[str, Warmth], receiver: str
) -> None:
    group = UnreliableGroup(a=0)
    group.join(A)
    group.join(B)
    group.settle()
    group.facts = Facts(cordoned=frozenset(cordoned))
    for identity, how in warmth.items():
        group.named(identity).warmth = how
    group.task_counts["b"] = 4
    new = {TaskId("b", number) for number in range(-1, 4)}
    assert set(group.round().assignments[group.named(receiver).incarnation].assigned) == new


def test_a_runtime_that_has_stalled_keeps_what_is_its_own() -> None:
    group = running(3)
    group.named("w1").warmth = Warmth.STALLED
    assert empty(group.round())
