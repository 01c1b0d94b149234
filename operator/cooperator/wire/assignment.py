"""The leader's assignment for one member in a round: assignment v0, v1, v2 (docs/protocol.md, section 7)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from cooperator.model import Epoch, TaskId
from cooperator.model.java import KnownNames
from cooperator.wire import primitives
from cooperator.wire.items import ItemsWriter, KnownItems, read_items
from cooperator.wire.primitives import ByteReader, EncodeError
from cooperator.wire.protocol import Protocol, check_version
from cooperator.wire.trailer import read_trailer, write_trailer

NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader's config offset is behind a member's: read the config log to its end and rejoin."""

_MAGIC: Final = b"CoSh"
_TRAILER_VERSION: Final = 1
_NOTHING_MORE: Final = bytes(8)
"""Nothing revoked, no delay, and no trailer."""


class AgentAssignment(NamedTuple):
    """The part of an assignment that only our agents read.

    * ``epoch``: when the assignment was decided.
    * ``lease_ms``: the member may run its tasks this long after it sent the last request that was answered.
    * ``events``: ids of the causes, for log lines; empty when they are not known.
    * ``stops_before_join``: the member stops all its tasks before it joins the next round (policy Eager).
    """

    epoch: Epoch
    lease_ms: int
    events: str = ""
    stops_before_join: bool = False


class ExtendedAssignment(NamedTuple):
    """One member's outcome of a round. Incremental: tasks in neither list go on running (KIP-415).

    * ``error``: NO_ERROR or CONFIG_MISMATCH.
    * ``leader``: a member id; ``leader_url``: where requests go.
    * ``config_offset``: position after the last config record; members start new items only when their own is
      the same.
    * ``delay_ms``: when to rejoin; 0: do not.

    v0 has neither ``revoked`` nor ``delay_ms``.
    """

    error: int
    leader: str
    leader_url: str
    config_offset: int
    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    delay_ms: int = 0
    agent: AgentAssignment | None = None


def encode_assignment(assignment: ExtendedAssignment, protocol: Protocol) -> bytes:
    """The bytes that Kafka's own leader would send, and our trailer when there is an agent assignment.

    The order of ``assigned`` is kept inside a connector; instances come first. Under v0 ``revoked`` and
    ``delay_ms`` are not sent; under ``reconciled`` there must be no items. Raises EncodeError.
    """
    return AssignmentEncoder(assignment, protocol).encode(assignment.assigned, assignment.revoked)


class AssignmentEncoder:
    """Encodes assignments of one round, which differ only in their items. Raises EncodeError."""

    __slots__ = ("_head", "_incremental", "_items", "_names_tasks", "_tail")

    def __init__(
        self, common: ExtendedAssignment, protocol: Protocol, names: KnownNames | None = None
    ) -> None:
        """``names``: those of connectors that are known already."""
        self._incremental = protocol is not Protocol.DEFAULT
        self._names_tasks = protocol is not Protocol.RECONCILED
        self._items = ItemsWriter(names)
        self._head = b"".join(
            (
                primitives.int16(protocol.version, "assignment.version"),
                primitives.int16(common.error, "assignment.error"),
                primitives.string(common.leader, "assignment.leader"),
                primitives.string(common.leader_url, "assignment.leader_url"),
                primitives.int64(common.config_offset, "assignment.config_offset"),
            )
        )
        delay = primitives.int32(common.delay_ms, "assignment.delay_ms") if self._incremental else b""
        if not self._incremental and common.agent is not None:
            delay = _NOTHING_MORE  # Stock workers read v0 as v1 and would take the trailer for its fields.
        self._tail = delay + (_write_agent_assignment(common.agent) if common.agent is not None else b"")

    def encode(self, assigned: Sequence[TaskId], revoked: Sequence[TaskId]) -> bytes:
        """As ``encode_assignment`` of the common assignment with these items."""
        if (assigned or revoked) and not self._names_tasks:
            raise EncodeError("assignment.assigned: a round under reconciled assigns nothing: leave it empty")
        return self.encode_written(self.write(assigned), revoked)

    def write(self, assigned: Sequence[TaskId]) -> bytes:
        """Encode the assigned items; also the allocation of a member that runs nothing else."""
        return self._items.write_hashed(assigned, "assignment.assigned")

    def encode_written(self, new: bytes, revoked: Sequence[TaskId]) -> bytes:
        """As ``encode``, with the result of ``write``."""
        gone = b""
        if self._incremental:
            gone = self._items.write(revoked, "assignment.revoked")
        return b"".join((self._head, new, gone, self._tail))


class KnownHead:
    """The fields before the items as they were read last: the allocations of a round's members share them."""

    __slots__ = ("_bytes", "_fields")

    def __init__(self) -> None:
        self._bytes, self._fields = b"", (0, 0, "", "", 0)

    def read(self, reader: ByteReader) -> tuple[int, int, str, str, int]:
        """Version, error, leader, leader_url, config_offset. Raises DecodeError."""
        if not self._bytes or not reader.skip(self._bytes):
            start = reader.position
            self._fields = (
                check_version(reader.int16("assignment.version"), "assignment.version"),
                reader.int16("assignment.error"),
                reader.string("assignment.leader"),
                reader.string("assignment.leader_url"),
                reader.int64("assignment.config_offset"),
            )
            self._bytes = reader.since(start)
        return self._fields


def decode_assignment(
    data: bytes, known: KnownItems | None = None, head: KnownHead | None = None
) -> ExtendedAssignment:
    """Decode an assignment of any version; the items keep the order of the bytes. Raises DecodeError.

    From v1 on missing trailing fields have defaults, as in Java. ``known``: reads the assigned items, for a
    caller that decodes nearly the same items repeatedly; ``head``: for one that decodes many of one round.
    """
    reader = ByteReader(data)
    version, error, leader, leader_url, config_offset = (head or KnownHead()).read(reader)
    revoked: tuple[TaskId, ...] = ()
    delay_ms = 0
    if version == 0:
        assigned = read_items(reader, "assignment.assigned", nullable=False)
        reader.skip(_NOTHING_MORE)
    else:
        read_assigned = read_items if known is None else known.read
        assigned = read_assigned(reader, "assignment.assigned") if reader.remaining else ()
        if reader.ends_with(_NOTHING_MORE):
            # All members report it in this form, and a leader reads one of each.
            return ExtendedAssignment(error, leader, leader_url, config_offset, assigned)
        revoked = read_items(reader, "assignment.revoked") if reader.remaining else ()
        delay_ms = reader.int32("assignment.delay_ms") if reader.remaining else 0
    return ExtendedAssignment(
        error, leader, leader_url, config_offset, assigned, revoked, delay_ms, _read_agent_assignment(reader)
    )


def _write_agent_assignment(assignment: AgentAssignment) -> bytes:
    payload = (
        primitives.int64(assignment.epoch.term, "agent.epoch.term")
        + primitives.int32(assignment.epoch.generation, "agent.epoch.generation")
        + primitives.int64(assignment.lease_ms, "agent.lease_ms")
        + primitives.string(assignment.events, "agent.events")
        + primitives.boolean(assignment.stops_before_join)
    )
    return write_trailer(_MAGIC, _TRAILER_VERSION, payload)


def _read_agent_assignment(reader: ByteReader) -> AgentAssignment | None:
    payload = read_trailer(reader, _MAGIC, _TRAILER_VERSION)
    if payload is None:
        return None
    epoch = Epoch(payload.int64("agent.epoch.term"), payload.int32("agent.epoch.generation"))
    lease_ms = payload.int64("agent.lease_ms")
    # Leaders of earlier releases do not send these.
    events = payload.string("agent.events") if payload.remaining else ""
    stops_before_join = bool(payload.remaining) and payload.boolean("agent.stops_before_join")
    return AgentAssignment(epoch, lease_ms, events, stops_before_join)
