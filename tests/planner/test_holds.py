"""Departures and returns: who waits for whom, until when."""

from dataclasses import replace

import pytest

from cooperator.model import HoldReason, Policy
from cooperator.planner import Why
from tests.planner.unreliable_group import UnreliableGroup, of, owned

SECOND_MS = 1000
DELAY_MS = 300 * SECOND_MS
LEASE_MS = 45 * SECOND_MS


def running(workers: int = 3, policy: Policy | None = None, **task_counts: int) -> UnreliableGroup:
    """A group of w0, w1, … at rest."""
    group = UnreliableGroup(policy or Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        group.join(f"w{number}")
    group.settle()
    return group


def test_each_departed_worker_has_its_own_full_hold() -> None:
    group = running(4)
    before = owned(group)
    start_ms = group.now_ms
    group.kill(group.named("w2"), proven=True)
    first = group.round()
    group.advance(200 * SECOND_MS)
    group.kill(group.named("w3"), proven=True)
    second = group.round()

    assert {first.held[task].until_ms for task in before["w2"]} == {start_ms + DELAY_MS}
    assert {second.held[task].until_ms for task in before["w2"]} == {start_ms + DELAY_MS}
    assert {second.held[task].until_ms for task in before["w3"]} == {start_ms + 200 * SECOND_MS + DELAY_MS}
    assert second.rejoin_at_ms == start_ms + DELAY_MS

    group.advance(100 * SECOND_MS)
    third = group.round()
    assert third.assigned_why.keys() == before["w2"]
    assert third.held.keys() == before["w3"]


def test_one_returner_gets_its_own_and_nothing_of_what_another_lost() -> None:
    group = running(4)
    before = owned(group)
    group.kill(group.named("w2"), proven=True)
    group.kill(group.named("w3"), proven=True)
    group.round()
    group.advance(60 * SECOND_MS)
    group.join("w2")
    returned = group.round()

    assert owned(group)["w2"] == before["w2"]
    assert {reason.why for reason in returned.assigned_why.values()} == {Why.RETURNED}
    assert returned.held.keys() == before["w3"]


def test_an_idle_worker_is_no_returner() -> None:
    group = running(3, a=1)
    idle = next(identity for identity, tasks in owned(group).items() if not tasks)
    busy = next(identity for identity, tasks in owned(group).items() if of("a-0") & tasks)
    group.kill(group.named(busy), proven=True)
    group.round()
    group.advance(DELAY_MS - 1)
    assert not group.round().assigned_why
    assert not owned(group)[idle]


def test_a_worker_that_is_back_before_anybody_noticed_gets_its_own_back() -> None:
    group = running()
    before = owned(group)
    group.kill(group.named("w1"), proven=True)
    group.join("w1")
    group.round()
    assert owned(group) == before


def test_an_undelivered_assignment_is_repeated_and_is_not_a_departure() -> None:
    group = running(2, a=2)
    group.task_counts["b"] = 4
    group.named("w1").fails_next = True
    lost = {task for task in group.round().assigned_why if task not in owned(group)["w0"]}
    again = group.round()
    assert again.assigned_why.keys() == lost <= owned(group)["w1"]
    assert {reason.why for reason in again.assigned_why.values()} == {Why.UNDELIVERED}
    assert not again.held


def test_a_revocation_that_did_not_arrive_is_sent_again() -> None:
    group = running(2)
    group.join("w2")
    group.named("w0").fails_next = True
    first = group.round()
    lost = {task for task in first.revoked_why if task in owned(group)["w0"]}
    again = group.round()
    assert lost
    assert lost <= again.revoked_why.keys()
    assert not lost & again.assigned_why.keys()


def test_a_stopping_task_is_neither_revoked_again_nor_assigned() -> None:
    group = running(2)
    group.join("w2")
    revoked = set(group.round().revoked_why)
    meanwhile = group.round()
    assert not meanwhile.revoked_why
    assert not revoked & meanwhile.assigned_why.keys()
    group.settle()
    assert owned(group)["w2"] == revoked


@pytest.mark.parametrize("max_delay_ms", [0, 20 * SECOND_MS, DELAY_MS])
def test_without_a_proof_nothing_moves_before_the_lease_has_run_out(max_delay_ms: int) -> None:
    group = running(3, Policy(scheduled_rebalance_max_delay_ms=max_delay_ms))
    start_ms, lost = group.now_ms, owned(group)["w1"]
    group.drop(group.named("w1"))
    held = group.round()
    until_ms = start_ms + max(max_delay_ms, LEASE_MS)
    assert {held.held[task].until_ms for task in lost} == {until_ms}
    assert held.rejoin_at_ms == until_ms
    reason = HoldReason.UNPROVEN if max_delay_ms < LEASE_MS else HoldReason.DEPARTED
    assert {held.held[task].reason for task in lost} == {reason}
    group.advance(until_ms - start_ms - 1)
    assert not group.round().assigned_why
    group.advance(1)
    assert group.round().assigned_why.keys() == lost


def test_a_proof_that_comes_later_ends_the_wait_for_the_lease() -> None:
    group = running(3, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(group)["w1"]
    victim = group.named("w1")
    group.kill(victim, proven=False)
    assert group.round().held.keys() == lost
    group.advance(SECOND_MS)
    group.proven.add((victim.identity, victim.incarnation))
    assert group.round().assigned_why.keys() == lost


def test_a_new_incarnation_waits_until_the_end_of_the_old_one_is_certain() -> None:
    group = running()
    before = owned(group)
    group.drop(group.named("w1"))
    group.join("w1")
    held = group.round()
    assert held.held.keys() == before["w1"]
    assert held.rejoin_at_ms == group.now_ms + LEASE_MS
    group.advance(LEASE_MS)
    group.round()
    newest = group.members()[-1]
    assert newest.identity == "w1"
    assert newest.running == before["w1"]


def test_the_same_process_that_was_dropped_and_is_back_goes_on() -> None:
    group = running()
    before = owned(group)
    group.drop(group.named("w1"))
    group.round()
    group.advance(30 * SECOND_MS)
    group.rejoin(group.named("w1"))
    assert group.round().assigned_why == {}
    assert owned(group) == before


def test_a_member_that_will_not_return_is_not_awaited() -> None:
    group = running()
    lost = owned(group)["w1"]
    group.kill(group.named("w1"), proven=True)
    group.facts = replace(group.facts, gone=frozenset({"w1"}))
    decided = group.round()
    assert decided.assigned_why.keys() == lost
    assert {reason.why for reason in decided.assigned_why.values()} == {Why.HOLD_ENDED}


def test_a_member_that_will_not_return_but_may_run_is_awaited_for_its_lease() -> None:
    group = running()
    start_ms, lost = group.now_ms, owned(group)["w1"]
    group.drop(group.named("w1"))
    group.facts = replace(group.facts, gone=frozenset({"w1"}))
    assert {held.until_ms for held in group.round().held.values()} == {start_ms + LEASE_MS}
    group.advance(LEASE_MS)
    assert group.round().assigned_why.keys() == lost


def test_a_crash_loop_does_not_renew_its_hold_for_ever() -> None:
    group = running(3, Policy(max_returns=2))
    lost = owned(group)["w1"]
    for _ in range(2):
        group.kill(group.named("w1"), proven=True)
        assert group.round().held.keys() == lost
        group.join("w1")
        assert group.round().assigned_why.keys() == lost
    group.kill(group.named("w1"), proven=True)
    assert group.round().assigned_why.keys() == lost


def test_the_budget_of_returns_is_full_again_after_its_window() -> None:
    policy = Policy(max_returns=1, return_window_ms=600 * SECOND_MS)
    group = running(3, policy)
    for _ in range(3):
        group.kill(group.named("w1"), proven=True)
        assert group.round().held
        group.join("w1")
        group.settle()
        group.advance(policy.return_window_ms)


def test_deleted_tasks_leave_the_hold_and_with_the_last_of_them_it_ends() -> None:
    group = running(2, a=1)
    victim = next(identity for identity, tasks in owned(group).items() if of("a-0") <= tasks)
    group.kill(group.named(victim), proven=True)
    assert of("a-0") <= group.round().held.keys()
    group.task_counts["a"] = 0
    assert not of("a-0") & group.round().held.keys()
    del group.task_counts["a"]
    ended = group.round()
    assert not ended.held
    assert ended.rejoin_at_ms is None


def test_tasks_of_a_vanished_incarnation_stay_fenced_over_a_recreation() -> None:
    group = running(2, a=2)
    lost = owned(group)["w1"]
    group.drop(group.named("w1"))
    group.round()
    del group.task_counts["a"]
    group.round()
    group.task_counts["a"] = 2
    assert not lost & group.round().assigned_why.keys()
    group.advance(DELAY_MS)
    group.settle()
    assert lost <= owned(group)["w0"]


def test_given_tasks_that_never_started_do_not_wait_for_their_member() -> None:
    group = running(2, a=4)
    group.join("w2")
    group.round()
    for process in group.members():
        group.stopped(process)
    group.named("w2").fails_next = True
    given = group.round().assigned_why.keys()
    group.unstarted = set(given)
    group.kill(group.named("w2"), proven=True)
    decided = group.round()
    assert decided.assigned_why.keys() == given
    assert {reason.why for reason in decided.assigned_why.values()} == {Why.UNDELIVERED}
    assert not decided.held


def test_without_members_everything_is_held_and_returns() -> None:
    group = running(2)
    before = owned(group)
    for identity in ("w0", "w1"):
        group.kill(group.named(identity), proven=True)
    nobody = group.round()
    assert nobody.assignments == {}
    assert nobody.held.keys() == group.configured()
    group.join("w1")
    group.join("w0")
    group.round()
    assert owned(group) == before


def test_a_new_leader_goes_on_with_the_holds_of_the_old_one() -> None:
    group = running()
    start_ms, lost = group.now_ms, owned(group)["w1"]
    group.kill(group.named("w1"), proven=True)
    group.round()
    # The new leader has the memory and nothing else: no facts, and a term of its own.
    group.proven.clear()
    group.memory = replace(group.memory, term=group.memory.term + 1)
    group.advance(100 * SECOND_MS)
    decided = group.round()
    assert decided.held.keys() == lost
    assert {held.until_ms for held in decided.held.values()} == {start_ms + DELAY_MS}
