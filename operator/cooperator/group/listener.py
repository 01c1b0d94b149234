"""What a membership tells, and what it asks for."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member of a round, as the leader is told of it.

    ``metadata``: its bytes for the protocol of the round. ``client_id``: as far as its member id tells;
    empty for static members, whose ids begin with their ``group_instance_id``.
    """

    member_id: str
    group_instance_id: str | None
    metadata: bytes = field(repr=False)
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """A round that this member leads. ``leader_id``: its own member id. ``members`` includes itself."""

    generation: int
    protocol: str
    leader_id: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """A completed round. ``assignment``: this member's bytes; empty when the leader gave none."""

    generation: int
    member_id: str
    protocol: str
    assignment: bytes = field(repr=False)


class GroupState(StrEnum):
    """The states of a classic group, by the broker's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """The group does not exist."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as the broker describes it. ``metadata`` is empty unless the group is stable: the broker
    tells it in no other state. ``assignment`` is the last one, also while the next round is prepared."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = field(default=b"", repr=False)
    assignment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as its coordinator sees it. ``protocol_type``: ``connect``, or of whoever uses the group."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class Listener(Protocol):
    """Called on the membership's own thread, one call at a time: every method must return at once.

    A call that takes longer than 50 ms is warned of, since heartbeats wait behind it. An exception is
    logged and told as trouble; it does not end the membership.
    """

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Names and metadata of the sub-protocols, the preferred one first; asked for at every JoinGroup.

        A follower whose bytes are those of its last JoinGroup is answered with the round as it is: to make
        a round, change them.
        """
        ...

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        """The assignments of a round that this member leads, by member id. The future may be resolved by any
        thread; heartbeats go on until then. It is resolved in vain when ``round_void`` was told."""
        ...

    def round_void(self, generation: int) -> None:
        """The round that was planned has ended before its assignments are known to have been delivered.
        Members will say in the next round what they run."""
        ...

    def joined(self, joined: Joined) -> None:
        """A round is complete: the answer to SyncGroup, of the leader as well."""
        ...

    def dropped(self, reason: str) -> None:
        """The broker no longer knows this member (evicted, or its session ran out). For information:
        the membership rejoins by itself, and what the member runs goes on under its lease."""
        ...

    def fenced(self) -> None:
        """Another process has joined under the same ``group_instance_id``. The membership has stopped: stop
        writing and evicting."""
        ...

    def contact(self, sent_at: float) -> None:
        """A request that was sent at ``sent_at`` (time.monotonic(), seconds) was answered to a member."""
        ...

    def coordinator_lost(self) -> None:
        """The group's coordinator is not reachable or has moved; it is looked for until it is found."""
        ...

    def trouble(self, message: str) -> None:
        """Something a human should know; it is retried. The same text comes at most every 10 s."""
        ...

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        """Whether the lead may be taken from ``members`` (without the caller's own). True, or False, or the
        reason why not. Asked before anybody is evicted, and again when others have come in the meantime; the
        metadata of those, and of all when the group would not become stable, is empty. Leader role only."""
        ...

    def refused(self, reason: str) -> None:
        """``may_take_lead`` said no: this member has not joined, or has left again. It asks again later."""
        ...

    def lead_taken(self, evicted: Sequence[str]) -> None:
        """This member leads; told before the first ``plan``. ``evicted``: ids of the members removed for it,
        which are running what they ran and will be back. Leader role only."""
        ...

    def lead_lost(self) -> None:
        """Another member leads, or the broker has dropped this one; it tries again. Leader role only."""
        ...
