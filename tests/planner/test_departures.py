"""Announced departures, cordons, joins that are known to come, and members that the leader itself evicted."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cooperator.model import Hold, HoldReason, Policy
from cooperator.planner import Facts, Why
from planner.world import World, of, owned

SECOND_MS = 1000


def running(workers: int = 3, policy: Policy | None = None, **task_counts: int) -> World:
    """A group of w0, w1, … at rest."""
    world = World(policy or Policy(), **(task_counts or {"a": 4, "b": 4}))
    for number in range(workers):
        world.join(f"w{number}")
    world.settle()
    return world


@pytest.mark.parametrize("announced_by", ["member", "host"])
def test_what_a_leaver_runs_moves_before_it_goes(announced_by: str) -> None:
    world = running()
    moving = owned(world)["w2"]
    if announced_by == "member":
        world.named("w2").draining = True
    else:
        world.facts = Facts(leaving=frozenset({"w2"}))
    revoking = world.round()
    assert revoking.revoked_why.keys() == moving
    assert {reason.why for reason in revoking.revoked_why.values()} == {Why.DRAIN}
    world.stopped(world.named("w2"))
    assigning = world.round()
    assert assigning.assigned_why.keys() == moving
    assert not assigning.held
    world.kill(world.named("w2"), proven=True)
    gone = world.round()
    assert not gone.held
    assert not gone.assigned_why


def test_a_leaver_gets_nothing_new() -> None:
    world = running(2, a=2)
    world.facts = Facts(leaving=frozenset({"w1"}))
    world.task_counts["b"] = 4
    assert world.round().shares[world.named("w1").incarnation].assigned == ()


def test_with_nowhere_to_go_a_draining_member_s_tasks_are_held_for_it() -> None:
    world = running(1)
    before = owned(world)["w0"]
    world.named("w0").draining = True
    draining = world.round()
    assert draining.revoked_why.keys() == before == draining.held.keys()
    world.stopped(world.named("w0"))
    world.kill(world.named("w0"), proven=True)
    world.round()
    world.join("w0")
    assert world.round().assigned_why.keys() == before


def test_a_member_that_is_merely_told_to_leave_runs_on_while_there_is_nobody_else() -> None:
    world = running(1)
    world.facts = Facts(leaving=frozenset({"w0"}))
    assert not world.round().revoked_why
    world.join("w1")
    assert world.round().revoked_why.keys() == owned(world)["w0"] | world.configured()


def test_a_roll_holds_what_the_member_ran_and_touches_nobody_else() -> None:
    world = running()
    before = owned(world)
    world.facts = Facts(returning=frozenset({"w1"}))
    assert not world.round().revoked_why, "it is still up"
    world.named("w1").draining = True
    draining = world.round()
    assert draining.revoked_why.keys() == before["w1"] == draining.held.keys()
    world.stopped(world.named("w1"))
    assert not world.round().assigned_why
    world.kill(world.named("w1"), proven=True)
    world.round()
    world.join("w1")
    world.round()
    assert owned(world) == before


def test_a_draining_member_that_is_killed_while_it_stops_is_fenced() -> None:
    world = running()
    moving = owned(world)["w2"]
    world.named("w2").draining = True
    world.round()
    world.drop(world.named("w2"))
    held = world.round()
    assert held.held.keys() == moving
    assert {task.reason for task in held.held.values()} == {HoldReason.UNPROVEN}
    world.advance(45 * SECOND_MS)
    assert world.round().assigned_why.keys() == moving


def test_a_cordoned_member_keeps_what_it_has_and_gets_nothing_new() -> None:
    world = running(2, a=4)
    before = owned(world)["w1"]
    world.facts = Facts(cordoned=frozenset({"w1"}))
    world.task_counts["b"] = 4
    decided = world.round()
    assert len(decided.assigned_why) == 5
    assert owned(world)["w1"] == before
    world.check_at_rest()


def test_zones_that_the_host_knows_go_before_what_members_say() -> None:
    def with_c(zones: Mapping[str, str]) -> set[str]:
        """Who has the two tasks of a new connector."""
        world = running(4)
        world.facts = Facts(zones=frozenset(zones.items()))
        world.task_counts["c"] = 2
        world.round()
        return {member for member, tasks in owned(world).items() if tasks & of("c-0", "c-1")}

    pair = with_c({})
    zones = {f"w{number}": "near" if f"w{number}" in pair else "far" for number in range(4)}
    assert len(pair) == 2
    assert {zones[member] for member in with_c(zones)} == {"near", "far"}


def test_a_cordoned_member_gets_new_tasks_if_there_is_nobody_else() -> None:
    world = running(1, a=1)
    world.facts = Facts(cordoned=frozenset({"w0"}))
    world.task_counts["b"] = 1
    assert world.round().assigned_why.keys() == of("b", "b-0")


def test_a_cordoned_member_that_restarts_gets_its_own_back() -> None:
    world = running()
    before = owned(world)
    world.facts = Facts(cordoned=frozenset({"w1"}))
    world.kill(world.named("w1"), proven=True)
    world.round()
    world.join("w1")
    world.round()
    assert owned(world) == before


def test_expected_joins_are_waited_for_and_cost_one_revocation_round() -> None:
    world = running(1, a=12)
    world.facts = Facts(expected=frozenset({"w0", "w1", "w2", "w3"}))
    start_ms = world.now_ms
    world.join("w1")
    first = world.round()
    assert not first.revoked_why
    assert first.rejoin_at_ms == start_ms + 30 * SECOND_MS
    world.advance(SECOND_MS)
    world.join("w2")
    assert not world.round().revoked_why
    world.join("w3")
    assert world.round().revoked_why
    world.settle()
    world.check_complete_and_balanced()
    assert not world.memory.joins


def test_the_wait_for_expected_joins_ends() -> None:
    world = running(1, a=4)
    world.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    world.join("w1")
    waiting = world.round()
    assert waiting.rejoin_at_ms is not None
    world.advance(waiting.rejoin_at_ms - world.now_ms)
    assert world.round().revoked_why


def test_while_joins_are_expected_new_tasks_start_at_once() -> None:
    world = running(1, a=4)
    world.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    world.join("w1")
    world.task_counts["b"] = 2
    assert world.round().assigned_why.keys() == of("b", "b-0", "b-1")
    assert owned(world)["w1"] == of("b", "b-0", "b-1")


@pytest.mark.parametrize("fact", ["gone", "leaving"])
def test_who_will_not_stay_is_not_waited_for(fact: str) -> None:
    world = running(1, a=4)
    world.facts = replace(Facts(expected=frozenset({"w0", "w1", "w2"})), **{fact: frozenset({"w2"})})
    world.join("w1")
    assert world.round().revoked_why


def test_balance_waits_while_a_member_is_held_for() -> None:
    """Its return changes the balance again, and what runs loses nothing by waiting."""
    world = running(3)
    world.kill(world.named("w2"), proven=True)
    world.round()
    world.join("w3")
    assert not world.round().revoked_why
    world.join("w2")
    assert world.round().revoked_why
    world.settle()
    world.check_complete_and_balanced()


def test_who_is_held_for_is_not_waited_for_as_a_join() -> None:
    world = running(3)
    world.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    world.kill(world.named("w2"), proven=True)
    world.round()
    assert not world.memory.joins


def test_what_evicted_members_ran_stays_theirs_until_they_are_back() -> None:
    world = running()
    before = owned(world)
    world.take_over(wait_ms=25 * SECOND_MS)
    world.rejoin(world.named("w0"))
    awaiting = world.round()
    assert not awaiting.assigned_why
    assert awaiting.held.keys() == before["w1"] | before["w2"]
    assert {held.reason for held in awaiting.held.values()} == {HoldReason.EVICTED}
    assert awaiting.rejoin_at_ms == world.now_ms + 45 * SECOND_MS, "nothing can change before the leases end"
    world.rejoin(world.named("w1"))
    world.rejoin(world.named("w2"))
    back = world.round()
    assert not back.held
    assert not back.assigned_why
    assert owned(world) == before


def test_an_evicted_member_that_does_not_come_back_departed_when_it_was_evicted() -> None:
    world = running()
    start_ms, lost = world.now_ms, owned(world)["w1"]
    world.take_over(wait_ms=25 * SECOND_MS)
    world.rejoin(world.named("w0"))
    world.rejoin(world.named("w2"))
    world.round()
    world.advance(25 * SECOND_MS)
    departed = world.round()
    assert {held.until_ms for held in departed.held.values()} == {start_ms + 300 * SECOND_MS}
    world.advance(275 * SECOND_MS)
    assert world.round().assigned_why.keys() == lost


def test_a_second_leader_goes_on_awaiting_whom_the_first_evicted() -> None:
    world = running(3)
    world.take_over(wait_ms=25 * SECOND_MS)
    world.rejoin(world.named("w0"))
    world.rejoin(world.named("w2"))
    world.round()
    world.awaited.clear()  # The second leader has evicted nobody itself.
    world.advance(10 * SECOND_MS)
    assert {held.reason for held in world.round().held.values()} == {HoldReason.EVICTED}
    world.advance(15 * SECOND_MS)
    assert {held.reason for held in world.round().held.values()} == {HoldReason.DEPARTED}


def test_an_evicted_member_whose_end_is_proven_is_awaited_no_longer() -> None:
    world = running(3, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(world)["w1"]
    world.take_over(wait_ms=25 * SECOND_MS)
    world.rejoin(world.named("w0"))
    world.rejoin(world.named("w2"))
    assert world.round().held.keys() == lost
    world.kill(world.named("w1"), proven=True)
    assert world.round().assigned_why.keys() == lost


def test_a_leader_without_memory_starts_nothing_while_it_awaits_whom_it_evicted() -> None:
    world = running()
    world.take_over(wait_ms=25 * SECOND_MS)
    world.memory = replace(world.memory, given={}, incarnations={}, holds={}, former={})
    world.rejoin(world.named("w0"))
    assert not world.round().assigned_why
    world.rejoin(world.named("w1"))
    assert not world.round().assigned_why
    world.rejoin(world.named("w2"))
    back = world.round()
    assert not back.assigned_why
    assert not back.held
    world.check_complete_and_balanced()


def test_a_leader_without_memory_waits_for_the_lease_of_an_evicted_member_that_stays_away() -> None:
    world = running(2, Policy(scheduled_rebalance_max_delay_ms=0))
    lost = owned(world)["w1"]
    world.take_over(wait_ms=25 * SECOND_MS)
    world.memory = replace(world.memory, given={}, incarnations={}, holds={}, former={})
    world.rejoin(world.named("w0"))
    world.round()
    world.advance(25 * SECOND_MS)
    assert not world.round().assigned_why
    world.advance(20 * SECOND_MS)
    assert world.round().assigned_why.keys() == lost


def test_while_it_is_not_known_who_runs_what_even_what_is_owed_waits() -> None:
    world = running(3)
    lost = owned(world)["w1"]
    world.kill(world.named("w1"), proven=True)
    lease_over_ms = world.now_ms + 45 * SECOND_MS
    somebody = Hold(frozenset(), world.now_ms, world.now_ms, not_before_ms=lease_over_ms, blanket=True)
    world.memory = replace(world.memory, holds={"(somebody)": somebody})
    world.join("w1")
    waiting = world.round()
    assert not waiting.assigned_why
    assert waiting.held.keys() == lost
    assert waiting.rejoin_at_ms == lease_over_ms
    world.advance(45 * SECOND_MS)
    assert world.round().assigned_why.keys() == lost
