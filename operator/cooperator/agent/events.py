"""The events of a member. Times are milliseconds of one monotonic clock, the supervisor's ``now``."""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.agent.state import Report
from cooperator.model import ClusterConfig, Epoch, TaskId
from cooperator.reconciliation import Answer, Rejection

TaskConfigs = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """A SyncGroup response: what changes for this member (docs/protocol.md, 6 and 7).

    * ``answers``: the report in this member's JoinGroup of the same round. The assignment was computed from
      it.
    * ``superseded``: another JoinGroup was sent before this assignment could be applied. That JoinGroup
      reported a member without the assignment, so the assignment must not be applied any more.
    * ``config_offset``: the assigned tasks start once the config log has been read up to this offset.
    * ``member_id``: the id of this member in that round.
    * ``leads``: this member is the leader of the group.
    * ``error``: not 0 when no plan could be made.
    * ``reconciled``: the round names no tasks; they are reconciled by reports until the next round.
    """

    epoch: Epoch
    answers: Report
    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    config_offset: int = -1
    lease_ms: int = 40_000
    leader_url: str = ""
    leads: bool = False
    member_id: str = ""
    error: int = 0
    superseded: bool = False
    reconciled: bool = False


@dataclass(frozen=True, slots=True)
class ReportAnswered:
    """The leader has answered the report of this number; ``answer`` None: it has not, or not understandably.

    ``superseded``: a JoinGroup was sent after the report. It may tell the leader what the member runs, so the
    answer must not change that any more.
    """

    sequence: int
    answer: Answer | Rejection | None
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class Contact:
    """The broker answered a request that proves membership. ``sent_at_ms``: when the request was sent."""

    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class LeaderConfirmed:
    """The leader's endpoint confirmed that none of this member's tasks was reassigned since ``epoch``."""

    sent_at_ms: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Dropped:
    """The broker no longer counts this process as a member. The membership rejoins by itself."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class JoinAhead:
    """The next JoinGroup waits until nothing is owned here any more; answered by ``ReadyToJoin``."""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The config log has been read further."""

    config: ClusterConfig


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart record in the config log (KIP-745): each member restarts the tasks it owns of the connector.

    ``task``: only this one restarts (-1: the instance) if it is owned here; the other two fields are ignored.
    """

    connector: str
    include_tasks: bool
    only_failed: bool
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """From the runtime: the attempt runs, for the first time or after a resume."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Paused:
    """From the runtime: the attempt is up, but paused; nothing of it runs."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """From the runtime: nothing of the attempt runs any more."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """From the runtime: the attempt ended with an error; nothing of it runs any more.

    ``reason``: why another attempt would fail in the same way; empty if it might not.
    """

    task: TaskId
    attempt: int
    trace: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Progressed:
    """From the runtime: one line about the progress of the attempt."""

    task: TaskId
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class UnitsChanged:
    """A connector instance that runs here has computed its task configurations."""

    connector: str
    configs: TaskConfigs


@dataclass(frozen=True, slots=True)
class WarmUpBegun:
    """The runtime is starting up. WarmedUp or WarmUpFailed follows."""


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """The runtime is up: a task started now runs at once."""


@dataclass(frozen=True, slots=True)
class WarmUpFailed:
    """The runtime could not be started; the start is retried."""


@dataclass(frozen=True, slots=True)
class PostAnswered:
    """The leader answered the post ``number``, or the post failed. ``error`` is empty on success."""

    connector: str
    number: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Drain (SIGTERM): wait until the leader has moved everything away, then leave."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Stop everything cleanly and leave, without waiting for revocations. ``code``: the exit code."""

    code: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """The timer has expired."""


Event = (
    AssignmentReceived
    | ReportAnswered
    | Contact
    | LeaderConfirmed
    | Dropped
    | JoinAhead
    | ConfigChanged
    | RestartRequested
    | Started
    | Paused
    | Stopped
    | Failed
    | Progressed
    | UnitsChanged
    | WarmUpBegun
    | WarmedUp
    | WarmUpFailed
    | PostAnswered
    | DrainRequested
    | StopRequested
    | Tick
)
