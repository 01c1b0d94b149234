"""The interface between a membership and its user."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member of a round, as the leader knows it.

    ``metadata``: its bytes for the protocol of the round. ``client_id``: derived from the member id; empty
    for static members, whose ids begin with their ``group_instance_id``.
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
    """A member as the broker describes it.

    ``metadata`` is empty unless the group is stable: the broker returns it in no other state. ``assignment``
    is the last one, also while the next round is being prepared.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = field(default=b"", repr=False)
    assignment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as its coordinator sees it. ``protocol_type``: ``connect``, or another client's."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class Listener(Protocol):
    """Callbacks on the membership's own thread, one at a time. Every method must return at once.

    A call that takes longer than 50 ms is logged as a warning, since heartbeats wait behind it. An exception
    is logged and reported as trouble; it does not end the membership.
    """

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Names and metadata of the sub-protocols, the preferred one first; called for every JoinGroup.

        A follower whose bytes equal those of its last JoinGroup is answered with the current round. To
        trigger a rebalance, change them.
        """
        ...

    def ready_to_join(self) -> "Future[None] | None":
        """The end of a wait before the next JoinGroup; None: no wait. Called before every JoinGroup.

        Any thread may resolve the future; heartbeats go on until then, and its result is not used. The broker
        removes a member that does not join within the rebalance time-out.
        """
        ...

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        """The assignments of a round that this member leads, by member id.

        Any thread may resolve the future; heartbeats go on until then. After ``round_void`` its result is not
        used.
        """
        ...

    def round_void(self, generation: int) -> None:
        """The planned round has ended, and its assignments may not have been delivered.

        The members will report what they run in the next round.
        """
        ...

    def joined(self, joined: Joined) -> None:
        """A round is complete: the SyncGroup response, also of the leader."""
        ...

    def dropped(self, reason: str) -> None:
        """The broker no longer knows this member: it was evicted, or its session has expired.

        For information only: the membership rejoins by itself, and running tasks continue under their lease.
        """
        ...

    def fenced(self) -> None:
        """Another process has joined under the same ``group_instance_id``.

        The membership has stopped; stop writing and evicting.
        """
        ...

    def contact(self, sent_at: float) -> None:
        """The broker answered, to a member, a request sent at ``sent_at`` (time.monotonic(), seconds)."""
        ...

    def coordinator_lost(self) -> None:
        """The group's coordinator is unreachable or has moved; the search continues until it is found."""
        ...

    def trouble(self, message: str) -> None:
        """A problem that a human should know of; it is retried. The same text comes at most every 10 s."""
        ...

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        """Whether the lead may be taken from ``members`` (without the caller's own): True, False or why not.

        Called before any eviction, and again when other members have joined in the meantime. The metadata of
        the latter is empty, and that of all members if the group did not become stable. Leader role only.
        """
        ...

    def refused(self, reason: str) -> None:
        """``may_take_lead`` refused, so this member has not joined, or has left again. It will ask again."""
        ...

    def lead_taken(self, evicted: Sequence[str]) -> None:
        """This member leads. Called before the first ``plan``; leader role only.

        ``evicted``: ids of the members removed for it, which run on and will rejoin.
        """
        ...

    def lead_lost(self) -> None:
        """Another member leads, or the broker has dropped this one; it tries again. Leader role only."""
        ...
