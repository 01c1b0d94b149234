"""A member's state, as values, and its invariants."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from cooperator.model import AutoRestart, ClusterConfig, Epoch, SessionKey, TaskId, TaskStatus, Warmth
from cooperator.model.status import PROGRESS_EVERY_MS
from cooperator.model.throttle import Throttle
from cooperator.reconciliation import Report as ReconciliationReport
from cooperator.reconciliation import ReportingMember


class IllegalStep(Exception):
    """The event cannot happen in this state; nothing was changed."""


class BrokenInvariant(AssertionError):
    """The state contradicts itself: a bug in the supervisor."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a supervisor.

    * ``identity``: the author of the statuses; ``incarnation``: that of this process.
    * ``coalesce_ms``: how long stopped tasks wait for others that are still stopping before they are
      acknowledged; ``report_coalesce_ms``: the same without rounds, where nobody else is disturbed.
    * ``rejoin_retry_ms``: an acknowledgement that no assignment has answered is repeated after this.
    * ``refused_retry_ms``: pause after an assignment that could not be applied.
    * ``ask_every_ms``: interval between questions to the leader.
    * ``report_pause_ms``: after an answer that changed nothing, the next report follows after this;
      ``report_retry_ms``: after one that failed. ``report_slack_ms``: how much longer than the leader may
      hold it a report waits for its answer.
    * ``revocation_timeout_ms``: if a revoked task has not stopped after this time, the member's process is
      ended so that the task can move; after half of this time the task's status has the reason ``Hung``.
    * ``kill_after_ms``: a task that has not stopped this long after the end of the lease is killed with its
    process. Must be less
      than the margin that the leader adds to the lease.
    * ``progress_every_ms``: minimum interval between two statuses of a task that differ only in its progress.
    * ``post_backoff_ms``: doubles up to ``post_backoff_max_ms`` (docs/protocol.md, 9). After the latter the
      supervisor also checks that a post which the leader accepted has appeared in the config log.
    * ``warm_up_limit_ms``: a runtime that is not up after this is reported as stalled. The default is four
      times what was observed on a busy machine, and less than ``drain_timeout_ms``, so that a draining member
      that waits for its runtime can still leave in order.
    """

    identity: str
    incarnation: str = ""
    coalesce_ms: int = 250
    report_coalesce_ms: int = 50
    rejoin_retry_ms: int = 30_000
    refused_retry_ms: int = 2_000
    ask_every_ms: int = 2_000
    report_pause_ms: int = 250
    report_retry_ms: int = 1_000
    report_slack_ms: int = 5_000
    kill_after_ms: int = 4_000
    revocation_timeout_ms: int = 60_000
    drain_timeout_ms: int = 300_000
    post_backoff_ms: int = 250
    post_backoff_max_ms: int = 60_000
    progress_every_ms: int = PROGRESS_EVERY_MS
    warm_up_limit_ms: int = 240_000


class Phase(StrEnum):
    """The phase of an owned task.

    WAITING (nothing runs) -> STARTING -> RUNNING (or paused) -> STOPPING -> WAITING, or released.
    STARTING, RUNNING -> FAILED (nothing runs) -> STARTING, after its delay or on request.
    """

    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPING = "STOPPING"


class Said(NamedTuple):
    """What a member has written about a task. ``next_attempt_ms``: by the supervisor's clock."""

    status: TaskStatus
    next_attempt_ms: int | None


@dataclass(frozen=True, slots=True)
class Task:
    """One owned task.

    * ``keep``: false when the task is to be released (revoked, or the lease has ended) as soon as it has
      stopped.
    * ``revoked_ms``: since when it has been stopping in order to be released; None while ``keep`` is true.
    * ``quiet``: release it without a status.
    * ``restart``: stop this attempt and start another.
    * ``config``, ``paused``: what the attempt was given.
    * ``said``: the last status that was written.
    * ``progress``: progress of the attempt, on its way to the status.
    * ``running_ms``: since when the attempt has been running.
    * ``restarts``: number of consecutive attempts, this one included, that followed a failure.
    * ``failed_ms``, ``trace``: the last failure, while nothing runs because of it. ``reason``: why only a
      changed configuration or a request restarts the task then; empty if its pause is enough.
    """

    task: TaskId
    epoch: Epoch
    needs_offset: int
    phase: Phase = Phase.WAITING
    attempt: int = 0
    keep: bool = True
    revoked_ms: int | None = None
    quiet: bool = False
    restart: bool = False
    config: Mapping[str, str] | None = None
    paused: bool = False
    said: Said | None = None
    progress: Throttle[str] = field(default_factory=Throttle)
    running_ms: int | None = None
    restarts: int = 0
    failed_ms: int | None = None
    trace: str = ""
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Something of the attempt may run: true from the instruction to start until Stopped or Failed."""
        return self.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


@dataclass(frozen=True, slots=True)
class Post:
    """The task configurations that a connector instance wants; sent until the config log has the same.

    * ``at_ms``: when to compare, and to send if they differ; None: nothing is due.
    * ``in_flight``: number of the post that awaits its answer; there is at most one.
    """

    configs: tuple[Mapping[str, str], ...]
    at_ms: int | None
    tries: int = 0
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a member in every join.

    * ``owned``: everything it has not released, in order of arrival.
    * ``stopping``: the subset that it will release once stopped.
    * ``nonce``: changes with each acknowledgement so that the bytes do: a rejoin with unchanged bytes does
      not trigger a rebalance (docs/protocol.md, 6).
    * ``warmth``: the warmth of its runtime.
    """

    owned: tuple[TaskId, ...] = ()
    stopping: frozenset[TaskId] = frozenset()
    draining: bool = False
    applied: Epoch | None = None
    config_offset: int = -1
    nonce: int = 0
    warmth: Warmth = Warmth.WARM


@dataclass(slots=True)
class State:
    """The supervisor's state. A step works on a ``copy``, which replaces the state on success.

    * ``expected``: what the leader may think this member owns. While it contains a task that is not owned, an
      acknowledgement is due.
    * ``answered``: the last report that an assignment has answered.
    * ``lease_basis_ms``: when the newest request was sent whose answer proves that the tasks are still ours.
    * ``asked_ms``: since when an acknowledgement is on its way.
    * ``rejoin_ms``: when the next acknowledgement will be requested.
    * ``join_ahead``: a JoinGroup waits until nothing is owned.
    * ``warm_by_ms``: when a runtime that is starting counts as stalled.
    * ``reporting``: the reports to the leader, while tasks are reconciled between rounds; None in rounds.
    * ``sent_report``: the last report; ``heard_report``: the last one that the leader has answered;
      ``report_ms``: when the next one is due, None: an assignment has to come first; ``report_key``: the
      session key that the member knew then.
    * ``exiting``: the exit code, once Exit or KillGroup was issued.
    """

    now_ms: int = 0
    config: ClusterConfig = field(default_factory=ClusterConfig)
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    posts: dict[str, Post] = field(default_factory=dict)
    applied: Epoch | None = None
    leader_url: str = ""
    leads: bool = False
    answered: Report | None = None
    expected: frozenset[TaskId] = frozenset()
    refused: bool = False
    nonce: int = 0
    asked_ms: int | None = None
    rejoin_ms: int | None = None
    join_ahead: bool = False
    member_id: str = ""
    lease_ms: int = 0
    lease_basis_ms: int | None = None
    asked_leader_ms: int | None = None
    reporting: ReportingMember | None = None
    sent_report: ReconciliationReport | None = None
    heard_report: ReconciliationReport | None = None
    report_ms: int | None = None
    report_key: SessionKey | None = None
    warmth: Warmth = Warmth.WARM
    warm_by_ms: int | None = None
    draining: bool = False
    depart_by_ms: int | None = None
    exit_code: int = 0
    exiting: int | None = None
    attempts: int = 0
    posted: int = 0
    timer_ms: int | None = None
    watch_ms: int | None = None

    def copy(self) -> "State":
        """A copy to work on. The values in it are frozen, so shallow copies suffice."""
        return replace(self, tasks=dict(self.tasks), posts=dict(self.posts))

    @property
    def lease_end_ms(self) -> int | None:
        """The end of the lease: no task may run from this time on; None before any contact."""
        return None if self.lease_basis_ms is None else self.lease_basis_ms + self.lease_ms

    @property
    def lease_alive(self) -> bool:
        end = self.lease_end_ms
        return end is not None and self.now_ms < end

    @property
    def departing(self) -> bool:
        """The drain timeout is over: everything stops."""
        return self.depart_by_ms is not None and self.now_ms >= self.depart_by_ms

    @property
    def anything_alive(self) -> bool:
        return any(task.alive for task in self.tasks.values())

    @property
    def unacknowledged(self) -> frozenset[TaskId]:
        """Released tasks of which the leader cannot know yet."""
        return self.expected - self.tasks.keys()

    @property
    def acknowledgement_due(self) -> bool:
        if self.refused or not self.expected <= self.tasks.keys():
            return True
        if self.reporting is not None:
            return False
        answered = self.answered
        return answered is not None and (
            (self.draining and not answered.draining) or self.warmth is not answered.warmth
        )

    def stored(self, connector: str) -> tuple[Mapping[str, str], ...] | None:
        """The task configurations in the config log; None if there is no consistent set."""
        known = self.config.connectors.get(connector)
        return None if known is None or known.inconsistent else known.tasks

    def auto_restart(self, connector: str) -> AutoRestart:
        """When failed tasks of the connector restart; never if it is not configured."""
        known = self.config.connectors.get(connector)
        return AutoRestart(enabled=False) if known is None else AutoRestart.of(known.config)

    def restart_ms(self, task: Task) -> int | None:
        """When a failed task restarts automatically; None if it does not."""
        if task.phase is not Phase.FAILED or task.failed_ms is None or task.reason:
            return None
        delay_ms = self.auto_restart(task.task.connector).delay_ms(task.restarts)
        return None if delay_ms is None else task.failed_ms + delay_ms

    def hung_ms(self, task: Task, settings: Settings) -> int | None:
        """The time from which a revoked task is reported as hung."""
        return None if task.revoked_ms is None else task.revoked_ms + settings.revocation_timeout_ms // 2

    def progress_due_ms(self, task: Task, every_ms: int) -> int | None:
        """When pending progress is written; None if there is none."""
        if task.phase not in (Phase.STARTING, Phase.RUNNING):
            return None
        return task.progress.due_ms(self.now_ms, every_ms)

    def report(self) -> Report:
        return Report(
            owned=tuple(self.tasks),
            stopping=frozenset(task.task for task in self.tasks.values() if not task.keep),
            draining=self.draining,
            applied=self.applied,
            config_offset=self.config.offset,
            nonce=self.nonce,
            warmth=self.warmth,
        )


def check(state: State) -> None:
    """Raise BrokenInvariant unless the state, as left by a step, is consistent."""
    attempts: set[int] = set()
    for key, task in state.tasks.items():
        _require(key == task.task, f"{key} is filed under another name: {task}")
        _require(
            task.alive or task.phase in (Phase.WAITING, Phase.FAILED), f"runs without an attempt: {task}"
        )
        _require(not (task.alive and task.phase is Phase.WAITING), f"waits while it runs: {task}")
        _require(task.attempt <= state.attempts, f"an attempt that was never started: {task}")
        _require(
            (task.phase is Phase.FAILED) == (task.failed_ms is not None), f"failed without a time: {task}"
        )
        restart_ms = state.restart_ms(task)
        if restart_ms is not None and restart_ms > state.now_ms and state.exiting is None:
            timer_ms = state.timer_ms
            _require(timer_ms is not None and timer_ms <= restart_ms, f"no restart is due: {task}")
        _require((task.revoked_ms is None) == task.keep, f"no deadline for its stop: {task}")
        if task.alive:
            _require(task.attempt not in attempts, f"one attempt for two tasks: {task}")
            attempts.add(task.attempt)
        if state.exiting is None:
            _require(task.keep or task.phase is Phase.STOPPING, f"released, but not stopping: {task}")
            _require(
                state.lease_alive or task.phase is Phase.STOPPING,
                f"at {state.now_ms} the lease has ended at {state.lease_end_ms}: {task}",
            )
    if state.exiting is None:
        due = state.acknowledgement_due
        _require(
            not due or state.departing or (state.asked_ms, state.rejoin_ms) != (None, None),
            f"no acknowledgement is due for {sorted(state.unacknowledged)}",
        )
        _require(
            (state.warmth is Warmth.WARMING) == (state.warm_by_ms is not None)
            and (state.warm_by_ms is None or state.timer_ms is not None),
            f"no timer reports that it stalls: {state.warmth}, {state.warm_by_ms}",
        )
        _require(
            not state.tasks or state.timer_ms is not None,
            "owns tasks, and no timer watches the lease",
        )
        _require(not attempts or state.watch_ms is not None, "something runs without a watchdog timer")
    _require(state.timer_ms is None or state.timer_ms > state.now_ms, "the timer was due already")
    _require(set(state.posts) <= {task.connector for task in state.tasks if task.is_instance}, "stray posts")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise BrokenInvariant(message)
