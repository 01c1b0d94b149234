"""Conversations with the supervisor: the lease, departures, posts, and the story that explains them."""

import pytest

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import IllegalStep, Settings
from cooperator.model import INSTANCE, AutoRestart, ClusterConfig, Epoch, TaskId, TaskState
from tests.agent.conftest import Conversation

A, A0, A1 = (TaskId("a", task) for task in (INSTANCE, 0, 1))
URL = "http://leader/"


class TestLease:
    def test_it_is_counted_from_the_send_time(self, member):
        member.run(A0)
        member.time_passes(10_000)
        member.tell(ev.Contact(member.now_ms - 9_000))
        member.time_passes(30_999)
        assert member.report.stopping == frozenset()
        member.time_passes(1)
        assert member.report.stopping == {A0}

    def test_when_it_ends_everything_stops_without_a_request(self, member):
        member.configure(auto_restart=AutoRestart(enabled=False))
        member.run(A0, A1)
        member.tell(ev.Failed(A1, 2, "no disk"))
        member.assignment([TaskId("a", 9)])
        assert do.StopTask(A0, 1) in member.time_passes(40_000)
        assert member.statuses() == []
        assert member.report.owned == (A0,), "only what is still stopping"
        member.stopped(A0)
        assert member.statuses() == []
        assert member.report.owned == ()

    def test_released_tasks_come_back_with_the_next_assignment(self, member):
        member.run(A0)
        member.time_passes(40_000)
        said = member.stopped(A0)
        assert said == [do.Rejoin("released a-0")]
        [start] = member.assignment([A0])
        assert start.attempt == 2

    def test_an_assignment_without_contact_starts_nothing(self, member):
        member.tell(ev.AssignmentReceived(Epoch(1, 1), member.report, assigned=(A0,)))
        assert member.report.owned == ()

    def test_the_leader_is_asked_from_half_of_it_on(self, member):
        member.run(A0)
        asked = do.AskLeader(URL, "member-1", Epoch(1, 1))
        assert member.time_passes(19_999) == []
        assert member.time_passes(1) == [asked]
        assert member.time_passes(4_000) == [asked, asked]

    def test_the_leaders_confirmation_keeps_the_tasks_running(self, member):
        member.run(A0)
        for _ in range(10):
            member.time_passes(20_000)
            member.tell(ev.LeaderConfirmed(member.now_ms, Epoch(1, 1)))
        assert member.report.stopping == frozenset()

    def test_a_confirmation_of_another_assignment_does_not(self, member):
        member.run(A0)
        member.time_passes(30_000)
        member.tell(ev.LeaderConfirmed(member.now_ms, Epoch(1, 0)))
        member.time_passes(10_000)
        assert member.report.stopping == {A0}

    def test_a_member_that_leads_does_not_confirm_its_own_lease(self, member):
        member.assignment([A0], leads=True)
        member.time_passes(30_000)
        member.tell(ev.LeaderConfirmed(member.now_ms, Epoch(1, 1)))
        member.time_passes(10_000)
        assert member.report.stopping == {A0}

    def test_a_member_without_tasks_asks_too_for_the_others_sake(self, member):
        member.assignment()
        assert do.AskLeader(URL, "member-1", Epoch(1, 1)) in member.time_passes(20_000)

    def test_being_dropped_stops_nothing(self, member):
        member.run(A0)
        assert member.tell(ev.Dropped("session lost")) == []
        assert member.assignment(answers=member.report) == []

    def test_a_task_that_hangs_is_killed_with_its_process_group(self, member):
        member.run(A0)
        watch_ms = member.supervisor.state.watch_ms
        assert watch_ms == member.now_ms + 44_000, "the watchdog has the deadline in advance"
        member.time_passes(40_000)
        said = member.time_passes(4_000)
        assert said[-1] == do.KillGroup("not stopped in time: a-0")
        assert member.now_ms == watch_ms
        assert member.tell(ev.Tick()) == []

    def test_the_watchdog_sleeps_when_nothing_runs(self, member):
        member.run(A0)
        member.assignment(revoked=[A0])
        member.stopped(A0)
        assert do.Watch(None) in member.said


class TestDeparture:
    def test_a_drain_lets_everything_be_moved_first(self, member):
        member.run(A0, A1)
        assert member.tell(ev.DrainRequested()) == [do.Rejoin("departs")]
        assert member.report.draining
        assert member.report.stopping == frozenset(), "a task runs until it is revoked"
        assert member.assignment(revoked=[A0, A1]) == [do.StopTask(A0, 1), do.StopTask(A1, 2)]
        member.stopped(A0)
        assert member.stopped(A1) == [do.Rejoin("released a-0 and 1 more")]
        assert member.assignment() == [do.Leave(), do.Exit(0)]

    def test_a_departure_without_tasks_is_announced_too(self, member):
        member.assignment()
        in_flight = member.report
        assert member.tell(ev.DrainRequested()) == [do.Rejoin("departs")]
        [start, rejoin] = member.assignment([A0], answers=in_flight)
        assert (start.task, rejoin) == (A0, do.Rejoin("departs"))
        member.assignment(revoked=[A0])
        member.stopped(A0)
        assert member.assignment() == [do.Leave(), do.Exit(0)]

    def test_a_member_that_has_never_joined_leaves_at_once(self, member):
        assert member.tell(ev.DrainRequested()) == [do.Leave(), do.Exit(0)]

    def test_a_drain_does_not_wait_forever_for_a_leader_that_never_revokes(self, member):
        member.run(A0)
        member.tell(ev.DrainRequested())
        for _ in range(29):
            member.time_passes(10_000)
            assert member.assignment() == []
        assert do.StopTask(A0, 1) in member.time_passes(10_000)
        assert member.stopped(A0) == [do.Leave(), do.Exit(0)]

    def test_a_stop_waits_for_no_leader(self, member):
        member.run(A0)
        assert member.tell(ev.StopRequested()) == [do.StopTask(A0, 1)]
        assert member.stopped(A0) == [do.Leave(), do.Exit(0)]

    def test_a_stop_overrules_a_drain(self, member):
        member.run(A0)
        member.tell(ev.DrainRequested())
        assert member.tell(ev.StopRequested(code=3)) == [do.StopTask(A0, 1)]
        assert member.stopped(A0) == [do.Leave(), do.Exit(3)]

    def test_a_process_that_does_not_stop_is_killed(self, member):
        member.run(A0)
        member.tell(ev.StopRequested())
        assert member.time_passes(4_000) == [do.KillGroup("not stopped in time: a-0")]


class TestTaskConfigurations:
    CONFIGS = ({"unit": "0"}, {"unit": "1"}, {"unit": "2"})
    NEW = ({"unit": "all"},)

    def test_stored_configurations_are_not_posted(self, member):
        member.run(A)
        assert member.tell(ev.UnitsChanged("a", self.CONFIGS)) == []

    def test_new_configurations_are_posted_until_the_leader_accepts_them(self, member):
        member.run(A)
        assert member.tell(ev.UnitsChanged("a", self.NEW)) == [do.PostTaskConfigs("a", 1, self.NEW, URL)]
        pauses = []
        for number in range(1, 11):
            member.tell(ev.PostAnswered("a", number, "503"))
            before_ms = member.now_ms
            while not member.all(do.PostTaskConfigs):
                member.tell(ev.Contact(member.now_ms))
                member.now_ms = member.supervisor.state.timer_ms
                member.tell(ev.Tick())
            pauses.append(member.now_ms - before_ms)
        assert pauses == [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]

    def test_it_is_posted_again_when_it_does_not_come_out_of_the_log(self, member):
        member.run(A)
        member.tell(ev.UnitsChanged("a", self.NEW))
        member.tell(ev.PostAnswered("a", 1))
        for _ in range(6):
            assert not member.all(do.PostTaskConfigs)
            member.time_passes(9_999)
            member.tell(ev.Contact(member.now_ms))
        assert do.PostTaskConfigs("a", 2, self.NEW, URL) in member.time_passes(10)

    def test_it_is_posted_again_when_somebody_else_writes_others(self, member):
        member.run(A)
        member.tell(ev.UnitsChanged("a", self.NEW))
        member.tell(ev.PostAnswered("a", 1))
        assert member.configure(tasks=self.NEW) == []
        member.time_passes(10_000)
        assert member.configure(tasks=self.CONFIGS) == [do.PostTaskConfigs("a", 2, self.NEW, URL)]

    def test_one_post_at_a_time_and_the_newest_last(self, member):
        member.run(A)
        member.tell(ev.UnitsChanged("a", self.NEW))
        newer = ({"unit": "half"}, {"unit": "other half"})
        assert member.tell(ev.UnitsChanged("a", newer)) == []
        assert member.tell(ev.PostAnswered("a", 1)) == [do.PostTaskConfigs("a", 2, newer, URL)]

    def test_nobody_posts_for_an_instance_that_is_elsewhere(self, member):
        member.run(A0)
        assert member.tell(ev.UnitsChanged("a", self.NEW)) == []
        member.run(A)
        member.tell(ev.UnitsChanged("a", self.NEW))
        member.assignment(revoked=[A])
        assert member.tell(ev.PostAnswered("a", 1, "409")) == []
        assert member.supervisor.state.posts == {}

    def test_a_new_leader_is_tried_at_once(self, member):
        member.run(A)
        member.tell(ev.UnitsChanged("a", self.NEW))
        member.tell(ev.PostAnswered("a", 1, "409"))
        member.assignment(leads=True)
        assert member.all(do.PostTaskConfigs) == [do.PostTaskConfigs("a", 2, self.NEW, URL)]


class TestRevocation:
    def renewed(self, member: Conversation, ms: int) -> list[do.Instruction]:
        """Advance the time while heartbeats renew the lease."""
        heard = []
        for _ in range(ms // 1_000):
            heard += member.time_passes(1_000)
            heard += member.tell(ev.Contact(member.now_ms))
        return heard

    def kills(self, heard: list[do.Instruction]) -> list[str]:
        return [one.reason for one in heard if isinstance(one, do.KillGroup)]

    def test_a_stop_that_hangs_ends_the_member_although_its_heartbeats_go_on(self, member):
        member.configure(tasks=({"task.units": "eu,us"}, {"task.units": "jp"}))
        member.run(A0, A1)
        member.assignment(revoked=[A0])
        assert member.supervisor.state.watch_ms == member.now_ms + 44_000, "the lease ends first"
        assert self.kills(self.renewed(member, 59_000)) == []
        assert member.supervisor.state.watch_ms == member.now_ms + 1_000, "the watchdog knows the deadline"
        assert self.kills(member.time_passes(1_000)) == ["not stopped in time: a-0"]

    def test_it_is_said_before_and_names_member_task_and_units(self, member):
        member.configure(tasks=({"task.units": "eu,us"},))
        member.run(A0)
        member.assignment(revoked=[A0])
        self.renewed(member, 29_000)
        member.time_passes(999)
        assert member.statuses() == []
        member.time_passes(1)
        [put] = member.all(do.PutStatus)
        assert (put.status.state, put.status.reason) == (TaskState.STOPPING, "Hung")
        for word in ("a-0", "units eu, us", "lake-0", "30000 ms", "60000 ms"):
            assert word in put.status.trace

    def test_a_stop_that_ends_late_but_in_time_costs_nothing(self, member):
        member.run(A0, A1)
        member.assignment(revoked=[A0])
        self.renewed(member, 59_000)
        member.stopped(A0)
        assert self.kills(self.renewed(member, 120_000)) == []
        assert member.report.owned == (A1,)

    def test_a_restart_blocks_no_move_and_ends_nobody(self, member):
        member.run(A0)
        member.configure(path="/elsewhere")
        assert self.kills(self.renewed(member, 120_000)) == []

    def test_it_counts_for_what_was_let_go_without_a_lease_and_still_hangs_with_a_new_one(self, member):
        member.run(A0)
        member.time_passes(40_000)
        assert self.kills(self.renewed(member, 59_000)) == []
        assert self.kills(member.time_passes(1_000)) == ["not stopped in time: a-0"]


def test_a_story_tells_why(member):
    member.run(A0, A1)
    member.assignment(revoked=[A0])
    member.stopped(A0)
    lines = [(line.cause, line.what) for line in member.supervisor.story(A0)]
    assert lines[-5:] == [
        ("AssignmentReceived#7", "assignment 1.2 taken"),
        ("AssignmentReceived#7", "revoked by 1.2"),
        ("AssignmentReceived#7", "stop attempt 1"),
        ("Stopped#8", "attempt 1 has stopped"),
        ("Stopped#8", "rejoin: released a-0"),
    ]
    assert not [line for line in member.supervisor.story(A0) if line.task == A1]


def test_an_illegal_step_raises_and_changes_nothing() -> None:
    supervisor = Supervisor(Settings("lake-0"))
    supervisor.handle(ev.ConfigChanged(ClusterConfig(5)), 10)
    before = supervisor.state
    for event, now_ms in [
        (ev.Stopped(TaskId("a", 0), 1), 20),
        (ev.Started(TaskId("a", 0), 0), 20),
        (ev.Contact(21), 20),
        (ev.Tick(), 9),
    ]:
        with pytest.raises(IllegalStep):
            supervisor.handle(event, now_ms)
        assert supervisor.state is before
