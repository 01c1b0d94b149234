"""Conversations with a leader whose group leaves rounds: who is told what, and what is in the log before."""

from dataclasses import replace
from itertools import permutations

import pytest

from cooperator.leader import events as ev
from cooperator.leader.group_memory import lacks, restored, stripped
from cooperator.leader.observability.projection import is_settled, project
from cooperator.model import INSTANCE, Epoch, Memory, Policy, TaskId, Warmth
from cooperator.planner.view import Facts
from cooperator.reconciliation import Answer, Rejection, Report, fold
from cooperator.reconciliation.records import RecordKey, RecordKind
from tests.harness.fake_group import FakeMember, tasks
from tests.harness.reconciling_group import ReconcilingGroup, reconciled_group

HOLD_MS = 60_000
POLICY = Policy(scheduled_rebalance_max_delay_ms=HOLD_MS)


class TestTheProtocol:
    def test_a_group_leaves_rounds_by_itself_and_nothing_stops(self) -> None:
        group = ReconcilingGroup()
        for number in range(3):
            group.join(f"lake-{number}")
        group.round()
        group.desire(a=2)
        group.settle()
        assert group.is_reconciled
        assert all(len(member.starts) == len(member.running) for member in group.members.values())

    def test_it_stays_in_rounds_unless_the_policy_asks(self) -> None:
        group = reconciled_group()
        group.policy(Policy())
        assert group.asks_for_round()
        group.round()
        assert not group.is_reconciled
        group.advance(600_000)
        assert group.rejoins == []

    def test_a_member_of_an_earlier_release_brings_rounds_and_its_departure_ends_them(self) -> None:
        group = reconciled_group()
        before = {m.member_id: list(m.starts) for m in group.members.values()}
        group.older = {"lake-9"}
        group.join("lake-9")
        group.round()
        assert not group.is_reconciled
        group.settle()
        assert len(group.runs("lake-9")) >= 1
        assert {m: group.members[m].starts for m in before} == before, "nothing is started anew"

        group.die("lake-9")
        group.round()
        group.settle()
        group.advance(HOLD_MS * 6)
        group.settle()
        assert group.is_reconciled
        assert set(group.all_running()) == tasks("a", INSTANCE, *range(6))

    @pytest.mark.parametrize("order", [*permutations(("lake-0", "lake-1", "lake-2"))])
    def test_members_are_upgraded_and_downgraded_in_every_order_and_others_run_on(
        self, order: tuple[str, ...]
    ) -> None:
        group = ReconcilingGroup(POLICY)
        group.older = {*order}
        for identity in sorted(order):
            group.join(identity)
        group.facts(Facts(expected=frozenset(order)))
        group.round()
        group.desire(a=6)
        group.settle()
        assert group.post("a", *(f"u{n}" for n in range(6))) == 204
        group.settle()
        added: dict[str, int] = {}
        for is_older in (False, True, False):
            for identity in order:
                before = {m.identity: [*m.starts] for m in group.members.values()}
                own = group.runs(identity)
                group.die(identity)
                group.round()
                group.older = group.older | {identity} if is_older else group.older - {identity}
                group.join(identity)
                group.round()
                group.settle()
                assert group.is_reconciled is not bool(group.older)
                assert group.runs(identity) == own
                for other in {*order} - {identity}:
                    assert group.of(other).starts == before[other], "nothing is started anew"
                added[f"n{len(added)}"] = 1
                group.desire(a=6, **added)
                group.settle()
                assert group.post([*added][-1], "u") == 204
                group.settle()

    def test_a_member_that_has_not_read_the_policy_costs_few_rounds(self) -> None:
        group = ReconcilingGroup()
        group.deaf = {"lake-0"}
        group.join("lake-0")
        group.round()
        group.desire(a=2)
        rounds = 0
        for _ in range(120):
            group.advance(1_000)
            if group.rejoins:
                group.round()
                rounds += 1
        assert not group.is_reconciled
        assert rounds < 12
        assert "has not read the policy" in group.machine.why_in_rounds(group.now_ms)
        group.deaf = set()
        group.advance(60_000)
        group.settle()
        assert group.is_reconciled

    def test_it_leaves_rounds_by_itself_after_ten_minutes_with_a_member_that_was_not_reached(self) -> None:
        group = reconciled_group()
        group.join("lake-3")
        lost = group.of("lake-3")
        group.round(lost_to=["lake-3"])
        group.advance(POLICY.lease_ms // 2)
        for member in [*group.members.values()]:
            if member is not lost:
                group.report(member)
        group.advance(POLICY.lease_ms // 2 + 2_000)
        group.settle()
        assert group.machine.why_in_rounds(group.now_ms) == "lake-3 does not reach the leader"
        group.advance(590_000)
        assert group.rejoins == []
        group.advance(20_000)
        group.settle()
        assert group.is_reconciled

    def test_a_round_that_names_no_tasks_and_whose_leader_knows_none_is_repeated(self) -> None:
        group = ReconcilingGroup()
        group.join("lake-0")
        group.round()
        group.desire(a=2)
        group.lose_lead()
        group.log.clear()
        group.take_lead()
        group.log[RecordKey(RecordKind.GROUP)] = None
        group.round()
        assert (group.protocol, group.is_reconciled) == ("reconciled", False)
        assert group.machine.state.is_blind
        assert group.post("a", "u") != 204, "nothing is written while it is not known what runs"
        assert group.asks_for_round()
        group.log.clear()
        group.round()
        assert group.protocol == "sessioned"

    def test_a_connector_of_a_group_without_rounds_needs_none(self) -> None:
        group = reconciled_group()
        generation = group.generation
        group.desire(a=6, b=2)
        group.settle()
        assert group.post("b", "v0", "v1") == 204
        group.settle()
        assert set(group.all_running()) >= tasks("b", INSTANCE, 0, 1)
        assert group.generation == generation

    def test_a_handed_back_group_is_in_rounds(self) -> None:
        group = reconciled_group()
        group._do(ev.HandBack())
        assert group.asks_for_round()
        group.settle()
        assert not group.is_reconciled

    def test_a_member_that_does_not_reach_the_leader_brings_rounds(self) -> None:
        group = reconciled_group()
        group.join("lake-3")
        lost = group.of("lake-3")
        group.round(lost_to=["lake-3"])
        group.advance(POLICY.lease_ms - 1_000)
        assert group.rejoins == []
        for member in [*group.members.values()]:
            if member is not lost:
                group.report(member)
        group.advance(2_000)
        assert "lake-3 does not reach the leader" in group.rejoins[0]
        group.settle()
        assert not group.is_reconciled
        assert len(group.runs("lake-3")) >= 1


class TestMoves:
    def test_a_member_that_joins_gets_what_others_have_released(self) -> None:
        group = reconciled_group()
        group.join("lake-3")
        group.round()
        group.advance(100)
        assert group.runs("lake-3") == set()
        [giver] = [m for m in group.members.values() if m.stopping]
        assert group.is_held("lake-3")
        group.release(giver.identity)
        assert len(group.runs("lake-3")) == 1
        assert group.settle() == 0

    def test_a_slow_member_delays_only_what_it_is_to_give(self) -> None:
        group = reconciled_group()
        group.desire(a=6, b=1)
        group.advance(100)
        assert TaskId("b", INSTANCE) in group.all_running()
        group.join("lake-3")
        group.round()
        group.advance(100)
        assert [m for m in group.members.values() if m.stopping]
        group.desire(a=6, b=1, c=1)
        group.advance(100)
        assert TaskId("c", INSTANCE) in group.all_running()

    def test_a_warm_up_delays_nothing_and_is_reported_without_a_round(self) -> None:
        group = reconciled_group()
        member = group.join("lake-3", warmth=Warmth.WARMING)
        group.round()
        assert not [m for m in group.members.values() if m.stopping]
        member.warmth = Warmth.WARM
        generation = group.generation
        group.report(member)
        group.advance(100)
        group.settle()
        assert len(group.runs("lake-3")) >= 1
        assert group.generation == generation

    def test_a_draining_member_is_emptied_and_then_told(self) -> None:
        group = reconciled_group()
        member = group.of("lake-1")
        member.draining = True
        group.report(member)
        group.advance(100)
        assert member.stopping
        group.release("lake-1")
        assert member.running | member.stopping == set()
        assert not group.is_held("lake-1"), "it may leave"

    def test_changed_tasks_are_written_only_when_nobody_runs_the_old_ones(self) -> None:
        group = reconciled_group()
        assert group.post("a", "u0", "w1", "u2", "u3", "u4", "u5") == 202
        group.advance(100)
        [giver] = [m for m in group.members.values() if m.stopping]
        assert giver.stopping == {TaskId("a", 1)}
        written = len(group.written)
        group.advance(1_000)
        assert len(group.written) == written
        group.release(giver.identity)
        assert group.post("a", "u0", "w1", "u2", "u3", "u4", "u5") == 204
        group.settle()
        assert TaskId("a", 1) in group.all_running()


class TestDepartures:
    def test_tasks_of_a_member_that_died_wait_for_it_and_come_back_with_it(self) -> None:
        group, lost, others = _after_a_death()
        group.advance(HOLD_MS // 2)
        assert {i: group.runs(i) for i in others} == others
        back = group.join("lake-1")
        group.round()
        assert set(back.running) == lost
        assert {i: group.runs(i) for i in others} == others

    def test_a_member_that_is_back_and_reports_late_has_its_own_tasks_again(self) -> None:
        group, lost, others = _after_a_death()
        back = group.join("lake-1")
        group.round(lost_to=["lake-1"])
        group.desire(a=6, b=1)
        group.advance(5_000)
        assert TaskId("b", INSTANCE) in group.all_running(), "a new task waits for nobody"
        assert lost.isdisjoint(group.all_running())
        group.round()
        group.settle()
        assert lost <= set(back.running)
        assert all(tasks <= group.runs(i) for i, tasks in others.items())

    def test_they_move_when_the_hold_is_over(self) -> None:
        group = reconciled_group(POLICY)
        lost = group.runs("lake-1")
        group.die("lake-1")
        group.round()
        group.advance(HOLD_MS - 2_000)
        assert lost.isdisjoint(group.all_running())
        group.advance(4_000)
        assert lost <= set(group.all_running())

    def test_without_a_proof_they_start_nowhere_before_the_lease_and_a_margin(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0, lease_ms=40_000, lease_margin_ms=5_000)
        group = reconciled_group(policy)
        lost = group.runs("lake-1")
        group.die("lake-1", proven=False)
        group.round()
        group.advance(44_500)
        assert lost.isdisjoint(group.all_running())
        group.advance(2_500)
        assert lost <= set(group.all_running())

    def test_a_proof_that_comes_later_frees_them_at_once(self) -> None:
        group = reconciled_group(Policy(scheduled_rebalance_max_delay_ms=0))
        lost = group.runs("lake-1")
        member = group.die("lake-1", proven=False)
        group.round()
        group.advance(10_000)
        assert lost.isdisjoint(group.all_running())
        group.facts(Facts(ended=frozenset({("lake-1", f"incarnation-{member.incarnation}")})))
        group.advance(100)
        assert lost <= set(group.all_running())

    def test_an_earlier_incarnation_stops_everything_and_the_later_one_waits_for_that(self) -> None:
        group = reconciled_group()
        old = group.of("lake-1")
        lost = set(old.running)
        new = group.join("lake-1")
        group.round()
        assert (old.stopping, new.running) == (lost, set())
        group.advance(POLICY.fence_ms * 2)
        assert new.running == set(), "the other one is a member, so its lease goes on"
        group.stop(old)
        group.report(old)
        assert new.running == lost

    def test_no_fence_ends_while_a_round_may_have_renewed_the_lease(self) -> None:
        """The broker answers JoinGroups, which renews leases, before the leader has its own answer."""
        policy = Policy(scheduled_rebalance_max_delay_ms=0)
        group = reconciled_group(policy)
        returning, before = _cut_off(group, "lake-1")
        group.advance(policy.lease_ms - 1_000)
        _all_join(group)
        group.advance(policy.lease_margin_ms + 5_000)
        assert before.isdisjoint(group.all_running())
        group.members[returning.member_id] = returning
        group.round()
        assert returning.running | returning.stopping == before
        group.settle()
        assert before <= set(group.all_running())

    def test_no_fence_ends_after_a_round_that_was_not_planned(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0)
        group = reconciled_group(policy)
        returning, before = _cut_off(group, "lake-1")
        group.advance(policy.lease_ms - 1_000)
        group.members[returning.member_id] = returning
        _all_join(group)
        group.read_to = group.offset + 5
        group.round()
        group.advance(policy.lease_margin_ms + 5_000)
        group.read_to = None
        group.round()
        assert returning.running | returning.stopping == before

    def test_fences_end_after_a_round_without_their_incarnations(self) -> None:
        policy = Policy(scheduled_rebalance_max_delay_ms=0)
        group = reconciled_group(policy)
        _, before = _cut_off(group, "lake-1")
        group.advance(policy.lease_ms - 1_000)
        _all_join(group)
        group.advance(policy.lease_margin_ms + 5_000)
        group.round()
        group.settle()
        assert before <= set(group.all_running())


def _after_a_death() -> tuple[ReconcilingGroup, set[TaskId], dict[str, set[TaskId]]]:
    """lake-1 has died and is expected back; returns also what it ran, and what the others run."""
    group = reconciled_group(POLICY)
    group.facts(Facts(expected=frozenset({"lake-0", "lake-1", "lake-2"})))
    lost = group.runs("lake-1")
    others = {i: group.runs(i) for i in ("lake-0", "lake-2")}
    group.die("lake-1")
    group.round()
    group.settle()
    return group, lost, others


def _cut_off(group: ReconcilingGroup, identity: str) -> tuple[FakeMember, set[TaskId]]:
    """The member is silent, runs on, and is no member of the next round; returns it with what it runs."""
    member = group.of(identity)
    del group.members[member.member_id]
    group.round()
    return member, set(member.running)


def _all_join(group: ReconcilingGroup) -> None:
    """JoinGroups are sent, the leader's among them: no earlier answer is applied."""
    group.tell(ev.Joining())
    for reporter in group.reporters.values():
        reporter.side = replace(reporter.side, sent_ms=None)


class TestTheLog:
    def test_the_log_has_everything_that_an_answer_gives(self) -> None:
        group = reconciled_group()
        group.desire(a=6, b=1)
        given = [task for m in group.members.values() for task in m.running]
        known = fold([group.log])
        assert {task for m in known.members.values() for task in m.current.assigned} == set(given)

    def test_tasks_are_given_only_once_the_log_has_them(self) -> None:
        group = reconciled_group()
        group.save_fails = True
        group.desire(a=6, b=1)
        group.advance(5_000)
        assert TaskId("b", INSTANCE) not in group.all_running()
        group.save_fails = False
        group.advance(5_000)
        assert TaskId("b", INSTANCE) in group.all_running()

    def test_an_answer_that_waits_for_the_log_is_dropped_when_its_member_reports_again(self) -> None:
        group = reconciled_group()
        group.save_fails = True
        group.desire(a=6, b=1)
        group.advance(5_000)
        reports = {m.member_id: group.reporters[m.member_id].request for m in group.members.values()}
        for member in [*group.members.values()]:
            group.report(member)
        group.save_fails = False
        group.advance(5_000)
        assert {group.report_answers[request] for request in reports.values()} == {
            Rejection.DUPLICATE_SEQUENCE_NUMBER
        }
        assert TaskId("b", INSTANCE) in group.all_running()

    def test_an_answer_that_waits_for_the_log_is_dropped_when_its_member_has_ended(self) -> None:
        group = reconciled_group()
        group.save_fails = True
        group.desire(a=6, b=1)
        group.advance(100)
        waiting = {m.identity: group.reporters[m.member_id].request for m in group.members.values()}
        group.die("lake-0")
        group.save_fails = False
        group.advance(5_000)
        assert not isinstance(group.report_answers.get(waiting["lake-0"]), Answer)

    def test_one_more_task_writes_the_records_of_one_member(self) -> None:
        group = reconciled_group(members=5, task_count=20)
        group.writes.clear()
        group.desire(a=20, b=1)
        group.advance(100)
        kinds = [(key.kind, key.identity) for records in group.writes for key in records]
        assert len({identity for kind, identity in kinds if identity}) == 1
        assert {kind for kind, _ in kinds} == {RecordKind.TARGET, RecordKind.MEMBER, RecordKind.GROUP}

    def test_the_memory_is_not_written_for_a_connector_that_moves_nothing(self) -> None:
        """Its record grows with the group."""
        group = reconciled_group()
        before = group.saved
        group.desire(a=6, b=1)
        group.advance(100)
        assert TaskId("b", INSTANCE) in group.all_running()
        assert group.saved is before
        group.join("lake-3")
        group.round()
        assert "lake-3" in group.saved.incarnations

    def test_a_report_that_changes_nothing_is_held_and_writes_nothing(self) -> None:
        group = reconciled_group()
        group.writes.clear()
        group.report(group.of("lake-1"))
        assert group.is_held("lake-1")
        group.advance(POLICY.lease_ms // 3 + 500)
        assert group.writes == []

    def test_a_held_report_is_answered_after_a_third_of_the_lease(self) -> None:
        group = reconciled_group()
        member = group.of("lake-1")
        group.report(member)
        request = group.reporters[member.member_id].request
        group.advance(POLICY.lease_ms // 3 - 500)
        assert request not in group.report_answers
        group.advance(1_000)
        answer = group.report_answers[request]
        assert isinstance(answer, Answer)
        assert answer.assigned.keys() == member.running

    def test_the_memory_beside_a_group_is_out_of_date_for_an_earlier_release(self) -> None:
        group = reconciled_group()
        assert (group.saved.stock, group.saved.given) == (True, {})
        assert group.saved.generation == group.generation - 1
        known = group.machine.state
        assert known.group is not None
        assert restored(stripped(known.memory), known.group).holds == known.memory.holds

    def test_back_in_rounds_the_log_has_the_whole_memory_and_no_group(self) -> None:
        group = reconciled_group()
        running = {m.identity: frozenset(m.running) for m in group.members.values()}
        group.policy(Policy())
        group.settle()
        assert not group.is_reconciled
        assert group.log == {}
        assert group.saved.given == running
        assert not group.saved.stock


class TestTheLead:
    def test_the_next_leader_goes_on_without_a_stop(self) -> None:
        group = reconciled_group()
        before = {m.member_id: list(m.starts) for m in group.members.values()}
        term = group.machine.state.memory.term
        group.lose_lead()
        group.take_lead()
        group.round()
        assert group.is_reconciled
        assert {m: group.members[m].starts for m in before} == before
        assert group.machine.state.memory.term == term + 1
        group.desire(a=6, b=1)
        group.advance(100)
        [owner] = [m for m in group.members.values() if TaskId("b", INSTANCE) in m.running]
        assert owner.epochs[TaskId("b", INSTANCE)].term == term + 1

    def test_it_takes_over_what_was_given_and_not_yet_reported(self) -> None:
        group = reconciled_group()
        group.join("lake-3")
        group.round()
        group.advance(100)
        [giver] = [m for m in group.members.values() if m.stopping]
        group.lose_lead()
        group.take_lead()
        group.round()
        assert group.runs("lake-3") == set()
        group.release(giver.identity)
        assert len(group.runs("lake-3")) == 1

    def test_a_member_that_has_not_returned_keeps_its_tasks_for_its_lease(self) -> None:
        group = reconciled_group(Policy(scheduled_rebalance_max_delay_ms=0))
        lost = group.runs("lake-1")
        gone = group.die("lake-1", proven=False)
        group.lose_lead()
        group.take_lead(unread=[gone.unread()])
        group.round()
        group.advance(44_000)
        assert lost.isdisjoint(group.all_running())

    def test_a_group_of_a_leader_before_the_last_one_counts_for_nothing(self) -> None:
        group = reconciled_group()
        old = dict(group.log)
        group.policy(Policy())
        group.settle()
        group.policy(POLICY)
        group.lose_lead()
        group.log = old
        group.take_lead()
        assert not group.is_reconciled

    def test_reports_to_whom_does_not_lead_are_not_answered(self) -> None:
        group = reconciled_group()
        member = group.of("lake-0")
        group.report(member)
        held = group.reporters[member.member_id].request
        group.lose_lead()
        assert group.report_answers[held] is None
        group.report(member)
        assert group.report_answers[group.reports] is None


class TestReports:
    def test_the_report_before_is_given_up_when_another_one_comes(self) -> None:
        group = reconciled_group()
        member = group.of("lake-1")
        group.report(member)
        first = group.reporters[member.member_id].request
        group.report(member)
        assert group.report_answers[first] is Rejection.DUPLICATE_SEQUENCE_NUMBER
        assert group.is_held("lake-1")

    @pytest.mark.parametrize(
        ("change", "rejection"),
        [
            ({"sequence": 0}, Rejection.DUPLICATE_SEQUENCE_NUMBER),
            ({"term": 0}, Rejection.FENCED_LEADER_EPOCH),
            ({"term": 99}, Rejection.UNKNOWN_LEADER_EPOCH),
            ({"owned": frozenset({TaskId("z", 0)})}, Rejection.FENCED_MEMBER_EPOCH),
            ({"incarnation": "another"}, Rejection.UNKNOWN_MEMBER_ID),
            ({"identity": "lake-7"}, None),
        ],
    )
    def test_a_report_that_cannot_be_is_rejected(
        self, change: dict[str, object], rejection: Rejection | None
    ) -> None:
        group = reconciled_group()
        member = group.of("lake-1")
        group.report(member)
        said = group.reporters[member.member_id].report
        assert said is not None
        report: Report = replace(said, **{"sequence": said.sequence + 1, **change})  # type: ignore[arg-type]
        before = group.machine.state.group
        group._do(ev.ReportsReceived(((9_999, report),)))
        assert group.report_answers[9_999] is rejection
        assert group.machine.state.group == before


def test_the_status_names_epochs_and_states_and_is_settled_when_all_have_their_targets() -> None:
    group = reconciled_group()
    status = project(group.machine.state, group.statuses)
    assert status["reconciliation"]["settled"]
    assert {each["state"] for each in status["reconciliation"]["members"].values()} == {"STABLE"}

    group.join("lake-3")
    group.round()
    group.advance(100)
    [giver] = [m for m in group.members.values() if m.stopping]
    status = project(group.machine.state, group.statuses)
    states = {identity: each["state"] for identity, each in status["reconciliation"]["members"].items()}
    assert (states[giver.identity], states["lake-3"]) == ("UNREVOKED_TASKS", "UNRELEASED_TASKS")
    assert not is_settled(status)


def test_attempts_have_greater_epochs_than_those_of_every_earlier_owner() -> None:
    group = reconciled_group()
    last: dict[TaskId, Epoch] = {}

    def look() -> None:
        for member in group.members.values():
            for task in member.running:
                epoch = member.epochs[task]
                assert last.setdefault(task, epoch) <= epoch
                last[task] = epoch

    look()
    starts = {task: sum(m.starts.count(task) for m in group.members.values()) for task in last}
    for policy in (Policy(), replace(POLICY, reconciles=True), Policy()):
        group.join(f"lake-{len(group.members)}")
        group.round()
        group.settle()
        group.policy(policy)
        group.settle()
        look()
    moved = [t for t in last if sum(m.starts.count(t) for m in group.members.values()) > starts[t]]
    assert moved


def test_a_log_need_not_say_which_connectors_are_managed_if_all_are() -> None:
    one, two = Memory(managed=("a",)), Memory(managed=("a", "b"))
    assert lacks(None, one, owns_config=True)
    assert not lacks(one, two, owns_config=True)
    assert lacks(one, two, owns_config=False)
    assert lacks(one, Memory(managed=("a",), orphans=("x",)), owns_config=True)


def test_a_memory_that_is_stripped_says_so_to_every_release() -> None:
    memory = stripped(Memory(generation=7, given={"a": frozenset({TaskId("c", 0)})}))
    assert (memory.generation, memory.stock, memory.given) == (6, True, {})
