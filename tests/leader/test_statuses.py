"""The status log in the leader's decisions: tasks that never started, and statuses of deleted items."""

from dataclasses import replace

from cooperator.leader import events as ev
from cooperator.model import INSTANCE, Epoch, TaskId
from cooperator.wire import CommitRecord
from tests.harness.fake_group import FakeGroup, running_group, tasks


class TestWhatNeverStarted:
    """It need not wait for a member that has never begun it."""

    def undelivered(
        self, *, proven: bool = True, away: bool = False
    ) -> tuple[FakeGroup, set[TaskId], set[TaskId]]:
        """A group that has lost lake-1, which never saw its last assignment; what it ran, what it never
        got."""
        group = running_group(members=2, task_count=4)
        ran = group.runs("lake-1")
        group.desire(a=4, b=1, c=1)
        assert group.asks_for_round()
        group.round(lost_to=["lake-0", "lake-1"])
        sent = {task for task, (member, _) in group.given.items() if member.startswith("lake-1")} - ran
        assert sent
        group.status_log_away = away
        group.die("lake-1", proven=proven)
        group.round()
        group.settle()
        return group, ran, sent

    def test_it_starts_elsewhere_at_once_and_running_tasks_are_held(self) -> None:
        group, ran, sent = self.undelivered()
        assert sent <= group.runs("lake-0")
        assert group.machine.state.plan is not None
        assert group.machine.state.plan.held.keys() == ran

    def test_without_a_proof_it_waits_for_the_lease_alone(self) -> None:
        group, ran, sent = self.undelivered(proven=False)
        assert not sent & group.runs("lake-0")
        group.advance(44_000)
        assert group.rejoins == [], "its lease may still run"
        group.advance(1_300)
        group.settle()
        assert sent <= group.runs("lake-0")
        assert not ran & group.runs("lake-0")

    def test_while_the_status_log_cannot_be_read_nothing_is_certain(self) -> None:
        group, _, sent = self.undelivered(away=True)
        group.advance(20_000)
        assert not sent & group.runs("lake-0")
        group.status_log_away = False
        group.advance(5_000)
        group.settle()
        assert sent <= group.runs("lake-0")

    def test_one_word_of_the_member_under_that_assignment_is_enough_to_wait_for_it(self) -> None:
        group = running_group(members=2, task_count=4)
        lost = group.die("lake-1").running
        group.round()
        group.settle()
        assert not lost & group.runs("lake-0")
        assert any(read.incarnations for read in group.reads), "it was looked at"

    def test_a_word_under_an_earlier_assignment_is_none(self) -> None:
        group = running_group(members=2, task_count=4)
        number = min(task.task for task in group.runs("lake-1") if not task.is_instance)
        changed = [f"u{n}" if n != number else "other" for n in range(4)]
        assert group.post("a", *changed) == 202
        assert group.asks_for_round()
        group.round()
        group.stop(group.of("lake-1"))
        group.round()
        assert group.asks_for_round(), "it is written, and to be given again"
        group.round(lost_to=["lake-0", "lake-1"])
        again = TaskId("a", number)
        assert group.given[again][0].startswith("lake-1")
        assert group.statuses[again].worker == "lake-1", "what it said when it let go of it"
        group.die("lake-1")
        group.round()
        group.settle()
        assert again in group.runs("lake-0")

    def test_tasks_assigned_by_an_earlier_leader_are_awaited(self) -> None:
        group = running_group(members=2, task_count=4)
        group.statuses.clear()
        group.machine.handle(ev.LeadLost("restart"), group.now_ms)
        group.take_lead()
        group.round()
        lost = group.die("lake-1").running
        group.round()
        group.settle()
        assert not lost & group.runs("lake-0")

    def test_tasks_assigned_to_a_stock_worker_are_awaited(self) -> None:
        group = running_group(members=2, task_count=4, is_agent=False)
        group.statuses.clear()
        lost = group.die("lake-1").running
        group.round()
        group.settle()
        assert not lost & group.runs("lake-0")


class TestStatuses:
    """Statuses of deleted items are removed."""

    def test_statuses_of_deleted_connectors_and_surplus_tasks_are_removed(self) -> None:
        group = running_group()
        group.desire(a=6, b=1)
        group.settle()
        assert TaskId("b", INSTANCE) in group.statuses
        kept = {TaskId("a", INSTANCE), *tasks("a", 0, 1, 2, 3)}
        assert group.post("a", "u0", "u1", "u2", "u3") == 202
        group.desire(a=4)
        group.settle()
        assert group.post("a", "u0", "u1", "u2", "u3") == 204
        group.settle()
        group.advance(3_000)
        assert group.statuses.keys() == kept

    def test_never_while_somebody_still_runs_it(self) -> None:
        group = running_group()
        group.desire()
        assert group.asks_for_round()
        group.round()
        stopping = {member.identity: set(member.stopping) for member in group.members.values()}
        slow = group.of("lake-2")
        for member in group.members.values():
            if member is not slow:
                group.stop(member)
        group.round()
        group.advance(20_000)
        assert stopping["lake-2"] <= group.statuses.keys()
        group.stop(slow)
        group.round()
        assert not group.statuses

    def test_never_before_the_lease_of_who_vanished_with_it_is_over(self) -> None:
        group = running_group()
        vanished = group.die("lake-2", proven=False)
        group.desire()
        group.round()
        group.settle()
        assert group.statuses
        group.advance(44_000)
        assert vanished.running <= group.statuses.keys()
        group.advance(3_000)
        assert not group.statuses

    def test_a_late_word_is_forgotten_too(self) -> None:
        group = running_group()
        group.stops_are_said_late = True
        group.desire()
        group.settle()
        group.advance(10_000)
        assert not group.statuses

    def test_leftovers_of_an_earlier_leader_are_removed(self) -> None:
        group = running_group()
        known = set(group.statuses)
        group.statuses[TaskId("zombie", 3)] = group.statuses[TaskId("a", 0)]
        group.machine.handle(ev.LeadLost("restart"), group.now_ms)
        group.take_lead()
        group.round()
        group.settle()
        assert group.statuses.keys() == known

    def test_statuses_of_a_later_leaders_tasks_stay(self) -> None:
        """This one was paused, and another one has led since, with connectors that are unknown here."""
        group = running_group()
        task, later = TaskId("new", 0), Epoch(group.machine.state.memory.term + 1, 1)
        group.statuses[task] = replace(group.statuses[TaskId("a", 0)], task=task, epoch=later)
        group.desire()
        group.settle()
        group.advance(10_000)
        assert group.statuses.keys() == {task}

    def test_statuses_of_an_incomplete_connector_stay(self) -> None:
        group = running_group()
        known = set(group.statuses)
        group.write([CommitRecord("a", 7)])
        group.settle()
        assert not group.fold.snapshot().connectors["a"].task_count
        assert group.statuses.keys() == known

    def test_at_rest_the_status_log_is_not_read(self) -> None:
        group = running_group()
        group.advance(10_000)
        reads = len(group.reads)
        group.advance(600_000)
        assert len(group.reads) == reads

    def test_a_log_that_cannot_be_read_is_tried_again(self) -> None:
        group = running_group()
        group.status_log_away = True
        group.desire()
        group.settle()
        assert group.statuses
        group.status_log_away = False
        group.advance(5_000)
        assert not group.statuses
