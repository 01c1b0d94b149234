"""Conversations with the supervisor of a member that reports to its leader between rounds."""

from dataclasses import replace

import pytest

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Settings
from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.model import Epoch, SessionKey, TaskId, TaskState, Warmth
from cooperator.reconciliation import Answer, MemberState, Rejection, Report
from tests.agent.conftest import LEASE_MS, Conversation

A0, A1, A2 = (TaskId("a", task) for task in range(3))
HELD_MS = LEASE_MS // 3


class ReportingConversation(Conversation):
    """A member in a group that reconciles; ``sent`` is its last report."""

    sent: Report

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        said = super().tell(event)
        for report in self.all(do.SendReport):
            assert report.report.sequence == getattr(self, "sequence", 0) + 1, "numbers grow by one"
            self.sequence = report.report.sequence
            self.sent = report.report
        return said

    def reconcile(self, **details: object) -> list[do.Instruction]:
        return self.assignment(reconciled=True, **details)

    def answer(self, *tasks: TaskId, group_epoch: int = 5, **details: object) -> list[do.Instruction]:
        """The leader answers the last report with all that the member may run."""
        answer = Answer(
            self.sent.sequence,
            group_epoch,
            MemberState.STABLE,
            dict.fromkeys(tasks, group_epoch),
            group_epoch,
            self.config.offset,
        )
        return self.tell(ev.ReportAnswered(self.sent.sequence, answer, **details))  # type: ignore[arg-type]

    def reject(self, rejection: Rejection) -> list[do.Instruction]:
        return self.tell(ev.ReportAnswered(self.sent.sequence, rejection))

    def runs(self, *tasks: TaskId) -> None:
        for task in tasks:
            self.tell(ev.Started(task, self.attempt(task)))


@pytest.fixture
def member() -> ReportingConversation:
    talk = ReportingConversation(Settings("lake-0", "life-1", drain_timeout_ms=300_000))
    talk.configure()
    return talk


def starts(said: list[do.Instruction]) -> list[tuple[TaskId, Epoch]]:
    return [(one.task, one.epoch) for one in said if isinstance(one, do.StartTask)]


class TestAnswers:
    def test_after_a_round_the_member_reports_to_its_leader(self, member):
        [send] = member.reconcile(epoch=Epoch(3, 1))
        assert send.leader_url == "http://leader/"
        assert send.report == Report("lake-0", "life-1", 3, 1, 0, frozenset())
        assert send.timeout_ms > HELD_MS

    def test_tasks_that_an_answer_gives_start_under_the_groups_epoch(self, member):
        member.reconcile(epoch=Epoch(3, 1))
        said = member.answer(A0, A1, group_epoch=7)
        assert starts(said) == [(A0, Epoch(3, 7)), (A1, Epoch(3, 7))]
        assert member.sent == Report("lake-0", "life-1", 3, 2, 7, frozenset({A0, A1}))

    def test_a_task_waits_until_the_config_log_has_been_read_as_far(self, member):
        member.reconcile()
        answer = Answer(1, 5, MemberState.STABLE, {A0: 5}, 5, member.config.offset + 1)
        assert starts(member.tell(ev.ReportAnswered(1, answer))) == []
        assert [task for task, _ in starts(member.configure(path="/other"))] == [A0]

    def test_tasks_that_it_does_not_give_stop_and_are_owned_until_they_have(self, member):
        member.reconcile()
        member.answer(A0, A1)
        member.runs(A0, A1)
        assert do.StopTask(A0, 1) in member.answer(A1)
        assert (member.sent.owned, member.sent.stopping) == ({A0, A1}, {A0})
        assert [type(one) for one in member.stopped(A0)] == [do.SendReport]
        assert (member.sent.owned, member.sent.stopping) == ({A1}, frozenset())

    def test_a_released_task_is_reported_and_makes_no_round(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        member.answer()
        said = member.stopped(A0) + member.time_passes(60_000)
        assert not [one for one in said if isinstance(one, do.Rejoin)]

    def test_stops_that_follow_each_other_share_a_report(self, member):
        member.reconcile()
        member.answer(A0, A1, A2)
        member.runs(A0, A1, A2)
        member.answer()
        assert member.stopped(A0) == member.stopped(A1) == []
        assert len(member.stopped(A2)) == 1

    def test_one_report_is_on_its_way_while_there_is_nothing_new(self, member):
        member.reconcile()
        assert member.time_passes(HELD_MS) == []
        assert member.answer() == []
        [send] = member.time_passes(1_000)
        assert send.report.sequence == 2

    def test_a_report_without_an_answer_is_repeated_with_the_next_number(self, member):
        member.reconcile()
        sent = [one for one in member.time_passes(20_000) if isinstance(one, do.SendReport)]
        assert [one.report.sequence for one in sent] == [2]

    def test_a_failed_report_is_repeated_after_a_pause(self, member):
        member.reconcile()
        assert member.tell(ev.ReportAnswered(1, None)) == []
        assert member.time_passes(500) == []
        assert len(member.time_passes(1_000)) == 1

    @pytest.mark.parametrize("is_read_first", [True, False])
    def test_a_report_without_a_signature_is_repeated_once_the_session_key_is_read(
        self, member, is_read_first
    ):
        """A member that has just joined may not know the key yet: the leader refuses its first report."""
        config = replace(member.config, session_key=SessionKey(b"key", "HmacSHA256", 1))
        said = member.reconcile()
        if is_read_first:
            said += member.tell(ev.ConfigChanged(config))
        said += member.tell(ev.ReportAnswered(1, None))
        if not is_read_first:
            said += member.tell(ev.ConfigChanged(config))
        assert [one.report.sequence for one in said if isinstance(one, do.SendReport)] == [1, 2]
        assert not member.tell(ev.ReportAnswered(2, None)), "it waits now: the key is the same"

    def test_the_answer_to_a_report_that_was_given_up_changes_nothing(self, member):
        member.reconcile()
        first = member.sent
        member.time_passes(20_000)
        assert member.sent.sequence == 2
        late = Answer(first.sequence, 5, MemberState.STABLE, {A0: 5}, 5)
        assert member.tell(ev.ReportAnswered(first.sequence, late)) == []
        assert member.report.owned == ()

    def test_nothing_starts_after_the_lease(self, member):
        member.reconcile()
        for _ in range(5):
            member.time_passes(LEASE_MS // 4)
        assert starts(member.answer(A0)) == []
        assert member.report.owned == ()

    def test_a_member_that_has_what_it_was_not_given_stops_it_and_begins_anew(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        assert do.StopTask(A0, 1) in member.reject(Rejection.FENCED_MEMBER_EPOCH)
        member.stopped(A0)
        assert (member.sent.member_epoch, member.sent.owned) == (0, frozenset())

    def test_a_word_of_an_earlier_leader_stops_nothing(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        assert member.reject(Rejection.FENCED_LEADER_EPOCH) == []
        assert len(member.time_passes(1_000)) == 1, "it reports again"


class TestRounds:
    def test_a_round_of_the_same_leader_stops_nothing_and_is_followed_by_a_report(self, member):
        member.reconcile(epoch=Epoch(3, 1))
        member.answer(A0)
        member.runs(A0)
        [send] = member.reconcile(epoch=Epoch(3, 2))
        assert (send.report.owned, send.report.member_epoch) == ({A0}, 5)

    def test_epochs_begin_anew_with_another_leader(self, member):
        member.reconcile(epoch=Epoch(3, 1))
        member.answer(A0)
        member.runs(A0)
        [send] = member.reconcile(epoch=Epoch(4, 2))
        assert (send.report.term, send.report.owned, send.report.member_epoch) == (4, {A0}, 0)

    def test_the_answer_to_a_report_before_a_join_changes_nothing(self, member):
        member.reconcile()
        assert member.answer(A0, superseded=True) == []
        assert member.report.owned == ()
        assert member.time_passes(5_000) == [], "until an assignment says who leads"
        assert len(member.reconcile()) == 1

    def test_back_in_rounds_it_reports_no_more(self, member):
        member.reconcile(epoch=Epoch(3, 1))
        member.answer(A0, A1)
        member.runs(A0, A1)
        assert member.assignment(revoked=[A0], epoch=Epoch(4, 2)) == [do.StopTask(A0, 1)]
        assert member.stopped(A0) == [do.Rejoin("released a-0")]
        assert member.answer(A2) == []

    def test_out_of_rounds_what_was_being_stopped_goes_on_stopping(self, member):
        member.run(A0, A1)
        member.assignment(revoked=[A0])
        member.reconcile()
        assert (member.sent.owned, member.sent.stopping) == ({A0, A1}, {A0})
        member.answer(A1)
        member.stopped(A0)
        assert member.sent.owned == {A1}

    def test_a_member_that_was_dropped_neither_reports_nor_obeys(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        member.tell(ev.Dropped("session over"))
        assert member.answer(A0, A1) == []
        assert not [one for one in member.time_passes(20_000) if isinstance(one, do.SendReport)]
        assert member.report.owned == (A0,), "it runs on under its lease"


class TestTheMemberItself:
    def test_its_warmth_is_reported_without_a_round(self, member):
        member.tell(ev.WarmUpBegun())
        member.reconcile()
        assert member.sent.warmth is Warmth.WARMING
        [send] = member.tell(ev.WarmedUp())
        assert send.report.warmth is Warmth.WARM

    def test_a_draining_member_leaves_when_its_leader_has_taken_everything(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        [send] = member.tell(ev.DrainRequested())
        assert send.report.draining
        assert do.StopTask(A0, 1) in member.answer()
        assert [type(one) for one in member.stopped(A0)] == [do.SendReport]
        assert member.answer() == [do.Leave(), do.Exit(0)]

    def test_a_draining_member_without_tasks_waits_for_its_leader_to_know(self, member):
        member.reconcile()
        assert [type(one) for one in member.tell(ev.DrainRequested())] == [do.SendReport]
        assert member.answer() == [do.Leave(), do.Exit(0)]

    def test_at_the_end_of_the_drain_timeout_it_leaves_whatever_the_leader_says(self, member):
        member.reconcile()
        member.answer(A0)
        member.runs(A0)
        member.tell(ev.StopRequested())
        member.answer(A0)
        assert member.report.stopping == {A0}
        assert member.stopped(A0)[-2:] == [do.Leave(), do.Exit(0)]

    def test_statuses_are_those_of_rounds(self, member):
        member.reconcile()
        member.answer(A0)
        assert member.statuses() == [("a-0", TaskState.STARTING)]
        member.runs(A0)
        member.answer()
        assert member.statuses() == [("a-0", TaskState.STOPPING)]


class TestJoins:
    """The order of joins and answers, which the lock decides."""

    def answered(self, shared: SynchronizedSupervisor) -> bool:
        found: list[bool] = []

        def look(supervisor: SynchronizedSupervisor) -> ev.Event:
            found.append(supervisor.is_report_superseded)
            return ev.Tick()

        shared.take(look, lambda: 2_000)
        return found[0]

    def reconciled(self) -> tuple[SynchronizedSupervisor, int]:
        shared = SynchronizedSupervisor(Supervisor(Settings("lake-0", "life-1")))
        report = shared.join()
        self.assign(shared, report, 1)
        return shared, 1

    def assign(self, shared: SynchronizedSupervisor, report: object, join: int) -> None:
        def event(supervisor: SynchronizedSupervisor) -> ev.Event:
            supervisor.note_assignment(join)
            return ev.AssignmentReceived(Epoch(1, join), report, reconciled=True)  # type: ignore[arg-type]

        shared.take(event, lambda: 2_000)

    def test_an_answer_counts_between_rounds(self) -> None:
        shared, _ = self.reconciled()
        assert not self.answered(shared)

    def test_it_does_not_count_from_the_next_join_until_a_later_report(self) -> None:
        shared, _ = self.reconciled()
        report = shared.join()
        assert self.answered(shared)
        self.assign(shared, report, 2)
        assert not self.answered(shared), "the assignment made another report"

    def test_an_assignment_that_a_later_join_supersedes_does_not_end_the_join(self) -> None:
        shared, _ = self.reconciled()
        report = shared.join()
        shared.join()
        self.assign(shared, report, 2)
        assert self.answered(shared)
