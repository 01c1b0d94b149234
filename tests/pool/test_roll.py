"""A changed template: pods are replaced one by one, and the roll stops when a new one does not work."""

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
from tests.pool.unreliable_pods import UnreliablePods

Start = Callable[..., UnreliablePods]


def change(pods: UnreliablePods, revision: str) -> None:
    pods.desired = replace(pods.desired, revision=revision)


def story(actions: list[Action]) -> list[str]:
    """``["Delete lake-1", …]``."""
    return [f"{type(action).__name__} {action.identity}" for action in actions]


def test_hold_replaces_in_place_one_by_one_from_the_highest(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")

    decision = pods.decide()
    assert decision.actions == (Delete("lake-2", pods.pods["lake-2"].incarnation),)
    assert decision.facts.returning == {"lake-2"}
    assert decision.facts.leaving == frozenset()

    pods.act()
    assert story(pods.settle()) == [
        *("Remove lake-2", "Create lake-2"),
        *("Delete lake-1", "Remove lake-1", "Create lake-1"),
        *("Delete lake-0", "Remove lake-0", "Create lake-0"),
    ]
    assert pods.decide().facts.returning == frozenset()


def test_a_replaced_member_counts_as_returning_until_its_successor_is_there(pool: Start) -> None:
    pods = pool(2)
    change(pods, "r2")
    pods.decide()
    pods.act()
    pods.finish("lake-1")
    assert pods.decide().facts.returning == {"lake-1"}
    pods.act()
    assert "lake-1" not in pods.pods
    assert pods.decide().facts.returning == {"lake-1"}
    pods.act()
    decision = pods.decide()
    assert decision.facts.returning == frozenset()
    assert "lake-1" in decision.facts.expected


def test_drain_moves_the_tasks_first(pool: Start) -> None:
    pods = pool(2, strategy=RollStrategy.DRAIN)
    incarnation = pods.pods["lake-1"].incarnation
    change(pods, "r2")

    decision = pods.decide()
    assert decision.actions == (Drain("lake-1", incarnation, MarkReason.ROLL),)
    assert decision.facts.leaving == {"lake-1"}
    assert decision.facts.returning == frozenset()

    pods.act()
    assert pods.decide().actions == ()
    pods.obey_facts()
    assert pods.decide().actions == (Delete("lake-1", incarnation),)
    assert story(pods.settle())[-4:] == ["Drain lake-0", "Delete lake-0", "Remove lake-0", "Create lake-0"]


def test_max_unavailable_pods_are_replaced_at_a_time(pool: Start) -> None:
    pods = pool(4, max_unavailable=2)
    change(pods, "r2")
    assert story(list(pods.decide().actions)) == ["Delete lake-2", "Delete lake-3"]

    pods = pool(4, max_unavailable=2)
    pods.drop("lake-0")
    pods.held.clear()
    change(pods, "r2")
    # This one does no work, so its replacement costs nothing; it is one of the two.
    assert story(list(pods.decide().actions)) == ["Delete lake-0", "Delete lake-3"]


def test_the_next_replacement_waits_until_the_tasks_of_the_new_pod_run(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")
    pods.decide()
    pods.act()
    pods.finish("lake-2")
    for _ in ("Remove", "Create"):
        pods.decide()
        pods.act()
    pods.run("lake-2")
    pods.join("lake-2")
    joined = pods.members["lake-2"]
    pods.members["lake-2"] = replace(joined, starting=frozenset({TaskId("a", 0)}))
    assert story(list(pods.decide().actions)) == [], "its JVM is still starting"

    pods.members["lake-2"] = replace(joined, warming=True)
    assert story(list(pods.decide().actions)) == [], "its tasks stay with others until its JVM is up"

    pods.members["lake-1"] = replace(pods.members["lake-1"], starting=frozenset({TaskId("b", 0)}))
    pods.members["lake-2"] = joined
    # Tasks that do not start on an old pod are no reason to keep it.
    assert story(list(pods.decide().actions)) == ["Delete lake-1"]


def test_a_roll_waits_for_a_group_in_motion(pool: Start) -> None:
    pods = pool(2)
    pods.held["lake-9"] = pods.now_ms
    change(pods, "r2")
    assert pods.decide().actions == ()

    pods.held.clear()
    pods.leading = False
    assert pods.decide().actions == ()

    pods.leading = True
    assert story(list(pods.decide().actions)) == ["Delete lake-1"]


def test_a_template_that_does_not_work_stops_after_one_and_is_reported(pool: Start) -> None:
    pods = pool(3, max_unavailable=2)
    pods.pods["lake-0"] = replace(pods.pods["lake-0"], revision="r2")
    pods.pods["lake-1"] = replace(pods.pods["lake-1"], revision="r2")
    pods.drop("lake-1")
    pods.held.clear()
    pods.now_ms += pods.desired.policy.ready_timeout_ms
    change(pods, "r2")

    decision = pods.decide()
    assert decision.actions == ()
    assert [report.reason for report in decision.reports] == [
        ReportReason.NOT_READY,
        ReportReason.ROLL_STALLED,
    ]
    assert "lake-1" in decision.reports[1].message
    assert "pod" not in decision.reports[1].message, "a single machine has no nodes"

    # A fixed template replaces the broken pod at once, and the roll continues.
    change(pods, "r3")
    assert story(list(pods.decide().actions)) == ["Delete lake-1", "Delete lake-2"]
    pods.act()
    pods.settle()


def test_without_the_lead_no_pod_is_reported_as_late(pool: Start) -> None:
    pods = pool(2)
    pods.now_ms += 10 * pods.desired.policy.ready_timeout_ms
    pods.leading = False

    assert pods.decide().reports == ()


def test_a_pod_that_never_worked_is_replaced_at_once(pool: Start) -> None:
    pods = pool(3)
    pods.crash("lake-0")
    while pods.pods.get("lake-0") is None or pods.pods["lake-0"].phase is not Phase.PENDING:
        pods.decide()
        pods.act()
        pods.obey_facts()
    pods.run("lake-0")
    pods.decide()
    assert pods.held
    change(pods, "r2")

    assert story(list(pods.decide().actions)) == ["Delete lake-0"]


@pytest.mark.parametrize("remembering", [True, False])
def test_a_pod_that_is_momentarily_no_member_may_still_work(pool: Start, remembering: bool) -> None:
    """A new leader evicts all members first; their tasks keep running."""
    pods = pool(3)
    change(pods, "r2")
    for identity in list(pods.members):
        pods.drop(identity)
    if not remembering:
        pods.memory = PoolMemory()
    assert pods.decide().actions == ()

    # The same holds for tasks that no member is known to run yet.
    pods.held.clear()
    pods.desired = replace(pods.desired, revision="r2")
    moving = replace(pods.observed(), group=GroupSeen(moving=True))
    assert decide(pods.desired, moving, pods.memory, pods.now_ms).actions == ()


def test_a_pod_whose_tasks_have_moved_is_replaced_without_waiting(pool: Start) -> None:
    pods = pool(3)
    pods.drop("lake-0")
    pods.held.clear()
    change(pods, "r2")

    assert story(list(pods.decide().actions)) == ["Delete lake-0"]


def test_an_unreachable_pod_does_not_count_as_idle(pool: Start) -> None:
    pods = pool(3)
    for name in pods.nodes:
        pods.nodes[name] = replace(pods.nodes[name], ready=False)
    pods.drop("lake-0")
    change(pods, "r2")

    assert pods.decide().actions == ()


def test_a_member_of_an_earlier_incarnation_does_not_make_a_pod_available(pool: Start) -> None:
    pods = pool(2, self_restarting=True)
    pods.restart("lake-0")
    change(pods, "r2")

    # This incarnation of lake-0 has not joined: it goes first, and lake-1 has to wait for it.
    assert story(list(pods.decide().actions)) == ["Delete lake-0"]


def test_a_rollback_touches_only_replaced_pods(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")
    actions: list[Action] = []
    while Create("lake-2", "r2") not in actions:
        actions += pods.step()
        pods.wait()

    change(pods, "r1")
    assert story(pods.settle()) == ["Delete lake-2", "Remove lake-2", "Create lake-2"]


def test_an_early_rollback_keeps_the_marked_pod(pool: Start) -> None:
    pods = pool(2, strategy=RollStrategy.DRAIN)
    incarnation = pods.pods["lake-1"].incarnation
    change(pods, "r2")
    pods.decide()
    pods.act()

    change(pods, "r1")
    assert pods.decide().actions == (UnDrain("lake-1", incarnation),)
    assert pods.decide().facts.leaving == frozenset()


def test_a_lost_action_is_not_repeated_while_the_group_moves(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")
    pods.decide()
    pods.todo.clear()
    pods.held["lake-9"] = pods.now_ms
    pods.now_ms += pods.desired.policy.retry_ms

    decision = pods.decide()

    assert decision.actions == ()
    assert decision.facts.returning == frozenset()


def test_a_pod_that_is_being_replaced_is_the_one_to_leave(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")
    pods.decide()
    pods.act()
    pods.desired = replace(pods.desired, replicas=2)

    decision = pods.decide()

    assert decision.facts.leaving == {"lake-2"}
    assert decision.facts.returning == frozenset()
    assert [line for line in story(pods.settle()) if "lake-2" in line] == ["Remove lake-2"]


def test_no_other_pod_leaves_while_one_is_being_replaced(pool: Start) -> None:
    pods = pool(4)
    change(pods, "r2")
    while pods.pods.get("lake-3") is None or pods.pods["lake-3"].revision != "r2":
        pods.decide()
        pods.act()
        pods.obey_facts()
        if pods.pods.get("lake-3") is not None and pods.pods["lake-3"].phase is Phase.TERMINATING:
            pods.finish("lake-3")
    pods.run("lake-3")
    pods.held.clear()
    pods.desired = replace(pods.desired, replicas=3)
    pods.decide()
    pods.now_ms += 100_000
    assert pods.decide().actions == ()

    pods.join("lake-3")
    assert story(list(pods.decide().actions)) == ["Delete lake-2"]


def test_a_host_without_memory_continues_the_roll(pool: Start) -> None:
    pods = pool(3)
    change(pods, "r2")
    pods.decide()
    pods.act()
    assert pods.pods["lake-2"].phase is Phase.TERMINATING

    pods.memory = PoolMemory()
    decision = pods.decide()

    assert decision.actions == ()
    assert decision.facts.returning == {"lake-2"}
    assert story(pods.settle())[:2] == ["Remove lake-2", "Create lake-2"]
    assert Remove not in map(type, pods.decide().actions)
