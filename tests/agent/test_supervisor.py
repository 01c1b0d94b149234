"""Conversations with the supervisor: assignments, configuration, failures."""

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.state import Phase
from cooperator.model import INSTANCE, ClusterConfig, Epoch, TargetState, TaskId, TaskState

A, A0, A1, A2 = (TaskId("a", task) for task in (INSTANCE, 0, 1, 2))
URL = "http://leader/"


class TestStopsBeforeJoins:
    """The policy Eager."""

    def test_a_join_waits_until_everything_has_stopped(self, member):
        member.run(A0, A1)
        assert member.tell(ev.JoinAhead()) == [do.StopTask(A0, 1), do.StopTask(A1, 2)]
        assert member.stopped(A0) == []
        said = member.stopped(A1)
        assert said == [do.Rejoin("released a-0 and 1 more"), do.ReadyToJoin()]
        assert member.report.owned == ()

    def test_a_member_without_tasks_joins_at_once(self, member):
        member.assignment()
        assert member.tell(ev.JoinAhead()) == [do.ReadyToJoin()]

    def test_tasks_that_the_round_assigns_start(self, member):
        member.run(A0)
        member.tell(ev.JoinAhead())
        member.stopped(A0)
        assert [type(one) for one in member.assignment([A0, A1])] == [do.StartTask, do.StartTask]

    def test_a_draining_member_leaves_instead(self, member):
        member.run(A0)
        member.tell(ev.DrainRequested())
        assert member.tell(ev.JoinAhead()) == [do.StopTask(A0, 1)]
        assert member.stopped(A0) == [do.Leave(), do.Exit(0)]


class TestAssignments:
    def test_an_assigned_task_starts_with_its_configuration(self, member):
        said = member.assignment([A0])
        assert said == [do.StartTask(A0, 1, {"unit": "0"}, paused=False, epoch=Epoch(1, 1))]
        assert member.report.owned == (A0,)
        member.tell(ev.Started(A0, 1))
        assert member.statuses() == [("a-0", TaskState.RUNNING)]

    def test_a_start_is_reported_before_it_happens(self, member):
        member.assignment([A0])
        [word, start] = [one for one in member.said if isinstance(one, do.PutStatus | do.StartTask)]
        assert isinstance(start, do.StartTask)
        assert (word.status.state, word.status.epoch) == (TaskState.STARTING, Epoch(1, 1))

    def test_the_rest_of_an_assignment_is_left_alone(self, member):
        member.run(A0, A1)
        assert member.assignment([A2]) == [
            do.StartTask(A2, 3, {"unit": "2"}, paused=False, epoch=Epoch(1, 2))
        ]
        assert member.report.owned == (A0, A1, A2)

    def test_a_revoked_task_is_owned_until_it_has_stopped_and_then_acknowledged(self, member):
        member.run(A0, A1)
        assert member.assignment(revoked=[A0]) == [do.StopTask(A0, 1)]
        assert (member.report.owned, member.report.stopping) == ((A0, A1), {A0})
        before = member.report.nonce
        assert member.stopped(A0) == [do.Rejoin("released a-0")]
        assert member.statuses() == [("a-0", TaskState.UNASSIGNED)]
        assert (member.report.owned, member.report.stopping) == ((A1,), frozenset())
        assert member.report.nonce != before, "without other bytes the broker makes no round"
        assert member.assignment() == []

    def test_a_late_report_of_an_earlier_assignment_does_not_count_for_this_one(self, member):
        member.run(A0)
        member.assignment(revoked=[A0])
        member.stopped(A0)
        member.assignment()
        member.assignment([A0], config_offset=999)
        assert member.tell(ev.Stopped(A0, 1)) == []
        assert member.report.owned == (A0,)

    def test_stops_are_acknowledged_together(self, member):
        member.run(A0, A1, A2)
        member.assignment(revoked=[A0, A1, A2])
        assert member.stopped(A0) == []
        assert member.stopped(A1) == []
        assert member.stopped(A2) == [do.Rejoin("released a-0 and 2 more")]

    def test_a_slow_stop_does_not_delay_the_acknowledgement_of_others(self, member):
        member.run(A0, A1)
        member.assignment(revoked=[A0, A1])
        assert member.stopped(A0) == []
        assert member.time_passes(250) == [do.Rejoin("released a-0")]
        assert member.report.owned == (A1,)
        member.assignment()
        assert member.time_passes(5_000) == []
        assert member.stopped(A1) == [do.Rejoin("released a-1")]

    def test_an_assignment_that_answers_an_older_report_makes_another_acknowledgement(self, member):
        member.run(A0, A1)
        member.assignment(revoked=[A0, A1])
        member.stopped(A0)
        member.time_passes(250)
        answered = member.report
        assert member.stopped(A1) == [], "a join is under way"
        assert member.assignment(answers=answered) == [do.Rejoin("released a-1")]

    def test_a_rejoin_that_nobody_answers_is_asked_for_again(self, member):
        member.run(A0)
        member.assignment(revoked=[A0])
        member.stopped(A0)
        member.tell(ev.Contact(member.now_ms))
        assert do.Rejoin("released a-0") in member.time_passes(30_000)

    def test_a_revocation_of_a_task_that_is_not_there_is_acknowledged(self, member):
        assert member.assignment(revoked=[A0]) == [do.Rejoin("released a-0")]

    def test_a_task_assigned_again_while_it_stops_starts_after_that(self, member):
        member.run(A0)
        member.assignment(revoked=[A0])
        assert member.assignment([A0]) == []
        assert member.report.stopping == frozenset()
        [start] = member.stopped(A0)
        assert start == do.StartTask(A0, 2, {"unit": "0"}, paused=False, epoch=Epoch(1, 3))

    def test_a_stale_assignment_is_refused_and_another_round_requested(self, member):
        member.run(A0)
        assert member.assignment(revoked=[A0], epoch=Epoch(0, 99)) == []
        again = do.Rejoin("the last assignment could not be applied")
        assert member.time_passes(2_000) == [again]
        assert member.report.owned == (A0,)
        assert again in member.time_passes(30_000), "until another assignment comes"

    def test_a_round_without_a_plan_changes_nothing(self, member):
        member.run(A0)
        assert member.assignment(revoked=[A0], error=1) == []
        assert member.time_passes(2_000) == [do.Rejoin("the last assignment could not be applied")]
        assert member.assignment(revoked=[A0]) == [do.StopTask(A0, 1)]

    def test_a_repeated_assignment_is_not_applied_twice(self, member):
        member.run(A0)
        member.time_passes(40_000)
        member.stopped(A0)
        assert member.assignment([A0], epoch=Epoch(1, 1)) == [do.Rejoin("released a-0")]
        assert member.report.owned == ()

    def test_an_assignment_that_a_join_has_overtaken_is_not_applied(self, member):
        assert member.assignment([A0], superseded=True) == []
        assert member.report.owned == ()

    def test_an_assignment_may_come_from_a_new_leader(self, member):
        member.run(A0)
        assert member.assignment([A1], epoch=Epoch(2, 0)) != []
        assert member.report.applied == Epoch(2, 0)

    def test_a_new_leader_is_told_every_status_again(self, member):
        """It reads a log in which a late record of an earlier owner may have replaced the last one."""
        member.run(A0, A1)
        member.tell(ev.Failed(A1, 2, "no disk"))
        member.time_passes(4_000)

        member.assignment(epoch=Epoch(1, 9))
        assert member.statuses() == [], "the same leader knows them"

        member.assignment(epoch=Epoch(2, 0))
        assert member.statuses() == [("a-0", TaskState.RUNNING), ("a-1", TaskState.RESTARTING)]
        [_, failed] = member.all(do.PutStatus)
        assert (failed.status.trace, failed.next_attempt_in_ms) == ("no disk", 6_000)

        member.assignment(revoked=[A0], epoch=Epoch(3, 0))
        assert member.statuses() == [("a-1", TaskState.RESTARTING), ("a-0", TaskState.STOPPING)]


class TestConfiguration:
    def test_a_task_waits_until_the_config_log_is_read(self, member):
        assert member.assignment([A0], config_offset=1) == []
        assert member.report.owned == (A0,), "the task is owned nevertheless"
        [start] = member.configure(tasks=[{"unit": "new"}])
        assert start.config == {"unit": "new"}

    def test_a_task_without_configuration_waits_and_says_so(self, member):
        assert member.assignment([TaskId("a", 7)]) == []
        assert member.statuses() == [("a-7", TaskState.UNASSIGNED)]
        assert "config log up to 0" in member.all(do.PutStatus)[0].status.progress
        member.tell(ev.Tick())
        assert member.statuses() == [], "said once"

    def test_a_changed_instance_restarts_alone(self, member):
        member.run(A, A0)
        assert member.configure(path="/elsewhere") == [do.StopTask(A, 1)]
        assert member.statuses() == [("a", TaskState.RESTARTING)]
        assert member.report.stopping == frozenset(), "the member keeps the instance"
        assert member.stopped(A) == [
            do.StartTask(A, 3, {"path": "/elsewhere"}, paused=False, epoch=Epoch(1, 1))
        ]

    def test_a_changed_task_restarts_alone(self, member):
        member.run(A, A0, A1)
        tasks = [{"unit": "0"}, {"unit": "one"}, {"unit": "2"}]
        assert member.configure(tasks=tasks) == [do.StopTask(A1, 3)]

    def test_a_change_while_it_stops_counts_for_the_next_start(self, member):
        member.run(A0)
        member.configure(tasks=[{"unit": "x"}])
        member.configure(tasks=[{"unit": "y"}])
        [start] = member.stopped(A0)
        assert start.config == {"unit": "y"}

    def test_deleted_tasks_are_for_the_leader_to_revoke(self, member):
        member.run(A0, A1)
        assert member.configure(tasks=[{"unit": "0"}]) == []
        assert member.tell(ev.ConfigChanged(ClusterConfig(2))) == []

    def test_pause_and_resume_make_no_round(self, member):
        member.run(A, A0)
        assert member.configure(target=TargetState.PAUSED) == [do.Pause(A), do.Pause(A0)]
        member.tell(ev.Paused(A0, 2))
        assert member.statuses() == [("a-0", TaskState.PAUSED)]
        assert member.configure() == [do.Resume(A), do.Resume(A0)]
        member.tell(ev.Started(A0, 2))
        assert member.statuses() == [("a-0", TaskState.RUNNING)]

    def test_a_paused_task_starts_paused(self, member):
        member.configure(target=TargetState.PAUSED)
        [start] = member.assignment([A0])
        assert start.paused

    def test_a_stopped_connector_keeps_its_instance_and_does_not_run_it(self, member):
        member.run(A)
        assert member.configure(target=TargetState.STOPPED) == [do.StopTask(A, 1)]
        assert member.stopped(A) == []
        assert member.statuses() == [("a", TaskState.STOPPED)]
        assert member.report.owned == (A,)
        [start] = member.configure()
        assert start.task == A

    def test_offsets_of_a_config_log_that_is_gone_are_not_waited_for(self, member):
        member.configure()
        assert member.assignment([A0], config_offset=1_000) == []
        member.config = ClusterConfig()
        [start] = member.configure()
        assert start.task == A0


class TestFailures:
    def test_a_failed_task_stays_owned_while_it_waits_for_its_next_attempt(self, member):
        member.run(A0)
        assert member.tell(ev.Failed(A0, 1, "no disk")) == []
        [put] = member.all(do.PutStatus)
        assert (put.status.state, put.status.trace, put.status.worker) == (
            TaskState.RESTARTING,
            "no disk",
            "lake-0",
        )
        assert put.next_attempt_in_ms == 10_000
        assert member.report.owned == (A0,)
        assert member.assignment(revoked=[A0]) == [do.Rejoin("released a-0")]

    def test_a_task_that_ends_by_itself_has_failed(self, member):
        member.run(A0)
        member.stopped(A0)
        [put] = member.all(do.PutStatus)
        assert (put.status.state, put.status.trace) == (
            TaskState.RESTARTING,
            "The task ended by itself; a streaming task has no end.",
        )

    def test_a_failure_while_a_task_stops_ends_it(self, member):
        member.run(A0)
        member.assignment(revoked=[A0])
        assert member.tell(ev.Failed(A0, 1, "too late")) == [do.Rejoin("released a-0")]

    def test_a_restart_of_failed_tasks(self, member):
        member.run(A, A0, A1)
        member.tell(ev.Failed(A0, 2, "no disk"))
        [start] = member.tell(ev.RestartRequested("a", include_tasks=True, only_failed=True))
        assert (start.task, start.attempt) == (A0, 4)

    def test_a_restart_of_everything(self, member):
        member.run(A, A0)
        assert member.tell(ev.RestartRequested("a", include_tasks=False, only_failed=False)) == [
            do.StopTask(A, 1)
        ]
        member.stopped(A)
        assert member.tell(ev.RestartRequested("b", include_tasks=True, only_failed=False)) == []
        assert len(member.tell(ev.RestartRequested("a", include_tasks=True, only_failed=False))) == 2

    def test_a_new_configuration_is_another_try(self, member):
        member.run(A0)
        member.tell(ev.Failed(A0, 1, "no such file"))
        [start] = member.configure(tasks=[{"unit": "there"}])
        assert start.config == {"unit": "there"}

    def test_late_events_of_an_attempt_that_is_over_change_nothing(self, member):
        member.run(A0)
        member.tell(ev.RestartRequested("a", include_tasks=True, only_failed=False))
        member.stopped(A0)
        for late in (ev.Started(A0, 1), ev.Failed(A0, 1, "late"), ev.Stopped(A0, 1)):
            assert member.tell(late) == []
        assert member.supervisor.state.tasks[A0].phase is Phase.STARTING
