"""Announced departures, cordons, joins that are known to come, and members that the leader itself evicted."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cooperator.model import Hold, HoldReason, Policy
from cooperator.planner import Facts, Why
from tests.planner.unreliable_group import UnreliableGroup, of, owned

SECOND_MS = 1000


def running(workers: int = 3, policy: Policy | None = None, **task_counts: int) -> UnreliableGroup:
    """A group of w0, w1, … at rest."""
    group = UnreliableGroup(policy or Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        group.join(f"w{number}")
    group.settle()
    return group


@pytest.mark.parametrize("announced_by", ["member", "host"])
def test_tasks_of_a_departing_member_move_before_it_leaves(announced_by: str) -> None:
    group = running()
    moving = owned(group)["w2"]
    if announced_by == "member":
        group.named("w2").draining = True
    else:
        group.facts = Facts(leaving=frozenset({"w2"}))
    revoking = group.round()
    assert revoking.revoked_why.keys() == moving
    assert {reason.why for reason in revoking.revoked_why.values()} == {Why.DRAIN}
    group.stopped(group.named("w2"))
    assigning = group.round()
    assert assigning.assigned_why.keys() == moving
    assert not assigning.held
    group.kill(group.named("w2"), proven=True)
    gone = group.round()
    assert not gone.held
    assert not gone.assigned_why


def test_a_leaver_gets_nothing_new() -> None:
    group = running(2, a=2)
    group.facts = Facts(leaving=frozenset({"w1"}))
    group.task_counts["b"] = 4
    assert group.round().assignments[group.named("w1").incarnation].assigned == ()


def test_with_nowhere_to_go_a_draining_member_s_tasks_are_held_for_it() -> None:
    group = running(1)
    before = owned(group)["w0"]
    group.named("w0").draining = True
    draining = group.round()
    assert draining.revoked_why.keys() == before == draining.held.keys()
    group.stopped(group.named("w0"))
    group.kill(group.named("w0"), proven=True)
    group.round()
    group.join("w0")
    assert group.round().assigned_why.keys() == before


def test_a_member_that_is_merely_told_to_leave_runs_on_while_there_is_nobody_else() -> None:
    group = running(1)
    group.facts = Facts(leaving=frozenset({"w0"}))
    assert not group.round().revoked_why
    group.join("w1")
    assert group.round().revoked_why.keys() == owned(group)["w0"] | group.configured()


def test_a_roll_holds_what_the_member_ran_and_touches_nobody_else() -> None:
    group = running()
    before = owned(group)
    group.facts = Facts(returning=frozenset({"w1"}))
    assert not group.round().revoked_why, "it is still up"
    group.named("w1").draining = True
    draining = group.round()
    assert draining.revoked_why.keys() == before["w1"] == draining.held.keys()
    group.stopped(group.named("w1"))
    assert not group.round().assigned_why
    group.kill(group.named("w1"), proven=True)
    group.round()
    group.join("w1")
    group.round()
    assert owned(group) == before


def test_a_draining_member_that_is_killed_while_it_stops_is_fenced() -> None:
    group = running()
    moving = owned(group)["w2"]
    group.named("w2").draining = True
    group.round()
    group.drop(group.named("w2"))
    held = group.round()
    assert held.held.keys() == moving
    assert {task.reason for task in held.held.values()} == {HoldReason.UNPROVEN}
    group.advance(45 * SECOND_MS)
    assert group.round().assigned_why.keys() == moving


def test_a_cordoned_member_keeps_what_it_has_and_gets_nothing_new() -> None:
    group = running(2, a=4)
    before = owned(group)["w1"]
    group.facts = Facts(cordoned=frozenset({"w1"}))
    group.task_counts["b"] = 4
    decided = group.round()
    assert len(decided.assigned_why) == 5
    assert owned(group)["w1"] == before
    group.check_at_rest()


def test_zones_that_the_host_knows_go_before_what_members_say() -> None:
    def with_c(zones: Mapping[str, str]) -> set[str]:
        """The members that get the two tasks of a new connector."""
        group = running(4)
        group.facts = Facts(zones=frozenset(zones.items()))
        group.task_counts["c"] = 2
        group.round()
        return {member for member, tasks in owned(group).items() if tasks & of("c-0", "c-1")}

    pair = with_c({})
    zones = {f"w{number}": "near" if f"w{number}" in pair else "far" for number in range(4)}
    assert len(pair) == 2
    assert {zones[member] for member in with_c(zones)} == {"near", "far"}


def test_a_cordoned_member_gets_new_tasks_if_there_is_nobody_else() -> None:
    group = running(1, a=1)
    group.facts = Facts(cordoned=frozenset({"w0"}))
    group.task_counts["b"] = 1
    assert group.round().assigned_why.keys() == of("b", "b-0")


def test_a_cordoned_member_that_restarts_gets_its_own_back() -> None:
    group = running()
    before = owned(group)
    group.facts = Facts(cordoned=frozenset({"w1"}))
    group.kill(group.named("w1"), proven=True)
    group.round()
    group.join("w1")
    group.round()
    assert owned(group) == before


def test_expected_joins_are_waited_for_and_cost_one_revocation_round() -> None:
    group = running(1, a=12)
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2", "w3"}))
    start_ms = group.now_ms
    group.join("w1")
    first = group.round()
    assert not first.revoked_why
    assert first.rejoin_at_ms == start_ms + 30 * SECOND_MS
    group.advance(SECOND_MS)
    group.join("w2")
    assert not group.round().revoked_why
    group.join("w3")
    assert group.round().revoked_why
    group.settle()
    group.check_complete_and_balanced()
    assert not group.memory.joins


def test_the_wait_for_expected_joins_ends() -> None:
    group = running(1, a=4)
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    group.join("w1")
    waiting = group.round()
    assert waiting.rejoin_at_ms is not None
    group.advance(waiting.rejoin_at_ms - group.now_ms)
    assert group.round().revoked_why


def test_while_joins_are_expected_new_tasks_start_at_once() -> None:
    group = running(1, a=4)
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    group.join("w1")
    group.task_counts["b"] = 2
    assert group.round().assigned_why.keys() == of("b", "b-0", "b-1")
    assert owned(group)["w1"] == of("b", "b-0", "b-1")


@pytest.mark.parametrize("fact", ["gone", "leaving"])
def test_a_member_that_will_not_stay_is_not_awaited(fact: str) -> None:
    group = running(1, a=4)
    group.facts = replace(Facts(expected=frozenset({"w0", "w1", "w2"})), **{fact: frozenset({"w2"})})
    group.join("w1")
    assert group.round().revoked_why


def test_balance_waits_while_a_member_is_held_for() -> None:
    """Its return changes the balance again, and what runs loses nothing by waiting."""
    group = running(3)
    group.kill(group.named("w2"), proven=True)
    group.round()
    group.join("w3")
    assert not group.round().revoked_why
    group.join("w2")
    assert group.round().revoked_why
    group.settle()
    group.check_complete_and_balanced()


def test_a_member_with_held_tasks_is_not_awaited_as_a_join() -> None:
    group = running(3)
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    group.kill(group.named("w2"), proven=True)
    group.round()
    assert not group.memory.joins


def test_evicted_members_keep_their_tasks_until_they_return() -> None:
    group = running()
    before = owned(group)
    group.take_over(wait_ms=25 * SECOND_MS)
    group.rejoin(group.named("w0"))
    awaiting = group.round()
    assert not awaiting.assigned_why
    assert awaiting.held.keys() == before["w1"] | before["w2"]
    assert {held.reason for held in awaiting.held.values()} == {HoldReason.EVICTED}
    assert awaiting.rejoin_at_ms == group.now_ms + 45 * SECOND_MS, "nothing can change before the leases end"
    group.rejoin(group.named("w1"))
    group.rejoin(group.named("w2"))
    back = group.round()
    assert not back.held
    assert not back.assigned_why
    assert owned(group) == before


def test_an_evicted_member_that_does_not_come_back_departed_when_it_was_evicted() -> None:
    group = running()
    start_ms, lost = group.now_ms, owned(group)["w1"]
    group.take_over(wait_ms=25 * SECOND_MS)
    group.rejoin(group.named("w0"))
    group.rejoin(group.named("w2"))
    group.round()
    group.advance(25 * SECOND_MS)
    departed = group.round()
    assert {held.until_ms for held in departed.held.values()} == {start_ms + 300 * SECOND_MS}
    group.advance(275 * SECOND_MS)
    assert group.round().assigned_why.keys() == lost


def test_a_second_leader_goes_on_awaiting_whom_the_first_evicted() -> None:
    group = running(3)
    group.take_over(wait_ms=25 * SECOND_MS)
    group.rejoin(group.named("w0"))
    group.rejoin(group.named("w2"))
    group.round()
    group.awaited.clear()  # The second leader has evicted nobody itself.
    group.advance(10 * SECOND_MS)
    assert {held.reason for held in group.round().held.values()} == {HoldReason.EVICTED}
    group.advance(15 * SECOND_MS)
    assert {held.reason for held in group.round().held.values()} == {HoldReason.DEPARTED}


def test_an_evicted_member_whose_end_is_proven_is_awaited_no_longer() -> None:
    group = running(3, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(group)["w1"]
    group.take_over(wait_ms=25 * SECOND_MS)
    group.rejoin(group.named("w0"))
    group.rejoin(group.named("w2"))
    assert group.round().held.keys() == lost
    group.kill(group.named("w1"), proven=True)
    assert group.round().assigned_why.keys() == lost


def test_a_leader_without_memory_starts_nothing_while_it_awaits_whom_it_evicted() -> None:
    group = running()
    group.take_over(wait_ms=25 * SECOND_MS)
    group.memory = replace(group.memory, given={}, incarnations={}, holds={}, former={})
    group.rejoin(group.named("w0"))
    assert not group.round().assigned_why
    group.rejoin(group.named("w1"))
    assert not group.round().assigned_why
    group.rejoin(group.named("w2"))
    back = group.round()
    assert not back.assigned_why
    assert not back.held
    group.check_complete_and_balanced()


def test_a_leader_without_memory_waits_for_the_lease_of_an_evicted_member_that_stays_away() -> None:
    group = running(2, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(group)["w1"]
    group.take_over(wait_ms=25 * SECOND_MS)
    group.memory = replace(group.memory, given={}, incarnations={}, holds={}, former={})
    group.rejoin(group.named("w0"))
    group.round()
    group.advance(25 * SECOND_MS)
    assert not group.round().assigned_why
    group.advance(20 * SECOND_MS)
    assert group.round().assigned_why.keys() == lost


def test_while_it_is_not_known_who_runs_what_even_what_is_owed_waits() -> None:
    group = running(3)
    lost = owned(group)["w1"]
    group.kill(group.named("w1"), proven=True)
    lease_over_ms = group.now_ms + 45 * SECOND_MS
    somebody = Hold(frozenset(), group.now_ms, group.now_ms, not_before_ms=lease_over_ms, blanket=True)
    group.memory = replace(group.memory, holds={"(somebody)": somebody})
    group.join("w1")
    waiting = group.round()
    assert not waiting.assigned_why
    assert waiting.held.keys() == lost
    assert waiting.rejoin_at_ms == lease_over_ms
    group.advance(45 * SECOND_MS)
    assert group.round().assigned_why.keys() == lost
