"""The events and instructions of a leader: the values of ``machine``.

A ``request`` is a number by which the shell finds whom to give the ``Reply``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cooperator.leader.starts import MemberIncarnation
from cooperator.model import (
    ClusterConfig,
    Desired,
    LearnerProgress,
    Member,
    Memory,
    Policy,
    TaskId,
    TaskStatus,
)
from cooperator.planner.view import Facts
from cooperator.reconciliation import Answer as ReportAnswer
from cooperator.reconciliation import Records, Rejection, Report
from cooperator.wire import ConfigRecord, FencingRecord, RestartRecord


@dataclass(frozen=True, slots=True)
class LeadTaken:
    """This leader has taken the lead. ``memory``: the leader log's, read to its end.

    * ``evicted``: members removed to take the lead, with their last reports; they run on and will rejoin.
    * ``unread``: removed likewise, but the broker did not return their last reports, so what they run is not
      known from them.
    * ``policy``: the leader log's, for a leader that has none of its own; None: the present one stays.
    * ``records``: the leader log's of a reconciled group.
    """

    memory: Memory
    config: ClusterConfig
    evicted: tuple[Member, ...] = ()
    unread: tuple[Member, ...] = ()
    policy: Policy | None = None
    records: Records = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundReady:
    """All members of a new generation have reported; the leader owes every one of them an assignment.

    * ``members``: workers, decoded.
    * ``idle_ids``: members that must get an empty assignment (leaders, and members with unreadable metadata).
    * ``highest_offset``: the highest config log offset of all reports.
    * ``metadata_bytes``: size of all members' metadata, as the broker stores it.
    * ``offsets``: the config log offset of each stock worker, by member id.
    * ``config_end``: the end of the config topic, asked for only when members have read beyond ``config``;
      None: not known.
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
    config_end: int | None = None


@dataclass(frozen=True, slots=True)
class Joining:
    """The leader is about to send its JoinGroup: a round is under way."""


@dataclass(frozen=True, slots=True)
class RoundFailed:
    """The plan of ``generation`` could not be saved or sent; no member got it.

    ``reason`` is empty if the round was superseded, for example because another member joined.
    """

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The broker accepted the assignments of ``generation``."""

    generation: int


@dataclass(frozen=True, slots=True)
class GroupLimitRead:
    """The size of the largest record of a group that the broker takes; None: it could not be read."""

    record_bytes: int | None


@dataclass(frozen=True, slots=True)
class LeadLost:
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    config: ClusterConfig


@dataclass(frozen=True, slots=True)
class DesiredChanged:
    """``events``: the events that caused the change (see ``causes``); empty if unknown."""

    desired: Desired
    events: str = ""


@dataclass(frozen=True, slots=True)
class FactsChanged:
    """``events``: as in ``DesiredChanged``."""

    facts: Facts
    events: str = ""


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    policy: Policy


@dataclass(frozen=True, slots=True)
class HandBack:
    """Make the layout even by count, so that stock workers can lead themselves; not ``wanted``: stop it."""

    wanted: bool = True


@dataclass(frozen=True, slots=True)
class MemorySaved:
    """``memory`` is durable: the leader log says this and nothing newer. ``number``: as in ``SaveMemory``."""

    memory: Memory
    number: int = 0


@dataclass(frozen=True, slots=True)
class GroupSaved:
    """The write of this number is durable (``SaveGroup``)."""

    number: int


@dataclass(frozen=True, slots=True)
class ReportsReceived:
    """Reports of members of a reconciled group, each with the number of its request, in order of arrival."""

    reports: tuple[tuple[int, Report], ...]


@dataclass(frozen=True, slots=True)
class ConfigWritten:
    """``records`` are durable: the last one is before ``offset``. ``requests``: as in ``WriteConfig``."""

    records: tuple[ConfigRecord, ...]
    offset: int
    requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigRefused:
    """The broker permanently refuses ``records`` of this connector, because one is too large or cannot be
    encoded. None of them is durable. ``requests``: as in ``WriteConfig``.
    """

    connector: str
    records: tuple[ConfigRecord, ...]
    reason: str
    requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFailed:
    """An instruction failed; those after it were dropped, except evictions. ``unwritten``: the failed
    instruction was a write whose outcome is unknown.
    """

    reason: str
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class TasksPosted:
    """The connector's instance computed new task configurations (POST /connectors/{name}/tasks)."""

    connector: str
    configs: tuple[Mapping[str, str], ...]
    request: int


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """The members are to restart what ``record`` names; nobody waits for it after ``until_ms``."""

    record: RestartRecord
    until_ms: int
    request: int


@dataclass(frozen=True, slots=True)
class FenceRequested:
    """A stock worker starts a task of ``connector``: it asks to fence the task's earlier producers."""

    connector: str


@dataclass(frozen=True, slots=True)
class ProducersFenced:
    """Those of earlier tasks were, for the tasks of ``generation``: ``record`` is to be written."""

    record: FencingRecord
    generation: int
    request: int


@dataclass(frozen=True, slots=True)
class LearnerReported:
    """A member says how far it is with each task that it learns."""

    member_id: str
    learned: Mapping[TaskId, LearnerProgress]


@dataclass(frozen=True, slots=True)
class StatusesRead:
    """The status log, read to its end after the ``ReadStatuses`` with the same fields."""

    statuses: Mapping[TaskId, TaskStatus]
    incarnations: frozenset[MemberIncarnation] = frozenset()
    leftovers: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A ``WakeAt`` is due."""


Event = (
    LeadTaken
    | Joining
    | RoundReady
    | RoundFailed
    | Delivered
    | GroupLimitRead
    | LeadLost
    | ConfigChanged
    | DesiredChanged
    | FactsChanged
    | PolicyChanged
    | HandBack
    | MemorySaved
    | GroupSaved
    | ReportsReceived
    | ConfigWritten
    | ConfigRefused
    | StepFailed
    | TasksPosted
    | RestartRequested
    | FenceRequested
    | ProducersFenced
    | LearnerReported
    | StatusesRead
    | Tick
)


@dataclass(frozen=True, slots=True)
class SaveMemory:
    """Write the memory to the leader log, with records that end a reconciled group, in one transaction; then
    report ``MemorySaved`` with the ``number``; only then carry out what follows.
    """

    memory: Memory
    records: Records = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True)
class SaveGroup:
    """As ``SaveMemory``, with the records of a reconciled group; then report ``GroupSaved``. The log has a
    ``memory`` of None already.
    """

    number: int
    records: Records
    memory: Memory | None


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """Answer a member's report; None: not now, it reports again."""

    request: int
    answer: ReportAnswer | Rejection | None


@dataclass(frozen=True, slots=True)
class SavePolicy:
    policy: Policy


@dataclass(frozen=True, slots=True)
class Answer:
    """The encoded assignments of a round, one for every member id.

    ``written``: by id of each member with a change, its assigned items as encoded in the assignment.
    """

    generation: int
    assignments: Mapping[str, bytes]
    written: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteConfig:
    """Append to the config log, in this order; then report ``ConfigWritten``. In one transaction, unless one
    connector's records are refused: then each connector's in one, with ``ConfigRefused`` for that one.

    ``requests``: those that wait for this write.
    """

    records: tuple[ConfigRecord, ...]
    why: str
    requests: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MakeSessionKey:
    """The session key is missing or too old: generate one and write it to the config log."""


@dataclass(frozen=True, slots=True)
class RequestRejoin:
    reason: str


@dataclass(frozen=True, slots=True)
class Evict:
    member_ids: Sequence[str]
    reason: str


@dataclass(frozen=True, slots=True)
class ReadStatuses:
    """Read the status log to its end and answer with ``StatusesRead``.

    ``incarnations``: ended ones, to learn what they never started. ``leftovers``: whether to find statuses of
    items that no longer exist. May fail; the machine asks again.
    """

    incarnations: frozenset[MemberIncarnation]
    leftovers: bool


@dataclass(frozen=True, slots=True)
class ReadGroupLimit:
    """Read the broker's limit of a group's record, and answer with ``GroupLimitRead``."""


@dataclass(frozen=True, slots=True)
class ForgetStatuses:
    """Write tombstones for these items to the status log."""

    items: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request with an HTTP code (see ``PostOutcome``)."""

    request: int
    code: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a ``Tick`` at this time (ms since the epoch). Replaces the previous one."""

    at_ms: int


Instruction = (
    SaveMemory
    | SaveGroup
    | AnswerReport
    | SavePolicy
    | Answer
    | WriteConfig
    | MakeSessionKey
    | RequestRejoin
    | Evict
    | ReadStatuses
    | ReadGroupLimit
    | ForgetStatuses
    | Reply
    | WakeAt
)


class PostOutcome:
    """The outcome of a request as an HTTP code."""

    WRITTEN = 204
    PENDING = 202
    UNKNOWN_CONNECTOR = 404
    NOT_LEADING = 409
    OUTDATED = 410
    """Newer task configurations were committed; the client gets 409."""
    AGAIN = 503
    """No write is allowed now: a round is under way, members still apply its outcome, or the last write is in
    doubt."""
