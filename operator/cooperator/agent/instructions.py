"""What the supervisor wants done. The shell carries instructions out in their order, and decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import Epoch, TaskId, TaskStatus


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start the task; ``attempt`` numbers every start of this process."""

    task: TaskId
    attempt: int
    config: Mapping[str, str]
    paused: bool
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop the attempt; ``Stopped`` or ``Failed`` will say that nothing of it runs any more."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Pause:
    task: TaskId


@dataclass(frozen=True, slots=True)
class Resume:
    task: TaskId


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Join again: the leader must learn of what has changed (the metadata bytes differ)."""

    reason: str


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Write the status; the shell adds the time of the wall clock, also to that of the next attempt."""

    status: TaskStatus
    next_attempt_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PostTaskConfigs:
    """Send the configurations of a connector's tasks to the leader; answer with ``PostAnswered``."""

    connector: str
    number: int
    configs: tuple[Mapping[str, str], ...]
    leader_url: str


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Ask the leader's endpoint whether anything was given away; ``LeaderConfirmed`` if it says no."""

    leader_url: str
    member_id: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class SetTimer:
    """``Tick`` is wanted at this time; replaces the timer before. None: no timer."""

    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Watch:
    """The watchdog outside of this process shall kill the process group then. None: never."""

    kill_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group."""


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process; nothing runs any more."""

    code: int


@dataclass(frozen=True, slots=True)
class KillGroup:
    """End the whole process group at once: something did not stop in the time that the lease leaves."""

    reason: str


Instruction = (
    StartTask
    | StopTask
    | Pause
    | Resume
    | Rejoin
    | PutStatus
    | PostTaskConfigs
    | AskLeader
    | SetTimer
    | Watch
    | Leave
    | Exit
    | KillGroup
)
