"""What can happen to a member. Times are milliseconds of one monotonic clock, the supervisor's ``now``."""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.agent.state import Report
from cooperator.model import ClusterConfig, Epoch, TaskId

TaskConfigs = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShareReceived:
    """One SyncGroup answer: what changes for this member (protocol notes, 6 and 7).

    ``answers``: the report that this member's JoinGroup of the same round carried; the share was computed
    from it. ``superseded``: another JoinGroup was sent before this share could be taken. It told the leader
    of a member without the share, so the share must not be taken any more.
    ``config_offset``: the assigned tasks start once the config log has been read that far.
    ``member_id``: this member's, in that round.
    ``leads``: this member itself is the group's leader. ``error``: not 0 when no plan could be made.
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


@dataclass(frozen=True, slots=True)
class Contact:
    """The broker answered a request that proves membership; ``sent_at_ms``: when it was sent."""

    sent_at_ms: int


@dataclass(frozen=True, slots=True)
class LeaderConfirmed:
    """The leader's endpoint answered that nothing of this member was given away since ``epoch``."""

    sent_at_ms: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Dropped:
    """The broker no longer counts this process as a member; the membership rejoins by itself."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The config log has been read further."""

    config: ClusterConfig


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart record in the config log (KIP-745): each member restarts what it owns of the connector.

    ``task``: this one alone (-1: the instance), as long as it is owned here, whatever the others say.
    """

    connector: str
    include_tasks: bool
    only_failed: bool
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The runtime: the attempt runs, for the first time or resumed."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Paused:
    """The runtime: the attempt is up, and nothing of it runs."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The runtime: nothing of the attempt runs any more."""

    task: TaskId
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The runtime: the attempt is over by an error; nothing of it runs any more."""

    task: TaskId
    attempt: int
    trace: str


@dataclass(frozen=True, slots=True)
class Progressed:
    """The runtime: a line on how far the attempt is."""

    task: TaskId
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class UnitsChanged:
    """A connector instance that runs here computed the configurations of its tasks."""

    connector: str
    configs: TaskConfigs


@dataclass(frozen=True, slots=True)
class WarmUpBegun:
    """The runtime is being started, and will say what has become of it."""


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """The runtime is up: a task that is started now runs at once."""


@dataclass(frozen=True, slots=True)
class WarmUpFailed:
    """The runtime could not be started; it is tried again."""


@dataclass(frozen=True, slots=True)
class PostAnswered:
    """The leader answered, or failed to, the post ``number``; ``error`` is empty when it took it."""

    connector: str
    number: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Depart in peace (SIGTERM): let the leader move everything away first."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Depart at once: stop everything cleanly without waiting for revocations. ``code``: of the exit."""

    code: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the timer that was set is due."""


Event = (
    ShareReceived
    | Contact
    | LeaderConfirmed
    | Dropped
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
