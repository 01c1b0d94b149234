"""The group record that the coordinator writes to its log, and its size."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.broker.group import Group, Member


@dataclass(frozen=True, slots=True)
class StoredMember:
    """``metadata`` is for the round's protocol alone; the member's other offers are not stored."""

    member_id: str
    instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes
    assignment: bytes

    @property
    def size_bytes(self) -> int:
        texts = (self.member_id, self.instance_id or "", self.client_id, CLIENT_HOST)
        return sum(2 + len(text.encode()) for text in texts) + 16 + len(self.metadata) + len(self.assignment)


CLIENT_HOST = "/127.0.0.1"
_BATCH_BYTES = 76 + 10
"""Around the record's value, with a ten-letter group name; records below 8 KB need up to two bytes less."""


@dataclass(frozen=True, slots=True)
class Record:
    """A group as a coordinator loads it. Without members it is empty."""

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]

    @property
    def size_bytes(self) -> int:
        texts = (self.protocol_type, self.protocol or "", self.leader or "")
        group = 18 + sum(2 + len(text.encode()) for text in texts)
        return _BATCH_BYTES + group + sum(member.size_bytes for member in self.members)


def record_of(group: Group, assignments: Mapping[str, bytes]) -> Record:
    """``assignments`` are by member id; empty bytes mean none."""
    members = []
    for member in group.members.values():
        assert group.protocol is not None, "a group with members is stored after a round"
        members.append(
            StoredMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                assignments.get(member.member_id, b""),
            )
        )
    return Record(group.generation, group.protocol_type, group.protocol, group.leader, tuple(members))


def loaded_member(stored: StoredMember, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        ((protocol, stored.metadata),),
        stored.session_timeout_ms,
        stored.rebalance_timeout_ms,
        stored.assignment,
    )
