"""Properties of the supervisor in an environment that delays, repeats and loses messages.

The environment has a runtime (which answers in any order, with any delay), a broker (joins, contacts, drops),
and a leader that gives away whatever the member does not report, and everything once the lease must have
ended.
"""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.state import Phase, Settings
from cooperator.model import ConnectorConfig, Epoch, TargetState, TaskId, TaskState
from cooperator.model.status import INVALID_QUERY
from tests.agent.supervisor_machine import (
    AUTO,
    BACKOFF_MAX_MS,
    BY_HAND,
    LEASE_MS,
    MARGIN_MS,
    MAX_RESTARTS,
    TASKS,
    SupervisorMachine,
)
from tests.harness.examples import examples

SOME = st.one_of(st.just(set(TASKS)), st.sets(st.sampled_from(TASKS), max_size=4))


class MemberInAnEnvironment(SupervisorMachine):
    @initialize(assigned=SOME)
    def a_working_member(self, assigned: set[TaskId]) -> None:
        self.a_round_gives(assigned)

    # Time.

    @rule(ms=st.sampled_from([1, 100, 300, 1_000, 5_000, 21_000, 50_000]))
    def time_passes(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self.timer_ms is not None and self.timer_ms <= until_ms and not self.ended:
            self.now_ms, self.timer_ms = self.timer_ms, None
            self.tell(ev.Tick())
        self.now_ms = until_ms

    # The runtime.

    @precondition(lambda self: self.runtime.runs)
    @rule(data=st.data())
    def something_starts_or_fails(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.runtime.runs)))
        attempt = self.runtime.runs[task]
        event: ev.Event = data.draw(
            st.sampled_from(
                [
                    ev.Started(task, attempt),
                    ev.Paused(task, attempt),
                    ev.Failed(task, attempt, "no disk"),
                    ev.Failed(task, attempt, "no column", INVALID_QUERY),
                ]
            )
        )
        if isinstance(event, ev.Failed):
            self.runtime.end(task)
        self.runtime.telling.append(event)

    @precondition(lambda self: self.runtime.runs)
    @rule(data=st.data(), rows=st.integers(0, 2))
    def something_progresses(self, data: st.DataObject, rows: int) -> None:
        task = data.draw(st.sampled_from(sorted(self.runtime.runs)))
        self.runtime.telling.append(ev.Progressed(task, self.runtime.runs[task], f"{rows} rows"))

    @precondition(lambda self: self.runtime.runs)
    @rule(data=st.data(), times=st.integers(2, 5))
    def something_fails_again_and_again(self, data: st.DataObject, times: int) -> None:
        task = data.draw(st.sampled_from(sorted(self.runtime.runs)))
        for _ in range(times):
            if self.ended or task not in self.runtime.runs:
                return
            self.tell(ev.Failed(task, self.runtime.end(task), "no disk"))
            self.prove()
            while self.contacts and not self.ended:
                self.a_contact_is_heard()
            self.time_passes(BACKOFF_MAX_MS)

    @precondition(lambda self: self.runtime.asked_to_stop)
    @rule(data=st.data())
    def something_stops(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.runtime.asked_to_stop)))
        self.runtime.telling.append(ev.Stopped(task, self.runtime.end(task)))

    @precondition(lambda self: self.runtime.telling)
    @rule(data=st.data())
    def the_runtime_is_heard(self, data: st.DataObject) -> None:
        """Some of its events share a step."""
        order = data.draw(st.permutations(range(len(self.runtime.telling))))
        heard = [self.runtime.telling[each] for each in order[: data.draw(st.integers(1, len(order)))]]
        for event in heard:
            self.runtime.telling.remove(event)
        self.runtime.announced += heard
        self.tell(*heard)

    @precondition(lambda self: self.runtime.announced)
    @rule(data=st.data())
    def the_runtime_repeats_itself(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.runtime.announced))
        if not isinstance(event, ev.Started | ev.Paused):
            self.tell(event)

    @rule(event=st.sampled_from([ev.WarmUpBegun(), ev.WarmedUp(), ev.WarmUpFailed()]))
    def the_runtime_comes_up_or_does_not(self, event: ev.Event) -> None:
        if not self.ended:
            self.tell(event)

    # The group.

    @precondition(lambda self: not self.left)
    @rule()
    def a_join_is_sent(self) -> None:
        self.joined, self.joins, self.wants_rejoin = self.report, self.joins + 1, False
        self.member = True
        self.prove()

    @precondition(lambda self: not self.left and not self.ended and not self.ahead)
    @rule()
    def a_join_waits_until_nothing_is_owned(self) -> None:
        self.ahead = True
        self.tell(ev.JoinAhead())

    @precondition(lambda self: self.joined is not None and not self.left)
    @rule(assigned=SOME, revoked=SOME, fate=st.sampled_from(["sent", "sent", "lost", "refused"]))
    def a_round_completes(self, assigned: set[TaskId], revoked: set[TaskId], fate: str) -> None:
        self.complete_round(assigned, revoked, fate)

    @precondition(lambda self: not self.left)
    @rule(assigned=SOME)
    def a_round_gives(self, assigned: set[TaskId]) -> None:
        self.a_join_is_sent()
        self.complete_round(assigned, set())
        self.assignments = self.assignments[-1:]
        self.an_assignment_arrives()

    @precondition(lambda self: not self.left)
    @rule(revoked=SOME)
    def a_round_takes(self, revoked: set[TaskId]) -> None:
        self.a_join_is_sent()
        self.complete_round(set(), revoked)
        self.assignments = self.assignments[-1:]
        self.an_assignment_arrives()

    @precondition(lambda self: not self.left)
    @rule(assigned=SOME)
    def a_join_overtakes_an_assignment(self, assigned: set[TaskId]) -> None:
        """The assignment is queued inside the member while its next join, without that assignment, goes
        out."""
        self.a_join_is_sent()
        self.complete_round(assigned, set())
        self.a_join_is_sent()
        self.what_is_not_reported_runs_elsewhere()

    @precondition(lambda self: self.assignments)
    @rule()
    def an_assignment_arrives(self) -> None:
        self.prove()
        joins, assignment = self.assignments.pop(0)
        assignment = replace(assignment, superseded=joins != self.joins)
        self.answered_joins = joins
        self.past_assignments.append(assignment)
        while self.contacts:
            self.a_contact_is_heard()
        if not assignment.superseded:
            self.needs.update(
                dict.fromkeys(set(assignment.assigned) - set(self.report.owned), assignment.config_offset)
            )
            self.needs.update(
                dict.fromkeys(set(assignment.assigned) & self.report.stopping, assignment.config_offset)
            )
        out = self.tell(assignment)
        named = {*assignment.assigned, *assignment.revoked}
        for instruction in out:
            if isinstance(instruction, do.StartTask | do.StopTask | do.Pause | do.Resume):
                assert instruction.task in named, "an untouched task keeps running"

    @precondition(lambda self: self.past_assignments)
    @rule(data=st.data())
    def an_old_assignment_arrives(self, data: st.DataObject) -> None:
        assignment = data.draw(st.sampled_from(self.past_assignments))
        if assignment.epoch == self.supervisor.state.applied or assignment.superseded:
            out = self.tell(assignment)
        else:
            out = self.tell(replace(assignment, epoch=Epoch(0, assignment.epoch.generation)))
        assert not any(isinstance(one, do.StartTask | do.StopTask) for one in out)

    @precondition(lambda self: self.member and not self.left)
    @rule()
    def a_heartbeat_is_answered(self) -> None:
        self.prove()

    @precondition(lambda self: self.contacts)
    @rule()
    def a_contact_is_heard(self) -> None:
        sent_at_ms = self.contacts.pop(0)
        self.hear(sent_at_ms)
        self.tell(ev.Contact(sent_at_ms))

    @precondition(lambda self: self.supervisor.state.applied is not None and self.member)
    @rule()
    def the_leader_confirms(self) -> None:
        applied = self.supervisor.state.applied
        assert applied is not None
        if applied == Epoch(1, self.generation) and not self.elsewhere & set(self.report.owned):
            self.accepted_ms = self.now_ms
            self.hear(self.now_ms)
            self.tell(ev.LeaderConfirmed(self.now_ms, applied))

    @rule()
    def a_leader_of_the_past_confirms(self) -> None:
        self.tell(ev.LeaderConfirmed(self.now_ms, Epoch(0, 1)))

    @precondition(lambda self: self.wants_rejoin)
    @rule()
    def a_request_for_a_rejoin_comes_to_nothing(self) -> None:
        self.wants_rejoin = False

    @rule()
    def the_broker_drops_the_member(self) -> None:
        self.member = False
        self.joined = None
        self.tell(ev.Dropped("session lost"))

    @precondition(lambda self: not self.member and self.now_ms >= self.accepted_ms + LEASE_MS + MARGIN_MS)
    @rule()
    def an_unproven_departure_moves(self) -> None:
        self.elsewhere |= set(TASKS)

    @precondition(lambda self: self.member and self.joined is not None)
    @rule()
    def what_is_not_reported_runs_elsewhere(self) -> None:
        joined = self.joined
        assert joined is not None
        self.complete_round(set(), set())
        self.elsewhere |= set(TASKS) - set(joined.owned)

    @rule(tasks=SOME)
    def others_let_go(self, tasks: set[TaskId]) -> None:
        self.elsewhere -= tasks

    # The config log.

    @rule(
        connector=st.sampled_from("ab"),
        path=st.sampled_from("xy"),
        wanted=st.sampled_from(TargetState),
        tasks=st.lists(st.sampled_from("uv"), max_size=2),
        restarts=st.sampled_from([AUTO, AUTO, BY_HAND]),
    )
    def a_connector_changes(
        self, connector: str, path: str, wanted: TargetState, tasks: list[str], restarts: dict[str, str]
    ) -> None:
        made = ConnectorConfig({"path": path, **restarts}, wanted, tuple({"unit": unit} for unit in tasks))
        self.put_config({**self.log.connectors, connector: made})

    @precondition(lambda self: self.log is not self.config)
    @rule()
    def the_config_log_is_read(self) -> None:
        before, self.config = self.config, self.log
        for one in self.tell(ev.ConfigChanged(self.config)):
            if isinstance(one, do.StopTask | do.Pause | do.Resume):
                name = one.task.connector
                assert before.connectors.get(name) != self.config.connectors.get(name)

    @rule(connector=st.sampled_from("ab"))
    def a_connector_is_deleted(self, connector: str) -> None:
        self.put_config({k: v for k, v in self.log.connectors.items() if k != connector})

    @rule(include_tasks=st.booleans(), only_failed=st.booleans(), task=st.none() | st.integers(-1, 1))
    def a_restart_is_asked_for(self, include_tasks: bool, only_failed: bool, task: int | None) -> None:
        out = self.tell(ev.RestartRequested("a", include_tasks, only_failed, task))
        touched = {one.task.task for one in out if isinstance(one, do.StartTask | do.StopTask)}
        assert task is None or touched <= {task}

    @precondition(lambda self: self.supervisor.state.posts)
    @rule(error=st.sampled_from(["", "409"]))
    def a_post_is_answered(self, error: str) -> None:
        for connector, post in self.supervisor.state.posts.items():
            if post.in_flight is not None:
                self.tell(ev.PostAnswered(connector, post.in_flight, error))
                break

    @rule(units=st.lists(st.sampled_from("uv"), max_size=2))
    def units_are_computed(self, units: list[str]) -> None:
        self.tell(ev.UnitsChanged("a", tuple({"unit": unit} for unit in units)))

    @precondition(lambda self: len(self.report.owned) > 2)
    @rule(which=st.sampled_from([ev.DrainRequested(), ev.StopRequested()]))
    def the_member_is_asked_to_go(self, which: ev.Event) -> None:
        by_ms = self.now_ms + (120_000 if isinstance(which, ev.DrainRequested) else 0)
        self.depart_by_ms = min(by_ms, self.depart_by_ms or by_ms)
        self.tell(which)

    # Invariants.

    @invariant()
    def nothing_runs_that_runs_elsewhere(self) -> None:
        assert not self.elsewhere & set(self.runtime.runs)

    @invariant()
    def everything_that_runs_is_reported(self) -> None:
        assert self.ended or set(self.runtime.runs) <= set(self.report.owned)

    @invariant()
    def everything_that_runs_has_a_lease_or_is_stopping(self) -> None:
        if not self.ended and self.now_ms >= min(self.lease_end_ms, self.depart_by_ms or self.lease_end_ms):
            assert set(self.runtime.runs) <= self.report.stopping

    @invariant()
    def what_has_failed_says_when_it_starts_again_or_that_it_does_not(self) -> None:
        state = self.supervisor.state
        for key, task in state.tasks.items():
            if self.ended or task.phase is not Phase.FAILED or task.restart:
                continue
            restart_ms = state.restart_ms(task)
            if restart_ms is None:
                assert self.said[key][0] is TaskState.FAILED
            elif restart_ms > self.now_ms:
                assert self.said[key] == (TaskState.RESTARTING, restart_ms)

    @invariant()
    def progress_that_waits_is_written_in_time(self) -> None:
        state, every_ms = self.supervisor.state, Settings("lake-0").progress_every_ms
        for task in state.tasks.values():
            due_ms = state.progress_due_ms(task, every_ms)
            if due_ms is not None and not self.ended:
                assert self.timer_ms is not None
                assert self.now_ms < self.timer_ms <= due_ms <= self.now_ms + every_ms

    @invariant()
    def the_state_is_consistent(self) -> None:
        self.supervisor.validate()

    def teardown(self) -> None:
        """Once the faults stop, every revocation is acknowledged and every assigned task runs."""
        self.elsewhere.clear()
        tasks = ({"unit": "u"}, {"unit": "v"})
        if not self.ended:
            calm = ConnectorConfig({"path": "calm", **AUTO}, TargetState.STARTED, tasks)
            self.put_config({"a": calm, "b": calm})
            self.the_config_log_is_read()
        if self.answered_joins != self.joins or not self.joins:
            # The membership completes a join with an assignment, and joins again when that fails.
            self.wants_rejoin = True
        for _ in range(160):
            if self.ended:
                return
            self.a_calm_second()
        state = self.supervisor.state
        assert not state.acknowledgement_due
        assert self.believed == set(self.report.owned), "the leader knows the member's tasks"
        assert not self.report.stopping
        assert state.answered is None or state.answered.warmth is state.warmth, (
            "the leader knows whether the member is warm"
        )
        assert not state.draining, "a departure completes"
        assert {t.phase for t in state.tasks.values()} <= {Phase.RUNNING, Phase.FAILED}
        for key, task in state.tasks.items():
            assert task.phase is Phase.RUNNING or task.reason or self.restarts[key] == MAX_RESTARTS, (
                "no restart is forgotten"
            )
        assert set(self.runtime.runs) == {k for k, t in state.tasks.items() if t.phase is Phase.RUNNING}
        for task in self.runtime.runs:
            assert self.runtime.configs[task] == self.config.task_config(task)

    def a_calm_second(self) -> None:
        for task in sorted(self.runtime.asked_to_stop):
            self.runtime.telling.append(ev.Stopped(task, self.runtime.end(task)))
        announced = self.runtime.telling
        self.runtime.telling = []
        for event in [*announced, *(ev.Started(*run) for run in self.runtime.runs.items())]:
            if not self.ended:
                self.tell(event)
        if self.ended:
            return
        self.assignments.clear()
        self.member = True
        if self.wants_rejoin or self.joined is not None:
            self.a_join_is_sent()
            self.complete_round(set(TASKS), set(self.report.stopping))
            self.an_assignment_arrives()
        if not self.ended:
            self.hear(self.now_ms)
            self.tell(ev.Contact(self.now_ms))
            self.time_passes(1_000)


MemberInAnEnvironment.TestCase.settings = settings(
    max_examples=examples(50, long=150),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMemberInAnEnvironment = MemberInAnEnvironment.TestCase
