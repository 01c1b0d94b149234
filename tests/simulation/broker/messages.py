"""The messages between members and the group's coordinator: JoinGroup as of version 9 and the like.

A machine has one group, so no message names it. Every JoinGroup has the protocol type ``connect``. ``client``
is the connection of a request; no request is answered after its connection has ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from cooperator.group import DescribedGroup

UNKNOWN_MEMBER = ""
"""The member id of a member that has none yet."""
NO_GENERATION = -1


class Error(IntEnum):
    """The protocol's names and numbers, for the errors that occur here."""

    UNKNOWN_SERVER_ERROR = -1
    """Also: the group's record is larger than the broker accepts."""
    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """``protocols`` has names and metadata, the preferred first. ``member_id`` is empty the first time."""

    client: str
    member_id: str
    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """``assignments`` are by member id; only the leader's are used."""

    client: str
    member_id: str
    generation: int
    instance_id: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    client: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """``members`` has (member id, instance id) of all members to remove, whoever asks. An empty member id
    means the member with the instance id."""

    client: str
    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    client: str


Request = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | DescribeGroup


@dataclass(frozen=True, slots=True)
class Joined:
    """``members`` has (member id, instance id, metadata) of all, in the leader's answer only.

    ``skip_assignment`` means that a static member was replaced in place and leads a round that continues: it
    gets the members, and its assignments are not used. With an error only ``member_id`` has a meaning.
    """

    error: Error
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    leader: str = ""
    protocol: str | None = None
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    error: Error
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Heartbeaten:
    error: Error


@dataclass(frozen=True, slots=True)
class Left:
    """``members`` has (member id, instance id, error) for each named one, in that order."""

    error: Error
    members: tuple[tuple[str, str | None, Error], ...] = ()


@dataclass(frozen=True, slots=True)
class Described:
    """Without a group, ``group`` has the state DEAD and the error is GROUP_ID_NOT_FOUND."""

    error: Error
    group: DescribedGroup


Answer = Joined | Synced | Heartbeaten | Left | Described
