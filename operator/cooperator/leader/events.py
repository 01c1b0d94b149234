"""What can happen to a leader, and what it can want done: the values of ``machine``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cooperator.leader.starts import Life
from cooperator.model import ClusterConfig, Desired, Member, Memory, Policy, TaskId, TaskStatus
from cooperator.planner.view import Facts
from cooperator.wire import ConfigRecord


@dataclass(frozen=True, slots=True)
class LeadTaken:
    """The lead is ours: ``memory`` is what the leader log says, read to its end.

    ``evicted``: members that were removed to take the lead, with what they last reported; they keep
    running it and will be back.
    """

    memory: Memory
    config: ClusterConfig
    evicted: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundReady:
    """All members of a new generation have reported; the leader owes every one of them a share.

    ``members``: workers, decoded. ``idle_ids``: members that must get an empty share (leaders, and
    members whose metadata cannot be read). ``highest_offset``: of the config log, over all reports.
    ``metadata_bytes``: of all members together, as the broker keeps it. ``offsets``: of the config log, as
    each stock worker has read it, by member id.
    """

    generation: int
    protocol: str
    leader_id: str
    members: tuple[Member, ...]
    idle_ids: tuple[str, ...]
    highest_offset: int
    config: ClusterConfig
    metadata_bytes: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Joining:
    """The leader is about to send its JoinGroup: a round is under way."""


@dataclass(frozen=True, slots=True)
class RoundFailed:
    """The plan of ``generation`` could not be saved or sent: nobody got it."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The broker took the assignments of ``generation``."""

    generation: int


@dataclass(frozen=True, slots=True)
class LeadLost:
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    config: ClusterConfig


@dataclass(frozen=True, slots=True)
class DesiredChanged:
    """``events``: by what it was changed (see ``causes``); empty if that is not known."""

    desired: Desired
    events: str = ""


@dataclass(frozen=True, slots=True)
class FactsChanged:
    """``events``: as of ``DesiredChanged``."""

    facts: Facts
    events: str = ""


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    policy: Policy


@dataclass(frozen=True, slots=True)
class HandBack:
    """Make the layout even by count, for stock workers to lead themselves; or, if not ``wanted``, no more."""

    wanted: bool = True


@dataclass(frozen=True, slots=True)
class TasksPosted:
    """The connector's instance computed new task configurations (POST /connectors/{name}/tasks)."""

    connector: str
    configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class StatusesRead:
    """The status log, read to its end after the ``ReadStatuses`` with the same fields."""

    statuses: Mapping[TaskId, TaskStatus]
    lives: frozenset[Life] = frozenset()
    leftovers: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; sent when a ``WakeAt`` is due."""


Event = (
    LeadTaken
    | Joining
    | RoundReady
    | RoundFailed
    | Delivered
    | LeadLost
    | ConfigChanged
    | DesiredChanged
    | FactsChanged
    | PolicyChanged
    | HandBack
    | TasksPosted
    | StatusesRead
    | Tick
)


@dataclass(frozen=True, slots=True)
class SaveMemory:
    """Write the memory to the leader log; must be durable before the ``Answer`` that follows it."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class SavePolicy:
    policy: Policy


@dataclass(frozen=True, slots=True)
class Answer:
    """The encoded assignments of a round, one for every member id.

    ``written``: of members with a change, what is assigned to them, as it stands in their assignment.
    """

    generation: int
    assignments: Mapping[str, bytes]
    written: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefuseRound:
    """The plan cannot be sent; the round ends without assignments, and everybody runs on as before."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class WriteConfig:
    """Append to the config log, in one transaction and in this order."""

    records: tuple[ConfigRecord, ...]
    why: str


@dataclass(frozen=True, slots=True)
class MakeSessionKey:
    """There is no session key, or it is too old: make one and write it to the config log."""


@dataclass(frozen=True, slots=True)
class RequestRejoin:
    reason: str


@dataclass(frozen=True, slots=True)
class Evict:
    member_ids: Sequence[str]
    reason: str


@dataclass(frozen=True, slots=True)
class ReadStatuses:
    """Read the status log to its end, and answer with ``StatusesRead``.

    ``lives``: that are over, to learn what they never started. ``leftovers``: to find statuses of what is no
    more. May fail: it is asked for again.
    """

    lives: frozenset[Life]
    leftovers: bool


@dataclass(frozen=True, slots=True)
class ForgetStatuses:
    """Write tombstones for these items to the status log."""

    items: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a ``Tick`` at this time (ms since the epoch); each one replaces the one before."""

    at_ms: int


Instruction = (
    SaveMemory
    | SavePolicy
    | Answer
    | RefuseRound
    | WriteConfig
    | MakeSessionKey
    | RequestRejoin
    | Evict
    | ReadStatuses
    | ForgetStatuses
    | WakeAt
)


class PostOutcome:
    """What ``TasksPosted`` came to, in HTTP's terms."""

    WRITTEN = 204
    PENDING = 202
    UNKNOWN_CONNECTOR = 404
    NOT_LEADING = 409
    OUTDATED = 410
    """Newer task configurations were committed; 409 to whoever asked."""
    AGAIN = 503
    """Nothing may be written now: a round is under way, or its outcome is being taken up."""
