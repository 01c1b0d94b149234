"""Members whose runtime is not up yet: what they are given, what is taken for them, and what waits."""

import pytest

from cooperator.model import Policy, TaskId, Warmth
from cooperator.planner import Facts, Plan, Why
from planner.test_departures import SECOND_MS, running
from planner.world import World, of, owned


def empty(plan: Plan) -> bool:
    return all(share.is_empty for share in plan.shares.values())


def test_a_worker_s_first_start_is_shared_out_at_once() -> None:
    world = World(a=6)
    for number in range(3):
        world.join(f"w{number}", Warmth.WARMING)
    world.round()
    assert sorted(map(len, owned(world).values())) == [2, 2, 3]
    for number in (1, 0, 2):
        world.named(f"w{number}").warmth = Warmth.WARM
        assert empty(world.round()), "each has what it would have"


def test_nothing_is_taken_for_a_newcomer_before_it_is_warm_and_then_all_in_one_round() -> None:
    world = running(3, a=12)
    before = owned(world)
    for identity in ("w3", "w4"):
        world.join(identity, Warmth.WARMING)
        assert empty(world.round())
    for identity in ("w3", "w4"):
        world.named(identity).warmth = Warmth.WARM
    taken = world.round()
    assert {reason.why for reason in taken.revoked_why.values()} == {Why.BALANCE}
    assert len(taken.revoked_why) == 4
    for process in world.members():
        world.stopped(process)
    given = world.round()
    assert given.assigned_why.keys() == taken.revoked_why.keys()
    assert all(owned(world)[identity] <= before[identity] for identity in before)
    world.check_complete_and_balanced()


@pytest.mark.parametrize("warmth", [Warmth.WARMING, Warmth.STALLED])
def test_what_nobody_has_goes_to_who_is_warm(warmth: Warmth) -> None:
    world = running(2, a=2)
    world.join("w2", warmth)
    world.task_counts["b"] = 5
    world.round()
    assert owned(world)["w2"] == set()
    assert world.memory.given["w2"] == frozenset()
    assert set().union(*owned(world).values()) == world.configured()


def test_who_returns_has_its_own_at_once_and_nothing_else() -> None:
    world = running(3)
    lost = owned(world)["w1"]
    world.kill(world.named("w1"), proven=True)
    world.round()
    world.task_counts["c"] = 3
    world.join("w1", Warmth.WARMING)
    back = world.round()
    assert set(back.shares[world.named("w1").incarnation].assigned) == lost
    assert not back.revoked_why
    assert {back.assigned_why[task].why for task in lost} == {Why.RETURNED}
    assert of("c", "c-0", "c-1", "c-2") <= owned(world)["w0"] | owned(world)["w2"]


def test_who_departs_runs_on_until_somebody_is_warm() -> None:
    world = running(1)
    running_there = owned(world)["w0"]
    world.join("w1", Warmth.WARMING)
    assert empty(world.round())
    world.named("w0").draining = True
    waits = world.round()
    assert empty(waits)
    assert not waits.held
    world.named("w1").warmth = Warmth.WARM
    assert world.round().revoked_why.keys() == running_there


def test_who_departs_does_not_wait_for_a_runtime_that_will_not_start() -> None:
    world = running(1)
    world.join("w1", Warmth.WARMING)
    world.named("w0").draining = True
    assert empty(world.round())
    world.named("w1").warmth = Warmth.STALLED
    assert world.round().revoked_why.keys() == owned(world)["w0"] | world.configured()


def test_who_departs_and_is_not_warm_itself_runs_nothing_that_could_go_on() -> None:
    world = running(1)
    world.join("w1", Warmth.WARMING)
    world.named("w0").warmth = Warmth.WARMING
    world.named("w0").draining = True
    assert world.round().revoked_why.keys() == world.configured()


def test_who_will_be_back_does_not_wait() -> None:
    world = running(1)
    world.join("w1", Warmth.WARMING)
    world.facts = Facts(returning=frozenset({"w0"}))
    world.named("w0").draining = True
    draining = world.round()
    assert draining.revoked_why.keys() == world.configured() == draining.held.keys()


def test_the_tasks_of_who_is_gone_for_good_are_for_the_warm() -> None:
    world = running(3, Policy(scheduled_rebalance_max_delay_ms=20 * SECOND_MS))
    lost = owned(world)["w2"]
    world.join("w3", Warmth.WARMING)
    world.round()
    world.kill(world.named("w2"), proven=True)
    world.round()
    world.advance(20 * SECOND_MS)
    assert world.round().assigned_why.keys() == lost
    assert owned(world)["w3"] == set()


def test_who_is_warming_up_has_joined_and_is_not_waited_for() -> None:
    world = running(2, a=6)
    world.facts = Facts(expected=frozenset({"w0", "w1", "w2", "w3"}))
    world.join("w2", Warmth.WARM)
    world.join("w3", Warmth.WARMING)
    taken = world.round()
    assert len([task for task in taken.revoked_why if not task.is_instance]) == 2, "for w2, at once"
    assert "w3" not in world.memory.joins


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
        "who may come up before who has stalled",
        "of two that have stalled the one without a cordon",
        "of two that are cold the one that may come up",
    ],
)
def test_who_is_given_what_nobody_has(cordoned: set[str], warmth: dict[str, Warmth], receiver: str) -> None:
    world = World(a=0)
    world.join(A)
    world.join(B)
    world.settle()
    world.facts = Facts(cordoned=frozenset(cordoned))
    for identity, how in warmth.items():
        world.named(identity).warmth = how
    world.task_counts["b"] = 4
    new = {TaskId("b", number) for number in range(-1, 4)}
    assert set(world.round().shares[world.named(receiver).incarnation].assigned) == new


def test_a_runtime_that_has_stalled_keeps_what_is_its_own() -> None:
    world = running(3)
    world.named("w1").warmth = Warmth.STALLED
    assert empty(world.round())
