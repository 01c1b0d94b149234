"""Conversations with the leader machine: what it wants done when, with a real planner behind it."""

import pytest

from cooperator.leader import events as ev
from cooperator.model import INSTANCE, Epoch, HoldReason, Policy, TaskId
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup, running_group, tasks


class TestRounds:
    def test_a_desired_connector_is_written_once_and_then_runs(self) -> None:
        group = FakeGroup()
        group.join("lake-0")
        group.round()
        group.desire(a=2)
        assert group.written == ["connector-a"]
        assert group.asks_for_round()
        group.settle()
        assert group.runs("lake-0") == tasks("a", INSTANCE)
        group.desire(a=2)
        assert group.written == ["connector-a"]

    def test_changes_that_come_close_together_share_one_round(self) -> None:
        group = running_group()
        group.desire(a=6, b=1)
        group.advance(100)
        group.desire(a=6, b=1, c=1)
        group.advance(100)
        assert group.rejoins == []
        group.advance(100)
        assert len(group.rejoins) == 1
        assert group.settle() == 1

    def test_at_rest_nothing_is_asked_for(self) -> None:
        group = running_group()
        group.advance(600_000)
        assert group.rejoins == []

    def test_a_request_for_a_round_that_shows_no_effect_is_repeated(self) -> None:
        group = running_group()
        group.desire(a=6, b=1)
        group.advance(1_000)
        assert len(group.rejoins) == 1
        group.advance(2_000)
        assert len(group.rejoins) == 2

    def test_the_memory_is_saved_before_the_answer(self) -> None:
        group = FakeGroup()
        member = group.join("lake-0")
        group.round()
        group.desire(a=1)
        config = group.fold.snapshot()
        ready = ev.RoundReady(2, "sessioned", "leader-1", (member.report(),), (), group.offset, config)
        kinds = [type(i).__name__ for i in group.machine.handle(ready, group.now_ms)]
        assert kinds.index("SaveMemory") < kinds.index("Answer")

    def test_a_round_whose_memory_cannot_be_saved_counts_for_nothing(self) -> None:
        group = running_group()
        before = group.saved
        group.join("lake-3")
        group.save_fails = True
        group.round()
        assert group.machine.state.memory == before
        assert group.asks_for_round()
        group.save_fails = False
        group.settle()
        assert len(group.runs("lake-3")) >= 1

    def test_an_assignment_that_never_arrives_is_given_again(self) -> None:
        group = running_group()
        group.desire(a=6, b=1)
        assert group.asks_for_round()
        group.round(deliver=False)
        group.settle()
        assert TaskId("b", INSTANCE) in group.all_running()

    def test_a_round_that_was_delivered_does_not_fail_any_more(self) -> None:
        group = running_group()
        memory = group.machine.state.memory
        group._do(ev.RoundFailed(group.generation, "told late"))
        assert group.machine.state.memory == memory
        assert not group.asks_for_round()

    def test_members_that_know_a_newer_configuration_get_nothing_yet(self) -> None:
        group = running_group()
        starts = {member.member_id: list(member.starts) for member in group.members.values()}
        group.offset += 5
        group.join("lake-3")
        group.round()
        assert {m: group.members[m].starts for m in starts} == starts
        assert group.runs("lake-3") == set()
        assert group.asks_for_round()

    def test_a_leader_that_was_replaced_says_nothing_more(self) -> None:
        group = running_group()
        group.machine.handle(ev.LeadLost("fenced"), group.now_ms)
        group.desire(a=6, b=1)
        group.advance(10_000)
        assert group.rejoins == []
        assert group.post("a", "u0") == 409
        assert "connector-b" not in group.written


class TestDepartures:
    def test_a_proven_death_is_evicted_held_and_ends_with_the_return_of_the_same_identity(self) -> None:
        group = running_group()
        lost = group.runs("lake-1")
        others = {i: group.runs(i) for i in ("lake-0", "lake-2")}
        dead = group.of("lake-1")
        group.facts(
            Facts(expected=frozenset({"lake-0", "lake-1", "lake-2"}), ended={("lake-1", "incarnation-2")})
        )
        assert group.evicted == [dead.member_id]
        del group.members[dead.member_id]
        group.round()
        group.settle()
        plan = group.machine.state.plan
        assert plan is not None
        assert set(plan.held) == lost
        assert {held.reason for held in plan.held.values()} == {HoldReason.DEPARTED}
        group.advance(20_000)
        assert group.rejoins == []
        back = group.join("lake-1")
        group.round()
        assert set(back.running) == lost
        assert {i: group.runs(i) for i in others} == others
        assert all(len(group.of(i).starts) == len(others[i]) for i in others)

    def test_the_leader_asks_for_the_round_that_ends_a_hold(self) -> None:
        group = running_group(Policy(scheduled_rebalance_max_delay_ms=60_000))
        lost = set(group.die("lake-1").running)
        group.round()
        group.settle()
        group.advance(59_000)
        assert group.rejoins == []
        group.advance(1_300)
        assert group.rejoins
        group.settle()
        assert lost <= set(group.all_running())

    def test_an_unproven_departure_outlives_a_hold_of_zero(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0, lease_ms=40_000, lease_margin_ms=5_000)
        group = running_group(policy)
        group.die("lake-1", proven=False)
        group.round()
        group.settle()
        group.advance(44_000)
        assert group.rejoins == []
        group.advance(1_300)
        assert group.rejoins

    def test_an_announced_departure_moves_first(self) -> None:
        group = running_group()
        leaver = group.of("lake-2")
        moved = set(leaver.running)
        leaver.draining = True
        group.round()
        assert leaver.stopping == moved
        leaver.stopping.clear()
        group.round()
        assert moved <= set(group.all_running())
        assert not leaver.running


class TestTakingTheLead:
    def test_nothing_that_an_evicted_member_reported_moves_before_it_is_back(self) -> None:
        group = running_group(Policy(scheduled_rebalance_max_delay_ms=0))
        running = {m.identity: set(m.running) for m in group.members.values()}
        reports = tuple(m.report() for m in group.members.values())
        absent = dict(group.members)
        group.machine.handle(ev.LeadLost("restart"), group.now_ms)
        group.take_lead(*reports)
        group.members.clear()
        group.round()
        group.advance(2_000)
        for member_id, member in absent.items():
            group.members[member_id] = member
            group.round()
        group.settle()
        assert {m.identity: set(m.running) for m in group.members.values()} == running
        assert all(len(m.starts) == len(running[m.identity]) for m in group.members.values())

    def test_the_term_grows_and_holds_go_on(self) -> None:
        group = running_group(Policy(scheduled_rebalance_max_delay_ms=60_000))
        lost = set(group.die("lake-1").running)
        group.round()
        group.settle()
        term = group.saved.term
        group.advance(30_000)
        group.machine.handle(ev.LeadLost("restart"), group.now_ms)
        group.take_lead()
        group.round()
        assert group.saved.term == term + 1
        plan = group.machine.state.plan
        assert plan is not None
        assert set(plan.held) == lost
        group.advance(28_000)
        assert group.rejoins == []
        group.advance(2_500)
        assert group.rejoins

    def test_a_lost_leader_log_does_not_lead_back_in_time(self) -> None:
        group = running_group()
        group.of("lake-0").applied = Epoch(41, 7)
        group.round()
        assert group.saved.term == 42
        assert group.of("lake-0").applied == Epoch(42, group.generation)


class TestTaskConfigurations:
    def test_task_configurations_of_an_unknown_connector_are_refused(self) -> None:
        assert running_group().post("zebra", "u0") == 404

    def test_the_same_ones_again_change_nothing(self) -> None:
        group = running_group()
        written = list(group.written)
        assert group.post("a", *(f"u{n}" for n in range(6))) == 204
        assert group.written == written

    def test_new_units_start_without_touching_running_tasks(self) -> None:
        group = running_group()
        starts = sum(len(m.starts) for m in group.members.values())
        assert group.post("a", *(f"u{n}" for n in range(8))) == 204
        group.settle()
        assert tasks("a", 6, 7) <= set(group.all_running())
        assert sum(len(m.starts) for m in group.members.values()) == starts + 2

    def test_a_regrouping_lets_go_everywhere_before_anything_is_written(self) -> None:
        group = running_group()
        written = len(group.written)
        new = ["u0", "u1", "u2", "u3+u4", "u5"]
        assert group.post("a", *new) == 202
        assert group.asks_for_round()
        group.round()
        stopping = {task for m in group.members.values() for task in m.stopping}
        assert stopping == tasks("a", 3, 4, 5)
        assert len(group.written) == written
        assert group.post("a", *new) == 202
        group.settle()
        assert len(group.written) == written + 6
        assert group.post("a", *new) == 204
        group.settle()
        assert tasks("a", 0, 1, 2, 3, 4) <= set(group.all_running())
        assert TaskId("a", 5) not in group.all_running()
        starts = [task for m in group.members.values() for task in m.starts]
        assert [starts.count(TaskId("a", n)) for n in range(5)] == [1, 1, 1, 2, 2]

    def test_a_caller_that_may_be_a_stock_worker_is_told_of_nothing_that_is_not_written(self) -> None:
        group = running_group()
        group.join("connect-1", is_agent=False)
        group.round()
        group.settle()
        new = ["u0", "u1", "u2", "u3+u4", "u5"]
        assert group.post("a", *new) == 503, (
            "the next leader would know nothing of it, and nobody would repeat it"
        )
        group.settle()
        assert group.post("a", *new) == 204
        group.settle()
        assert TaskId("a", 5) not in group.all_running()

    def test_a_regrouping_waits_for_the_lease_of_a_member_that_vanished(self) -> None:
        group = running_group()
        group.die("lake-1", proven=False)
        group.round()
        group.settle()
        held = group.machine.state.plan
        assert held is not None
        number = min(task.task for task in held.held if task.task >= 0)
        new = [f"u{n}" if n != number else "other" for n in range(6)]
        assert group.post("a", *new) == 202
        written = len(group.written)
        group.settle()
        assert len(group.written) == written
        group.advance(46_000)
        group.settle()
        assert len(group.written) > written


@pytest.mark.parametrize("members", [1, 2, 5])
def test_a_new_group_comes_to_rest_within_few_rounds(members: int) -> None:
    group = running_group(members=members)
    loads = [len([t for t in m.running if t.task >= 0]) for m in group.members.values()]
    assert max(loads) - min(loads) <= 1
