"""What a member knows about itself, as values, and what must always be true of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cooperator.model import AutoRestart, ClusterConfig, Epoch, TaskId, TaskState, Warmth


class IllegalStep(Exception):
    """The event cannot happen in this state; nothing was changed."""


class BrokenInvariant(AssertionError):
    """The state contradicts itself: an error of the supervisor."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a member is told at its start.

    ``identity``: the author of its statuses. ``coalesce_ms``: how long stopped tasks wait for others that
    still stop before they are acknowledged. ``rejoin_retry_ms``: an acknowledgement that no share has
    answered is asked for again. ``refused_retry_ms``: pause after a share that could not be taken.
    ``ask_every_ms``: between questions to the leader. ``kill_after_ms``: what has not stopped this long
    after the lease has ended is killed; it must be less than the margin that the leader adds to the lease.
    ``post_backoff_ms`` doubles up to ``post_backoff_max_ms`` (protocol notes, 9); after the latter it is also
    checked whether what the leader took has come out of the config log. ``warm_up_limit_ms``: a runtime that
    is not up after so long is said to be stalled. It is four times what a busy machine was seen to take, and
    less than ``drain_timeout_ms``, so that whoever departs and waits for it can still do so in order.
    """

    identity: str
    coalesce_ms: int = 250
    rejoin_retry_ms: int = 30_000
    refused_retry_ms: int = 2_000
    ask_every_ms: int = 2_000
    kill_after_ms: int = 4_000
    drain_timeout_ms: int = 300_000
    post_backoff_ms: int = 250
    post_backoff_max_ms: int = 60_000
    progress_every_ms: int = 10_000
    warm_up_limit_ms: int = 240_000


class Phase(StrEnum):
    """Where an owned task is.

    WAITING (nothing runs) -> STARTING -> RUNNING (or paused) -> STOPPING -> WAITING, or let go.
    STARTING, RUNNING -> FAILED (nothing runs) -> STARTING, when its pause is over or somebody asks for it.
    """

    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPING = "STOPPING"


@dataclass(frozen=True, slots=True)
class Task:
    """One owned task.

    ``keep``: false when it shall be let go of (revoked, or the lease has ended) as soon as it has stopped;
    ``quiet``: without a status. ``restart``: stop this attempt and start another. ``config`` and ``paused``
    are what the attempt was given. ``said``: the last status, its text, and the next attempt that it names.
    ``progress_ms``: when progress was reported. ``running_ms``: since when the attempt has been running.
    ``restarts``: how many attempts before this one followed a failure, in a row. ``failed_ms``, ``trace``:
    of the last failure, while nothing runs because of it.
    """

    task: TaskId
    epoch: Epoch
    needs_offset: int
    phase: Phase = Phase.WAITING
    attempt: int = 0
    keep: bool = True
    quiet: bool = False
    restart: bool = False
    config: Mapping[str, str] | None = None
    paused: bool = False
    said: tuple[TaskState, str, int | None] | None = None
    progress_ms: int | None = None
    running_ms: int | None = None
    restarts: int = 0
    failed_ms: int | None = None
    trace: str = ""

    @property
    def alive(self) -> bool:
        """Something of the attempt may run: from the instruction to start until Stopped or Failed."""
        return self.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


@dataclass(frozen=True, slots=True)
class Post:
    """What a connector instance wants its tasks to be; sent until the config log says the same.

    ``at_ms``: when to compare, and to send if they differ; None: nothing is due.
    ``in_flight``: the number of the post that waits for its answer; one at a time.
    """

    configs: tuple[Mapping[str, str], ...]
    at_ms: int | None
    tries: int = 0
    in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a member tells about itself whenever it joins.

    ``owned``: everything it has not let go of, in the order it came. ``stopping``: the part of it that it
    will let go of once it has stopped. ``nonce`` changes with each acknowledgement, so that the bytes do:
    a rejoin with unchanged bytes makes no round (protocol notes, 6). ``warmth``: of its runtime.
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
    """The supervisor's state. ``copy`` is worked on, and takes its place when the step has succeeded.

    ``expected``: what the leader may think that this member holds; as long as something in it is not
    owned, an acknowledgement is due. ``answered``: the last report that a share has answered.
    ``lease_basis_ms``: when the newest request was sent whose answer proves that the tasks are still ours.
    ``asked_ms``/``rejoin_ms``: an acknowledgement is on its way since / will be asked for at.
    ``warm_by_ms``: when a runtime that is being started counts as stalled.
    ``exiting``: the code, once Exit or KillGroup was said.
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
    member_id: str = ""
    lease_ms: int = 0
    lease_basis_ms: int | None = None
    asked_leader_ms: int | None = None
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
        """A state to work on: the values in it are frozen, so shallow copies are enough."""
        return replace(self, tasks=dict(self.tasks), posts=dict(self.posts))

    @property
    def lease_end_ms(self) -> int | None:
        """The first moment at which nothing may run any more; None before any contact."""
        return None if self.lease_basis_ms is None else self.lease_basis_ms + self.lease_ms

    @property
    def lease_alive(self) -> bool:
        end = self.lease_end_ms
        return end is not None and self.now_ms < end

    @property
    def departing(self) -> bool:
        """The time for a departure in peace is over: everything stops."""
        return self.depart_by_ms is not None and self.now_ms >= self.depart_by_ms

    @property
    def anything_alive(self) -> bool:
        return any(task.alive for task in self.tasks.values())

    @property
    def unacknowledged(self) -> frozenset[TaskId]:
        """What was let go of and the leader cannot know of yet."""
        return self.expected - self.tasks.keys()

    @property
    def acknowledgement_due(self) -> bool:
        if self.refused or not self.expected <= self.tasks.keys():
            return True
        answered = self.answered
        return answered is not None and (
            (self.draining and not answered.draining) or self.warmth is not answered.warmth
        )

    def stored(self, connector: str) -> tuple[Mapping[str, str], ...] | None:
        """The task configurations that the config log has; None if it has no consistent set."""
        known = self.config.connectors.get(connector)
        return None if known is None or known.inconsistent else known.tasks

    def auto_restart(self, connector: str) -> AutoRestart:
        """When its failed tasks start again; never those of a connector that is not configured."""
        known = self.config.connectors.get(connector)
        return AutoRestart(enabled=False) if known is None else AutoRestart.of(known.config)

    def restart_ms(self, task: Task) -> int | None:
        """When a failed task starts again by itself; None when it does not."""
        if task.phase is not Phase.FAILED or task.failed_ms is None:
            return None
        delay_ms = self.auto_restart(task.task.connector).delay_ms(task.restarts)
        return None if delay_ms is None else task.failed_ms + delay_ms

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
        _require(task.attempt <= state.attempts, f"an attempt that was never made: {task}")
        _require((task.phase is Phase.FAILED) == (task.failed_ms is not None), f"failed at no time: {task}")
        restart_ms = state.restart_ms(task)
        if restart_ms is not None and restart_ms > state.now_ms and state.exiting is None:
            timer_ms = state.timer_ms
            _require(timer_ms is not None and timer_ms <= restart_ms, f"nobody will restart it: {task}")
        if task.alive:
            _require(task.attempt not in attempts, f"one attempt for two tasks: {task}")
            attempts.add(task.attempt)
        if state.exiting is None:
            _require(task.keep or task.phase is Phase.STOPPING, f"let go of, but not stopping: {task}")
            _require(
                state.lease_alive or task.phase is Phase.STOPPING,
                f"at {state.now_ms} the lease has ended at {state.lease_end_ms}: {task}",
            )
    if state.exiting is None:
        due = state.acknowledgement_due
        _require(
            not due or state.departing or (state.asked_ms, state.rejoin_ms) != (None, None),
            f"nobody will acknowledge {sorted(state.unacknowledged)}",
        )
        _require(
            (state.warmth is Warmth.WARMING) == (state.warm_by_ms is not None)
            and (state.warm_by_ms is None or state.timer_ms is not None),
            f"nobody will say that it stalls: {state.warmth}, {state.warm_by_ms}",
        )
        _require(
            not state.tasks or state.timer_ms is not None,
            "owns tasks, and no timer watches the lease",
        )
        _require(not attempts or state.watch_ms is not None, "something runs unwatched")
    _require(state.timer_ms is None or state.timer_ms > state.now_ms, "the timer was due already")
    _require(set(state.posts) <= {task.connector for task in state.tasks if task.is_instance}, "stray posts")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise BrokenInvariant(message)
