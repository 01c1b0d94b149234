"""More and fewer replicas: which pods are created, which leave, and when."""

from collections.abc import Callable
from dataclasses import replace

from cooperator.pool import Create, Delete, Drain, Kill, MarkReason, Remove, ReportReason, UnDrain
from tests.pool.unreliable_pods import UnreliablePods

Start = Callable[..., UnreliablePods]


def scale(pods: UnreliablePods, replicas: int) -> None:
    pods.desired = replace(pods.desired, replicas=replicas)


def wait_out_the_delay(pods: UnreliablePods) -> None:
    assert pods.decide().actions == ()
    pods.now_ms += pods.desired.policy.scale_down_delay_ms


def test_the_highest_ordinals_drain_together_end_and_are_removed(pool: Start) -> None:
    pods = pool(4)
    two, three = (pods.pods[f"lake-{n}"].incarnation for n in (2, 3))
    scale(pods, 2)
    wait_out_the_delay(pods)

    decision = pods.decide()
    assert decision.actions == (
        Drain("lake-2", two, MarkReason.SCALE_DOWN),
        Drain("lake-3", three, MarkReason.SCALE_DOWN),
    )
    assert decision.facts.leaving == {"lake-2", "lake-3"}
    assert decision.facts.expected == {"lake-0", "lake-1"}

    pods.act()
    assert pods.decide().actions == ()
    pods.obey_facts()
    assert pods.settle() == [
        Delete("lake-2", two),
        Delete("lake-3", three),
        Remove("lake-2", two),
        Remove("lake-3", three),
    ]


def test_oscillating_replicas_move_nothing(pool: Start) -> None:
    pods = pool(3)
    for _ in range(20):
        scale(pods, 2)
        assert pods.decide().actions == ()
        pods.now_ms += pods.desired.policy.scale_down_delay_ms - 1
        assert pods.decide().actions == ()
        scale(pods, 3)
        assert pods.decide().actions == ()
        pods.now_ms += 1_000


def test_a_leaving_pod_stays_when_replicas_rise_again(pool: Start) -> None:
    pods = pool(3)
    incarnation = pods.pods["lake-2"].incarnation
    scale(pods, 2)
    wait_out_the_delay(pods)
    pods.decide()
    pods.act()

    scale(pods, 4)
    decision = pods.decide()

    assert decision.actions == (UnDrain("lake-2", incarnation), Create("lake-3", "r1"))
    assert decision.facts.leaving == frozenset()


def test_a_leaving_pod_stays_before_a_new_one_is_created(pool: Start) -> None:
    pods = pool(3)
    pods.crash("lake-1")
    scale(pods, 1)
    pods.step()
    pods.held.clear()
    pods.now_ms += pods.desired.policy.scale_down_delay_ms
    pods.decide()
    pods.act()
    assert pods.pods["lake-2"].mark is not None

    scale(pods, 2)
    assert pods.decide().actions == (UnDrain("lake-2", pods.pods["lake-2"].incarnation),)


def test_a_reversal_overtakes_the_drain(pool: Start) -> None:
    pods = pool(3)
    scale(pods, 2)
    wait_out_the_delay(pods)
    pods.decide()

    scale(pods, 3)
    decision = pods.decide()

    assert decision.facts.leaving == frozenset()
    pods.settle()
    assert pods.pods["lake-2"].mark is None


def test_no_pod_leaves_while_tasks_are_held_or_moving(pool: Start) -> None:
    pods = pool(3)
    pods.held["lake-9"] = pods.now_ms
    scale(pods, 2)
    pods.decide()
    pods.now_ms += 100_000

    decision = pods.decide()
    assert decision.actions == ()
    assert [report.reason for report in decision.reports] == [ReportReason.SCALE_DOWN_WAITS]
    assert "pod" not in decision.reports[0].message, "a single machine has no nodes"

    pods.held.clear()
    assert [type(action) for action in pods.settle()] == [Drain, Delete, Remove]


def test_a_group_that_never_settles_delays_a_scale_down_up_to_the_limit(pool: Start) -> None:
    pods = pool(3)
    pods.held["lake-9"] = pods.now_ms
    scale(pods, 2)
    pods.decide()
    pods.now_ms += pods.desired.policy.scale_down_wait_max_ms

    assert [type(action) for action in pods.decide().actions] == [Drain]


def test_without_the_lead_no_pod_leaves(pool: Start) -> None:
    pods = pool(3)
    scale(pods, 2)
    wait_out_the_delay(pods)
    pods.decide()
    pods.act()
    pods.leading = False
    assert pods.decide().actions == ()

    pods = pool(3)
    pods.leading = False
    scale(pods, 2)
    pods.decide()
    pods.now_ms += 10 * pods.desired.policy.scale_down_wait_max_ms
    assert pods.decide().actions == ()


def test_a_dead_pod_leaves_first_and_at_once(pool: Start) -> None:
    pods = pool(3)
    incarnation = pods.pods["lake-0"].incarnation
    pods.crash("lake-0")
    scale(pods, 2)

    decision = pods.decide()

    assert decision.actions == (Remove("lake-0", incarnation),)
    assert decision.facts.expected == {"lake-1", "lake-2"}
    pods.act()
    pods.progress()
    assert pods.decide().facts.gone == {"lake-0"}
    assert pods.settle() == []


def test_tasks_that_never_move_do_not_keep_a_pod_forever(pool: Start) -> None:
    pods = pool(2)
    incarnation = pods.pods["lake-1"].incarnation
    scale(pods, 1)
    wait_out_the_delay(pods)
    pods.decide()
    pods.act()
    assert pods.decide().actions == (), "the drain counts from the first look at the mark"
    pods.now_ms += pods.desired.policy.drain_timeout_ms - 1
    assert pods.decide().actions == ()

    pods.now_ms += 1
    assert pods.decide().actions == (Delete("lake-1", incarnation),)


def test_a_scale_to_zero_happens_at_once(pool: Start) -> None:
    pods = pool(2)
    incarnations = [pods.pods[f"lake-{n}"].incarnation for n in (0, 1)]
    scale(pods, 0)

    assert pods.decide().actions == (Delete("lake-0", incarnations[0]), Delete("lake-1", incarnations[1]))


def test_a_process_that_does_not_end_is_killed_where_the_platform_does_not(pool: Start) -> None:
    pods = pool(1, kill_after_ms=90_000)
    incarnation = pods.pods["lake-0"].incarnation
    scale(pods, 0)
    pods.decide()
    pods.act()
    assert pods.decide().actions == (), "its time counts from the first look at it"
    pods.now_ms += 89_999
    assert pods.decide().actions == ()
    pods.now_ms += 1
    assert pods.decide().actions == (Kill("lake-0", incarnation),)

    patient = pool(1)
    scale(patient, 0)
    patient.decide()
    patient.act()
    patient.now_ms += 10_000_000
    assert patient.decide().actions == ()
