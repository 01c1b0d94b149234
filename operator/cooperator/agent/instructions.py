"""Instructions of the supervisor. The shell carries them out in order and takes no decisions."""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import Epoch, TaskId, TaskStatus
from cooperator.reconciliation import Report


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start the task. Attempts are numbered across all starts of this process."""

    task: TaskId
    attempt: int
    config: Mapping[str, str]
    paused: bool
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop the attempt; ``Stopped`` or ``Failed`` reports that nothing of it runs any more."""

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
    """Rejoin the group: the leader must learn of a change. The metadata bytes differ from the last join's."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadyToJoin:
    """Nothing is owned any more, so the JoinGroup that has waited for it may be sent."""


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Write the status. The shell fills in the wall-clock times of the status and of its next attempt."""

    status: TaskStatus
    next_attempt_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PostTaskConfigs:
    """Send a connector's task configurations to the leader; answered by ``PostAnswered``."""

    connector: str
    number: int
    configs: tuple[Mapping[str, str], ...]
    leader_url: str


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Ask the leader's endpoint whether any task was reassigned; ``LeaderConfirmed`` if none was."""

    leader_url: str
    member_id: str
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class SendReport:
    """Post the report to the leader's endpoint, which may hold it; answered by ``ReportAnswered``.

    A report that is still on its way is given up.
    """

    leader_url: str
    report: Report
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Deliver a ``Tick`` at this time. Replaces the previous timer; None: no timer."""

    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Watch:
    """Have the watchdog, which is a process of its own, kill the process group at this time. None: never."""

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
    """Kill the whole process group at once: something did not stop within the time that the lease leaves."""

    reason: str


Instruction = (
    StartTask
    | StopTask
    | Pause
    | Resume
    | Rejoin
    | ReadyToJoin
    | PutStatus
    | PostTaskConfigs
    | AskLeader
    | SendReport
    | SetTimer
    | Watch
    | Leave
    | Exit
    | KillGroup
)
