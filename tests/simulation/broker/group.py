"""A classic group's members and what follows from them: leader, protocol, who is awaited."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cooperator.group import GroupState
from tests.simulation.broker.messages import Error, JoinGroup

Choose = Callable[[Sequence[str]], str]
"""Picks where Kafka's order is arbitrary (a hash map's); gets the candidates, the oldest first."""


@dataclass
class Parked:
    """A request that waits. ``request_id`` is None once its connection is gone; it still counts."""

    request_id: int | None
    client: str


@dataclass
class Member:
    """``join`` and ``sync`` are its waiting requests. ``new``: its first round is not complete."""

    member_id: str
    instance_id: str | None
    client_id: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: bytes = b""
    join: Parked | None = None
    sync: Parked | None = None
    new: bool = False

    @property
    def parked(self) -> tuple[Parked, ...]:
        return tuple(parked for parked in (self.join, self.sync) if parked is not None)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def offers(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)

    def update(self, said: "JoinGroup | Member") -> None:
        self.protocols = said.protocols
        self.session_timeout_ms = said.session_timeout_ms
        self.rebalance_timeout_ms = said.rebalance_timeout_ms


@dataclass
class Group:
    """``pending`` are ids that were given out and have not been joined with (KIP-394).

    ``initial`` says that the round in preparation began in an empty group, so that time ends it and not
    members. ``leader`` is also set between rounds; it is None exactly if there are no members.
    """

    choose: Choose
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    protocol_type: str = ""
    """Empty until there has been a member."""
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    not_synced: set[str] = field(default_factory=set)
    """Ids of the last completed round without a SyncGroup. A replaced static member is missed by its old
    id."""
    initial: bool = False
    newcomers: bool = False
    """Members have come since the delay of an initial round was last set; this survives the round."""
    extension_left_ms: int = 0
    """By how much the delay of the initial round may still grow."""

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and all(member.join is not None for member in self.members.values())

    def static_member(self, instance_id: str) -> Member | None:
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def accepts(self, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether every member offers one of them. The asking member counts with its earlier protocols."""
        if self.state is GroupState.EMPTY:
            return bool(protocols)
        return any(all(m.offers(name) for m in self.members.values()) for name, _ in protocols)

    def refusal(self, member_id: str, instance_id: str | None) -> Error:
        """The error for a request in the name of this member; NONE if it is this member."""
        if instance_id is not None:
            static = self.static_member(instance_id)
            if static is None:
                return Error.UNKNOWN_MEMBER_ID
            if static.member_id != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        self.pending.discard(member.member_id)
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. A leader is succeeded at once by any other member."""
        self.pending.discard(member_id)
        self.not_synced.discard(member_id)
        self.members.pop(member_id, None)
        if self.leader == member_id:
            self.leader = self.choose(list(self.members)) if self.members else None

    def replace(self, old: Member, member_id: str) -> Member:
        """The same static member under a new id: it keeps lead and assignment, but no waiting request."""
        del self.members[old.member_id]
        new = Member(
            member_id,
            old.instance_id,
            old.client_id,
            old.protocols,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.assignment,
        )
        self.members[member_id] = new
        if self.leader == old.member_id:
            self.leader = member_id
        return new

    def elect_among_joined(self) -> bool:
        """The leader keeps the lead if it has joined; else a joined member gets it. False if none has
        joined."""
        if self.leader is not None and self.members[self.leader].join is None:
            joined = [member.member_id for member in self.members.values() if member.join is not None]
            if not joined:
                return False
            self.leader = self.choose(joined)
        return self.leader is not None

    def vote(self) -> str:
        """Every member votes for the first of its protocols that all offer; the most votes win."""
        votes = Counter(
            next(name for name, _ in member.protocols if self._all_offer(name))
            for member in self.members.values()
        )
        most = max(votes.values())
        tied = [protocol for protocol, count in votes.items() if count == most]
        return tied[0] if len(tied) == 1 else self.choose(tied)

    def _all_offer(self, protocol: str) -> bool:
        return all(member.offers(protocol) for member in self.members.values())
