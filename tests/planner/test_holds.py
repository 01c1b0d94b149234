"""Departures and returns: who waits for whom, until when."""

from dataclasses import replace

import pytest

from cooperator.model import HoldReason, Policy
from cooperator.planner import Why
from planner.world import World, of, owned

SECOND_MS = 1000
DELAY_MS = 300 * SECOND_MS
LEASE_MS = 45 * SECOND_MS


def running(workers: int = 3, policy: Policy | None = None, **task_counts: int) -> World:
    """A group of w0, w1, … at rest."""
    world = World(policy or Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        world.join(f"w{number}")
    world.settle()
    return world


def test_each_departed_worker_has_its_own_full_hold() -> None:
    world = running(4)
    before = owned(world)
    start_ms = world.now_ms
    world.kill(world.named("w2"), proven=True)
    first = world.round()
    world.advance(200 * SECOND_MS)
    world.kill(world.named("w3"), proven=True)
    second = world.round()

    assert {first.held[task].until_ms for task in before["w2"]} == {start_ms + DELAY_MS}
    assert {second.held[task].until_ms for task in before["w2"]} == {start_ms + DELAY_MS}
    assert {second.held[task].until_ms for task in before["w3"]} == {start_ms + 200 * SECOND_MS + DELAY_MS}
    assert second.rejoin_at_ms == start_ms + DELAY_MS

    world.advance(100 * SECOND_MS)
    third = world.round()
    assert third.assigned_why.keys() == before["w2"]
    assert third.held.keys() == before["w3"]


def test_one_returner_gets_its_own_and_nothing_of_what_another_lost() -> None:
    world = running(4)
    before = owned(world)
    world.kill(world.named("w2"), proven=True)
    world.kill(world.named("w3"), proven=True)
    world.round()
    world.advance(60 * SECOND_MS)
    world.join("w2")
    returned = world.round()

    assert owned(world)["w2"] == before["w2"]
    assert {reason.why for reason in returned.assigned_why.values()} == {Why.RETURNED}
    assert returned.held.keys() == before["w3"]


def test_an_idle_worker_is_no_returner() -> None:
    world = running(3, a=1)
    idle = next(identity for identity, tasks in owned(world).items() if not tasks)
    busy = next(identity for identity, tasks in owned(world).items() if of("a-0") & tasks)
    world.kill(world.named(busy), proven=True)
    world.round()
    world.advance(DELAY_MS - 1)
    assert not world.round().assigned_why
    assert not owned(world)[idle]


def test_a_worker_that_is_back_before_anybody_noticed_gets_its_own_back() -> None:
    world = running()
    before = owned(world)
    world.kill(world.named("w1"), proven=True)
    world.join("w1")
    world.round()
    assert owned(world) == before


def test_what_was_not_delivered_goes_to_the_same_member_again_and_is_no_departure() -> None:
    world = running(2, a=2)
    world.task_counts["b"] = 4
    world.named("w1").fails_next = True
    lost = {task for task in world.round().assigned_why if task not in owned(world)["w0"]}
    again = world.round()
    assert again.assigned_why.keys() == lost <= owned(world)["w1"]
    assert {reason.why for reason in again.assigned_why.values()} == {Why.UNDELIVERED}
    assert not again.held


def test_a_revocation_that_did_not_arrive_is_sent_again() -> None:
    world = running(2)
    world.join("w2")
    world.named("w0").fails_next = True
    first = world.round()
    lost = {task for task in first.revoked_why if task in owned(world)["w0"]}
    again = world.round()
    assert lost
    assert lost <= again.revoked_why.keys()
    assert not lost & again.assigned_why.keys()


def test_what_is_still_stopping_is_neither_revoked_again_nor_assigned() -> None:
    world = running(2)
    world.join("w2")
    revoked = set(world.round().revoked_why)
    meanwhile = world.round()
    assert not meanwhile.revoked_why
    assert not revoked & meanwhile.assigned_why.keys()
    world.settle()
    assert owned(world)["w2"] == revoked


@pytest.mark.parametrize("max_delay_ms", [0, 20 * SECOND_MS, DELAY_MS])
def test_without_a_proof_nothing_moves_before_the_lease_has_run_out(max_delay_ms: int) -> None:
    world = running(3, Policy(scheduled_rebalance_max_delay_ms=max_delay_ms))
    start_ms, lost = world.now_ms, owned(world)["w1"]
    world.drop(world.named("w1"))
    held = world.round()
    until_ms = start_ms + max(max_delay_ms, LEASE_MS)
    assert {held.held[task].until_ms for task in lost} == {until_ms}
    assert held.rejoin_at_ms == until_ms
    reason = HoldReason.UNPROVEN if max_delay_ms < LEASE_MS else HoldReason.DEPARTED
    assert {held.held[task].reason for task in lost} == {reason}
    world.advance(until_ms - start_ms - 1)
    assert not world.round().assigned_why
    world.advance(1)
    assert world.round().assigned_why.keys() == lost


def test_a_proof_that_comes_later_ends_the_wait_for_the_lease() -> None:
    world = running(3, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(world)["w1"]
    victim = world.named("w1")
    world.kill(victim, proven=False)
    assert world.round().held.keys() == lost
    world.advance(SECOND_MS)
    world.proven.add((victim.identity, victim.incarnation))
    assert world.round().assigned_why.keys() == lost


def test_a_new_life_waits_until_the_end_of_the_old_one_is_certain() -> None:
    world = running()
    before = owned(world)
    world.drop(world.named("w1"))
    world.join("w1")
    held = world.round()
    assert held.held.keys() == before["w1"]
    assert held.rejoin_at_ms == world.now_ms + LEASE_MS
    world.advance(LEASE_MS)
    world.round()
    newest = world.members()[-1]
    assert newest.identity == "w1"
    assert newest.running == before["w1"]


def test_the_same_process_that_was_dropped_and_is_back_goes_on() -> None:
    world = running()
    before = owned(world)
    world.drop(world.named("w1"))
    world.round()
    world.advance(30 * SECOND_MS)
    world.rejoin(world.named("w1"))
    assert world.round().assigned_why == {}
    assert owned(world) == before


def test_who_will_not_come_back_is_not_waited_for() -> None:
    world = running()
    lost = owned(world)["w1"]
    world.kill(world.named("w1"), proven=True)
    world.facts = replace(world.facts, gone=frozenset({"w1"}))
    decided = world.round()
    assert decided.assigned_why.keys() == lost
    assert {reason.why for reason in decided.assigned_why.values()} == {Why.HOLD_ENDED}


def test_who_will_not_come_back_and_may_still_run_is_waited_for_as_long_as_its_lease() -> None:
    world = running()
    start_ms, lost = world.now_ms, owned(world)["w1"]
    world.drop(world.named("w1"))
    world.facts = replace(world.facts, gone=frozenset({"w1"}))
    assert {held.until_ms for held in world.round().held.values()} == {start_ms + LEASE_MS}
    world.advance(LEASE_MS)
    assert world.round().assigned_why.keys() == lost


def test_a_crash_loop_does_not_renew_its_hold_for_ever() -> None:
    world = running(3, Policy(max_returns=2))
    lost = owned(world)["w1"]
    for _ in range(2):
        world.kill(world.named("w1"), proven=True)
        assert world.round().held.keys() == lost
        world.join("w1")
        assert world.round().assigned_why.keys() == lost
    world.kill(world.named("w1"), proven=True)
    assert world.round().assigned_why.keys() == lost


def test_the_budget_of_returns_is_full_again_after_its_window() -> None:
    policy = Policy(max_returns=1, return_window_ms=600 * SECOND_MS)
    world = running(3, policy)
    for _ in range(3):
        world.kill(world.named("w1"), proven=True)
        assert world.round().held
        world.join("w1")
        world.settle()
        world.advance(policy.return_window_ms)


def test_deleted_tasks_leave_the_hold_and_with_the_last_of_them_it_ends() -> None:
    world = running(2, a=1)
    victim = next(identity for identity, tasks in owned(world).items() if of("a-0") <= tasks)
    world.kill(world.named(victim), proven=True)
    assert of("a-0") <= world.round().held.keys()
    world.task_counts["a"] = 0
    assert not of("a-0") & world.round().held.keys()
    del world.task_counts["a"]
    ended = world.round()
    assert not ended.held
    assert ended.rejoin_at_ms is None


def test_what_a_vanished_life_may_still_run_stays_fenced_when_it_is_deleted_and_created_again() -> None:
    world = running(2, a=2)
    lost = owned(world)["w1"]
    world.drop(world.named("w1"))
    world.round()
    del world.task_counts["a"]
    world.round()
    world.task_counts["a"] = 2
    assert not lost & world.round().assigned_why.keys()
    world.advance(DELAY_MS)
    world.settle()
    assert lost <= owned(world)["w0"]


@pytest.mark.parametrize("delay_ms", [0, DELAY_MS])
def test_a_wait_that_began_by_a_clock_that_was_ahead_is_no_longer_than_others(delay_ms: int) -> None:
    world = running(2, policy=Policy(scheduled_rebalance_max_delay_ms=delay_ms), a=2)
    wait_ms = max(delay_ms, world.policy.fence_ms)
    lost = owned(world)["w1"]
    world.drop(world.named("w1"))
    world.round()
    # The next leader's clock is behind that of the one who saw the departure.
    world.now_ms -= 60 * SECOND_MS
    world.named("w1").out_since_ms = world.now_ms
    assert {world.round().held[task].until_ms for task in lost} == {world.now_ms + wait_ms}
    world.advance(wait_ms)
    world.settle()
    assert lost <= owned(world)["w0"]


def test_given_tasks_that_never_started_do_not_wait_for_their_member() -> None:
    world = running(2, a=4)
    world.join("w2")
    world.round()
    for process in world.members():
        world.stopped(process)
    world.named("w2").fails_next = True
    given = world.round().assigned_why.keys()
    world.unstarted = set(given)
    world.kill(world.named("w2"), proven=True)
    decided = world.round()
    assert decided.assigned_why.keys() == given
    assert {reason.why for reason in decided.assigned_why.values()} == {Why.UNDELIVERED}
    assert not decided.held


def test_without_members_everything_is_held_and_returns() -> None:
    world = running(2)
    before = owned(world)
    for identity in ("w0", "w1"):
        world.kill(world.named(identity), proven=True)
    nobody = world.round()
    assert nobody.shares == {}
    assert nobody.held.keys() == world.configured()
    world.join("w1")
    world.join("w0")
    world.round()
    assert owned(world) == before


def test_a_new_leader_goes_on_with_the_holds_of_the_old_one() -> None:
    world = running()
    start_ms, lost = world.now_ms, owned(world)["w1"]
    world.kill(world.named("w1"), proven=True)
    world.round()
    # The new leader has the memory and nothing else: no facts, and a term of its own.
    world.proven.clear()
    world.memory = replace(world.memory, term=world.memory.term + 1)
    world.advance(100 * SECOND_MS)
    decided = world.round()
    assert decided.held.keys() == lost
    assert {held.until_ms for held in decided.held.values()} == {start_ms + DELAY_MS}
