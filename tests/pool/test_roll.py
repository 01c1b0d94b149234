"""A changed template: one pod after the other, and no further when a new one does not work."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cooperator.model import TaskId
from cooperator.pool import (
    Action,
    Create,
    Delete,
    Drain,
    GroupSeen,
    MarkReason,
    Phase,
    PoolMemory,
    Remove,
    ReportReason,
    RollStrategy,
    UnDrain,
    decide,
)
from pool.world import World

Start = Callable[..., World]


def change(world: World, revision: str) -> None:
    world.desired = replace(world.desired, revision=revision)


def story(actions: list[Action]) -> list[str]:
    """``["Delete lake-1", …]``."""
    return [f"{type(action).__name__} {action.identity}" for action in actions]


def test_hold_replaces_in_place_one_by_one_from_the_highest(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")

    decision = world.decide()
    assert decision.actions == (Delete("lake-2", world.pods["lake-2"].incarnation),)
    assert decision.facts.returning == {"lake-2"}
    assert decision.facts.leaving == frozenset()

    world.act()
    assert story(world.settle()) == [
        *("Remove lake-2", "Create lake-2"),
        *("Delete lake-1", "Remove lake-1", "Create lake-1"),
        *("Delete lake-0", "Remove lake-0", "Create lake-0"),
    ]
    assert world.decide().facts.returning == frozenset()


def test_who_is_replaced_returns_until_its_successor_is_there(pool: Start) -> None:
    world = pool(2)
    change(world, "r2")
    world.decide()
    world.act()
    world.finish("lake-1")
    assert world.decide().facts.returning == {"lake-1"}
    world.act()
    assert "lake-1" not in world.pods
    assert world.decide().facts.returning == {"lake-1"}
    world.act()
    decision = world.decide()
    assert decision.facts.returning == frozenset()
    assert "lake-1" in decision.facts.expected


def test_drain_moves_the_tasks_first(pool: Start) -> None:
    world = pool(2, strategy=RollStrategy.DRAIN)
    life = world.pods["lake-1"].incarnation
    change(world, "r2")

    decision = world.decide()
    assert decision.actions == (Drain("lake-1", life, MarkReason.ROLL),)
    assert decision.facts.leaving == {"lake-1"}
    assert decision.facts.returning == frozenset()

    world.act()
    assert world.decide().actions == ()
    world.obey_facts()
    assert world.decide().actions == (Delete("lake-1", life),)
    assert story(world.settle())[-4:] == ["Drain lake-0", "Delete lake-0", "Remove lake-0", "Create lake-0"]


def test_as_many_at_a_time_as_may_be_unavailable(pool: Start) -> None:
    world = pool(4, max_unavailable=2)
    change(world, "r2")
    assert story(list(world.decide().actions)) == ["Delete lake-2", "Delete lake-3"]

    world = pool(4, max_unavailable=2)
    world.drop("lake-0")
    world.held.clear()
    change(world, "r2")
    # It does no work: replacing it costs nothing, and it is one of the two.
    assert story(list(world.decide().actions)) == ["Delete lake-0", "Delete lake-3"]


def test_the_next_one_waits_until_what_the_new_one_was_given_runs(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")
    world.decide()
    world.act()
    world.finish("lake-2")
    for _ in ("Remove", "Create"):
        world.decide()
        world.act()
    world.run("lake-2")
    world.join("lake-2")
    joined = world.members["lake-2"]
    world.members["lake-2"] = replace(joined, starting=frozenset({TaskId("a", 0)}))
    assert story(list(world.decide().actions)) == [], "its JVM is still coming up"

    world.members["lake-2"] = replace(joined, warming=True)
    assert story(list(world.decide().actions)) == [], "what it is to have is at others until it has come up"

    world.members["lake-1"] = replace(world.members["lake-1"], starting=frozenset({TaskId("b", 0)}))
    world.members["lake-2"] = joined
    # What does not come to run on an old one is no reason to keep the old one.
    assert story(list(world.decide().actions)) == ["Delete lake-1"]


def test_a_busy_group_is_left_alone(pool: Start) -> None:
    world = pool(2)
    world.held["lake-9"] = world.now_ms
    change(world, "r2")
    assert world.decide().actions == ()

    world.held.clear()
    world.leading = False
    assert world.decide().actions == ()

    world.leading = True
    assert story(list(world.decide().actions)) == ["Delete lake-1"]


def test_a_template_that_does_not_work_stops_after_one_and_is_reported(pool: Start) -> None:
    world = pool(3, max_unavailable=2)
    world.pods["lake-0"] = replace(world.pods["lake-0"], revision="r2")
    world.pods["lake-1"] = replace(world.pods["lake-1"], revision="r2")
    world.drop("lake-1")
    world.held.clear()
    world.now_ms = world.pods["lake-1"].started_ms + world.desired.policy.ready_timeout_ms
    change(world, "r2")

    decision = world.decide()
    assert decision.actions == ()
    assert [report.reason for report in decision.reports] == [
        ReportReason.NOT_READY,
        ReportReason.ROLL_STALLED,
    ]
    assert "lake-1" in decision.reports[1].message

    # A mended template replaces the broken pod at once, then goes on.
    change(world, "r3")
    assert story(list(world.decide().actions)) == ["Delete lake-1", "Delete lake-2"]
    world.act()
    world.settle()


def test_while_we_do_not_lead_nobody_is_said_to_be_late(pool: Start) -> None:
    world = pool(2)
    world.now_ms += 10 * world.desired.policy.ready_timeout_ms
    world.leading = False

    assert world.decide().reports == ()


def test_what_never_did_any_work_is_replaced_at_once(pool: Start) -> None:
    world = pool(3)
    world.crash("lake-0")
    while world.pods.get("lake-0") is None or world.pods["lake-0"].phase is not Phase.PENDING:
        world.decide()
        world.act()
        world.obey_facts()
    world.run("lake-0")
    world.decide()
    assert world.held
    change(world, "r2")

    assert story(list(world.decide().actions)) == ["Delete lake-0"]


@pytest.mark.parametrize("remembering", [True, False])
def test_who_is_no_member_for_the_moment_may_work_still(pool: Start, remembering: bool) -> None:
    """A leader that takes the lead evicts everybody first; their tasks run on."""
    world = pool(3)
    change(world, "r2")
    for identity in list(world.members):
        world.drop(identity)
    if not remembering:
        world.memory = PoolMemory()
    assert world.decide().actions == ()

    # Tasks that nobody is known to run yet are no better.
    world.held.clear()
    world.desired = replace(world.desired, revision="r2")
    moving = replace(world.observed(), group=GroupSeen(moving=True))
    assert decide(world.desired, moving, world.memory, world.now_ms).actions == ()


def test_whose_tasks_have_moved_on_is_replaced_without_waiting(pool: Start) -> None:
    world = pool(3)
    world.drop("lake-0")
    world.held.clear()
    change(world, "r2")

    assert story(list(world.decide().actions)) == ["Delete lake-0"]


def test_who_is_cut_off_is_not_taken_for_idle(pool: Start) -> None:
    world = pool(3)
    for name in world.nodes:
        world.nodes[name] = replace(world.nodes[name], ready=False)
    world.drop("lake-0")
    change(world, "r2")

    assert world.decide().actions == ()


def test_a_member_of_an_earlier_life_does_not_make_a_pod_available(pool: Start) -> None:
    world = pool(2, self_restarting=True)
    world.restart("lake-0")
    change(world, "r2")

    # lake-0 has not joined in this life: it goes first, and lake-1 has to wait for it.
    assert story(list(world.decide().actions)) == ["Delete lake-0"]


def test_going_back_touches_only_who_had_been_replaced(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")
    actions: list[Action] = []
    while Create("lake-2", "r2") not in actions:
        actions += world.step()
        world.wait()

    change(world, "r1")
    assert story(world.settle()) == ["Delete lake-2", "Remove lake-2", "Create lake-2"]


def test_going_back_in_time_leaves_the_marked_one_where_it_is(pool: Start) -> None:
    world = pool(2, strategy=RollStrategy.DRAIN)
    life = world.pods["lake-1"].incarnation
    change(world, "r2")
    world.decide()
    world.act()

    change(world, "r1")
    assert world.decide().actions == (UnDrain("lake-1", life),)
    assert world.decide().facts.leaving == frozenset()


def test_an_order_that_got_lost_is_not_repeated_at_a_bad_time(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")
    world.decide()
    world.todo.clear()
    world.held["lake-9"] = world.now_ms
    world.now_ms += world.desired.policy.retry_ms

    decision = world.decide()

    assert decision.actions == ()
    assert decision.facts.returning == frozenset()


def test_whoever_is_being_replaced_is_the_one_to_leave(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")
    world.decide()
    world.act()
    world.desired = replace(world.desired, replicas=2)

    decision = world.decide()

    assert decision.facts.leaving == {"lake-2"}
    assert decision.facts.returning == frozenset()
    assert [line for line in story(world.settle()) if "lake-2" in line] == ["Remove lake-2"]


def test_nobody_else_leaves_while_somebody_is_being_replaced(pool: Start) -> None:
    world = pool(4)
    change(world, "r2")
    while world.pods.get("lake-3") is None or world.pods["lake-3"].revision != "r2":
        world.decide()
        world.act()
        world.obey_facts()
        if world.pods.get("lake-3") is not None and world.pods["lake-3"].phase is Phase.TERMINATING:
            world.finish("lake-3")
    world.run("lake-3")
    world.held.clear()
    world.desired = replace(world.desired, replicas=3)
    world.decide()
    world.now_ms += 100_000
    assert world.decide().actions == ()

    world.join("lake-3")
    assert story(list(world.decide().actions)) == ["Delete lake-2"]


def test_a_host_without_memory_goes_on_where_it_was(pool: Start) -> None:
    world = pool(3)
    change(world, "r2")
    world.decide()
    world.act()
    assert world.pods["lake-2"].phase is Phase.TERMINATING

    world.memory = PoolMemory()
    decision = world.decide()

    assert decision.actions == ()
    assert decision.facts.returning == {"lake-2"}
    assert story(world.settle())[:2] == ["Remove lake-2", "Create lake-2"]
    assert Remove not in map(type, world.decide().actions)
