"""A group as a broker stores it: the metadata of its members, and the size of the whole record.

The size is that of the simulated broker's record, which is compared with a real broker's
(``tests/simulation/test_broker_is_true.py``).
"""

from collections.abc import Iterable, Mapping

from cooperator.model import Member
from cooperator.wire import AgentReport, ExtendedAssignment, Metadata, Protocol, Role, encode_metadata
from tests.simulation.broker.record import Record, StoredMember

LEADER_URL = "http://leader/"


def metadata_of(member: Member, protocol: Protocol = Protocol.SESSIONED, offset: int = 7) -> bytes:
    """The metadata with which ``member`` joins."""
    allocation = None
    if member.owned or member.applied is not None:
        leader = "" if member.is_agent else "leader-1"
        allocation = ExtendedAssignment(0, leader, LEADER_URL, offset, assigned=member.owned)
    agent = AgentReport(
        Role.WORKER,
        member.identity,
        member.incarnation,
        stopping=member.stopping,
        draining=member.draining,
        applied=member.applied,
        warmth=member.warmth,
    )
    metadata = Metadata(
        member.url or f"http://{member.identity}:8083/",
        offset,
        allocation,
        agent if member.is_agent else None,
    )
    return encode_metadata(metadata, protocol)


def metadata_bytes(members: Iterable[Member], protocol: Protocol = Protocol.SESSIONED) -> int:
    return sum(len(metadata_of(member, protocol)) for member in members)


def record_bytes(
    members: Iterable[Member],
    assignments: Mapping[str, bytes],
    idle_ids: Iterable[str] = ("leader-1",),
    protocol: Protocol = Protocol.SESSIONED,
) -> int:
    """The size of the group's record with ``assignments``."""
    stored = [
        *((member.member_id, member.identity, metadata_of(member, protocol)) for member in members),
        *((member_id, member_id, b"") for member_id in idle_ids),
    ]
    return Record(
        1,
        "connect",
        protocol.value,
        "leader-1",
        tuple(
            StoredMember(member_id, None, client_id, 60_000, 60_000, data, assignments.get(member_id, b""))
            for member_id, client_id, data in stored
        ),
    ).size_bytes
