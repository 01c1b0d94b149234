"""A supervisor's environment as far as it matters here: a runtime, a broker, a leader, a clock.

``SupervisorMachine`` has the mechanics; the rules in the test say what can happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis.stateful import RuleBasedStateMachine

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Phase, Report, Settings
from cooperator.model import INSTANCE, AutoRestart, ClusterConfig, ConnectorConfig, Epoch, TaskId, TaskState

LEASE_MS = 40_000
MARGIN_MS = 5_000
MAX_RESTARTS, BACKOFF_MS, BACKOFF_MAX_MS, RESET_AFTER_MS = 3, 4_000, 10_000, 15_000
AUTO = AutoRestart(
    max_restarts=MAX_RESTARTS,
    backoff_ms=BACKOFF_MS,
    backoff_max_ms=BACKOFF_MAX_MS,
    reset_after_ms=RESET_AFTER_MS,
).settings()
BY_HAND = AutoRestart(enabled=False).settings()
TASKS = [TaskId(connector, task) for connector in ("a", "b") for task in (INSTANCE, 0, 1)]


@dataclass
class Runtime:
    """Runs attempts and reports on them later. ``runs`` maps each task to its running attempt."""

    runs: dict[TaskId, int] = field(default_factory=dict)
    configs: dict[TaskId, Mapping[str, str]] = field(default_factory=dict)
    asked_to_stop: set[TaskId] = field(default_factory=set)
    ended: dict[TaskId, int] = field(default_factory=dict)
    telling: list[ev.Event] = field(default_factory=list)
    announced: list[ev.Event] = field(default_factory=list)

    def start(self, task: TaskId, attempt: int, config: Mapping[str, str]) -> None:
        assert task not in self.runs, f"{task} would run twice"
        assert attempt > self.ended.get(task, 0), f"attempt {attempt} of {task} is over"
        self.runs[task] = attempt
        self.configs[task] = config

    def stop(self, task: TaskId, attempt: int) -> None:
        if self.runs.get(task) == attempt:
            self.asked_to_stop.add(task)
        else:
            self.telling.append(ev.Stopped(task, attempt))

    def end(self, task: TaskId) -> int:
        self.asked_to_stop.discard(task)
        self.ended[task] = self.runs.pop(task)
        return self.ended[task]


class SupervisorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.supervisor = Supervisor(Settings("lake-0", drain_timeout_ms=120_000))
        self.report = self.supervisor.report
        self.runtime = Runtime()
        self.timer_ms: int | None = None
        self.log = ClusterConfig()
        self.config = self.log
        self.lease_end_ms = 0
        self.depart_by_ms: int | None = None
        self.ended = False
        self.left = False
        self.ahead = False
        """A join waits until the member has released everything (policy Eager)."""
        # The broker and the leader.
        self.wants_rejoin = False
        self.joined: Report | None = None
        self.joins = 0
        self.answered_joins = 0
        self.member = False
        self.generation = 0
        self.assignments: list[tuple[int, ev.AssignmentReceived]] = []
        self.past_assignments: list[ev.AssignmentReceived] = []
        self.contacts: list[int] = []
        self.accepted_ms = 0
        self.elsewhere: set[TaskId] = set()
        self.believed: set[TaskId] = set()
        self.needs: dict[TaskId, int] = {}
        # As reported to the supervisor: when each task failed, when it had started, how many restarts in a
        # row came before, and the last status of each task.
        self.failed: dict[TaskId, int] = {}
        self.running: dict[TaskId, int] = {}
        self.restarts: dict[TaskId, int] = {}
        self.said: dict[TaskId, tuple[TaskState, int | None]] = {}
        self.event: ev.Event = ev.Tick()
        first = ConnectorConfig({"path": "x", **AUTO}, tasks=({"unit": "u"}, {"unit": "v"}))
        self.put_config({"a": first, "b": first})
        self.config = self.log
        self.tell(ev.ConfigChanged(self.config))

    def tell(self, *events: ev.Event) -> list[do.Instruction]:
        """Several events are of the runtime."""
        self.event = events[-1]
        for event in events:
            self.note_failure(event)
        out = self.supervisor.handle_all(events, self.now_ms)
        self.report = self.supervisor.report
        for instruction in out:
            self.carry_out(instruction)
        self.failed = {task: at_ms for task, at_ms in self.failed.items() if task in self.report.owned}
        return out

    def note_failure(self, event: ev.Event) -> None:
        if not isinstance(event, ev.Started | ev.Paused | ev.Stopped | ev.Failed):
            return
        task = self.supervisor.state.tasks.get(event.task)
        if task is None or task.attempt != event.attempt or task.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        if isinstance(event, ev.Started):
            self.running.setdefault(event.task, self.now_ms)
            return
        since_ms = self.running.pop(event.task, None)
        if not isinstance(event, ev.Paused):
            self.failed[event.task] = self.now_ms
            if (
                since_ms is not None
                and self.now_ms - since_ms >= self.auto_restart(event.task).reset_after_ms
            ):
                self.restarts[event.task] = 0

    def auto_restart(self, task: TaskId) -> AutoRestart:
        known = self.config.connectors.get(task.connector)
        return AutoRestart(enabled=False) if known is None else AutoRestart.of(known.config)

    def note_start(self, task: TaskId) -> None:
        """A failed task restarts on its own only after its pause, and no more often than allowed."""
        failed_ms = self.failed.pop(task, None)
        self.running.pop(task, None)
        before = self.restarts.get(task, 0)
        now = self.supervisor.state.tasks[task].restarts
        if failed_ms is None or isinstance(self.event, ev.RestartRequested):
            assert now == 0, "a new count"
        elif isinstance(self.event, ev.ConfigChanged):
            assert now in (0, before + 1)
        else:
            assert self.auto_restart(task).enabled
            assert now == before + 1 <= MAX_RESTARTS
            assert self.now_ms >= failed_ms + (BACKOFF_MS, 2 * BACKOFF_MS, BACKOFF_MAX_MS)[before]
        self.restarts[task] = now

    def carry_out(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.StartTask(task, attempt, config):
                assert config == self.config.task_config(task)
                assert self.config.offset >= self.needs[task]
                assert config.keys() <= {"path", "unit"}, "connectors must not see reserved settings"
                self.note_start(task)
                self.runtime.start(task, attempt, config)
            case do.PutStatus(status, in_ms):
                self.said[status.task] = status.state, None if in_ms is None else self.now_ms + in_ms
            case do.StopTask(task, attempt):
                self.runtime.stop(task, attempt)
            case do.SetTimer(at_ms):
                assert at_ms is None or at_ms > self.now_ms
                self.timer_ms = at_ms
            case do.Rejoin():
                assert self.report != self.joined, "a rejoin with unchanged bytes makes no round"
                self.wants_rejoin = True
            case do.ReadyToJoin():
                assert self.ahead
                assert not self.report.owned
                assert not self.runtime.runs
                self.ahead, self.wants_rejoin = False, True
            case do.Leave():
                self.left = True
                in_peace = self.depart_by_ms is None or self.now_ms < self.depart_by_ms
                in_peace = in_peace and not self.ahead
                assert not (in_peace and self.believed), (
                    "the member leaves before the leader knows what it released"
                )
            case do.Exit():
                assert not self.runtime.runs
                self.ended = True
            case do.KillGroup():
                self.runtime = Runtime()
                self.ended = True

    def put_config(self, connectors: dict[str, ConnectorConfig]) -> None:
        self.log = ClusterConfig(self.log.offset + 1, connectors)

    def hear(self, sent_at_ms: int) -> None:
        self.lease_end_ms = max(self.lease_end_ms, sent_at_ms + LEASE_MS)

    def complete_round(self, assigned: set[TaskId], revoked: set[TaskId], fate: str = "sent") -> None:
        joined = self.joined
        assert joined is not None
        self.joined = None
        self.generation += 1
        owned = set(joined.owned)
        if joined.draining:
            assigned, revoked = set(), owned
        assignment = ev.AssignmentReceived(
            Epoch(1, self.generation),
            joined,
            assigned=tuple(sorted(assigned - owned - self.elsewhere)),
            revoked=tuple(sorted((revoked & owned) | (self.elsewhere & owned))),
            config_offset=self.log.offset,
            lease_ms=LEASE_MS,
            leader_url="http://leader",
            error=1 if fate == "refused" else 0,
        )
        self.believed = (owned | set(assignment.assigned)) - set(assignment.revoked)
        if fate == "lost":
            # The SyncGroup gets no answer; the membership rejoins on its own.
            self.wants_rejoin = True
        else:
            self.assignments.append((self.joins, assignment))

    def prove(self) -> None:
        """The member sends a request that the broker accepts; the leader counts the lease from here."""
        if self.member:
            self.accepted_ms = self.now_ms
            self.contacts.append(self.now_ms)
