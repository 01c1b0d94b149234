"""A member's report when it joins: metadata v0, v1, v2 (docs/protocol.md, section 7)."""

import math
import re
import struct
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from cooperator.model import Epoch, Member, TaskId, Warmth
from cooperator.wire import primitives
from cooperator.wire.assignment import (
    ExtendedAssignment,
    KnownHead,
    decode_assignment,
    encode_assignment,
)
from cooperator.wire.items import KnownItems, read_items, write_items
from cooperator.wire.primitives import ByteReader, DecodeError, EncodeError
from cooperator.wire.protocol import Protocol, check_version
from cooperator.wire.trailer import read_trailer, write_trailer

_MAGIC: Final = b"CoRe"
_TRAILER_VERSION: Final = 1
_EMPTY: Final = bytes(4)
_NO_ALLOCATION: Final = primitives.nullable_bytes(None, "metadata.allocation")
"""Separates metadata v0 from a trailer: stock workers read v0 as v1 and take what follows for its fields."""
_NONE: Final[frozenset[TaskId]] = frozenset()
_EPOCH: Final = struct.Struct(">qi")
_USUAL: Final = struct.Struct(">ibbqid")
_USUAL_FLAGS: Final = (0, 0, 1)
"""Nothing is stopping, the member does not drain and has applied an epoch; and its capacity."""


class Role(StrEnum):
    """The role of one of our members in the group."""

    WORKER = "worker"
    LEADER = "leader"
    """Leads and takes no tasks."""


_ROLE_CODES: Final = MappingProxyType({Role.WORKER: 0, Role.LEADER: 1})
_ROLES: Final = MappingProxyType({code: role for role, code in _ROLE_CODES.items()})
_WARMTH_CODES: Final = MappingProxyType({Warmth.WARM: 0, Warmth.WARMING: 1, Warmth.STALLED: 2})
_WARM: Final = bytes(1)
_WARMTHS: Final = MappingProxyType({code: warmth for warmth, code in _WARMTH_CODES.items()})


class AgentReport(NamedTuple):
    """The part of a member's report that only our own members send, in the metadata's trailing bytes.

    * ``identity``: the pod's name; ``incarnation``: one incarnation of it.
    * ``stopping``: revoked tasks that have not stopped yet.
    * ``draining``: the member announces its departure.
    * ``applied``: epoch of the last assignment applied.
    * ``nonce``: without meaning; a member changes it when the broker must see different bytes, since an
      unchanged rejoin does not trigger a rebalance.
    * ``warmth``: the warmth of its runtime.
    * ``learns``: it can learn the state of tasks that others run.
    * ``reconciles``: the member offers the sub-protocol ``reconciled``, too.
    """

    role: Role
    identity: str
    incarnation: str
    stopping: frozenset[TaskId] = frozenset()
    draining: bool = False
    applied: Epoch | None = None
    capacity: float = 1.0
    zone: str = ""
    nonce: int = 0
    warmth: Warmth = Warmth.WARM
    learns: bool = False
    reconciles: bool = False

    def with_applied(self, applied: Epoch) -> "AgentReport":
        """As ``_replace``, which takes several times as long."""
        return AgentReport(*self[:5], applied, *self[6:])  # type: ignore[arg-type]


class Metadata(NamedTuple):
    """A member's metadata.

    * ``allocation``: all that it runs, as a complete assignment; None: nothing yet.
    * ``config_offset``: position after the last config record it has read, -1 for none.
    * ``names_tasks``: False under ``reconciled``, whose members report their tasks between rounds.

    v0 carries no allocation: eager members run nothing when they join.
    """

    url: str
    config_offset: int
    allocation: ExtendedAssignment | None = None
    agent: AgentReport | None = None
    names_tasks: bool = True


def encode_metadata(metadata: Metadata, protocol: Protocol) -> bytes:
    """The bytes that a stock worker would send, and our trailer when there is a report.

    Under ``reconciled`` all tasks are left out. Raises EncodeError.
    """
    if protocol is Protocol.RECONCILED:
        agent = None if metadata.agent is None else metadata.agent._replace(stopping=_NONE)
        metadata = metadata._replace(allocation=None, agent=agent)
    parts = [
        primitives.int16(protocol.version, "metadata.version"),
        primitives.string(metadata.url, "metadata.url"),
        primitives.int64(metadata.config_offset, "metadata.config_offset"),
    ]
    if protocol is not Protocol.DEFAULT:
        allocation = metadata.allocation
        encoded = None if allocation is None else encode_assignment(allocation, protocol)
        parts.append(primitives.nullable_bytes(encoded, "metadata.allocation"))
    elif metadata.agent is not None:
        parts.append(_NO_ALLOCATION)
    if metadata.agent is not None:
        parts.append(_write_report(metadata.agent))
    return b"".join(parts)


class KnownMetadata:
    """One member's metadata as they were read last, for a caller that reads them every round."""

    __slots__ = ("_after", "_before", "_report", "items")

    def __init__(self) -> None:
        self.items = KnownItems()
        self._report: AgentReport | None = None
        self._before, self._after = b"", b""

    def read_report(self, reader: ByteReader) -> AgentReport | None:
        """The report in the trailer, if there is one; where only the epoch is new, no more is decoded."""
        last = self._report
        if last is not None and self._before:
            usual = reader.peek_between(self._before, _USUAL, self._after)
            if usual is not None and usual[:3] == _USUAL_FLAGS and usual[5] == last.capacity:
                return last.with_applied(Epoch(usual[3], usual[4]))
        start = reader.position
        payload = read_trailer(reader, _MAGIC, _TRAILER_VERSION)
        if payload is None:
            return None
        report, usual_at = _read_report(payload)
        self._report, self._before = report, b""
        if usual_at is not None and not reader.remaining:
            trailer = reader.since(start)
            self._expect(trailer, usual_at + len(trailer) - payload.size)
        return report

    def foresee(self) -> None:
        """Expect that a member that had applied nothing yet has applied an assignment, and nothing else is
        new."""
        report = self._report
        if report is None or report.applied is not None or report.stopping or report.draining:
            return
        trailer = _write_report(report.with_applied(Epoch(0, 0)))
        payload = read_trailer(ByteReader(trailer), _MAGIC, _TRAILER_VERSION)
        _, usual_at = _read_report(payload) if payload is not None else (report, None)
        if usual_at is not None and payload is not None:
            self._expect(trailer, usual_at + len(trailer) - payload.size)

    def _expect(self, trailer: bytes, usual_at: int) -> None:
        self._before, self._after = trailer[:usual_at], trailer[usual_at + _USUAL.size :]


def decode_metadata(
    data: bytes, known: KnownMetadata | None = None, head: KnownHead | None = None
) -> Metadata:
    """Decode metadata of any version; trailing bytes that are not ours are ignored. Raises DecodeError.

    An item that the allocation lists twice counts once. ``known``: for a caller that decodes one member's
    metadata every round; ``head``: for one that decodes many of one round.
    """
    known = known or KnownMetadata()
    reader = ByteReader(data)
    version = check_version(reader.int16("metadata.version"), "metadata.version")
    url = reader.string("metadata.url")
    config_offset = reader.int64("metadata.config_offset")
    allocation: ExtendedAssignment | None = None
    if version > 0 and reader.remaining:
        encoded = reader.nullable_bytes("metadata.allocation")
        if encoded is not None:
            allocation = decode_assignment(encoded, known.items, head)
    elif version == 0:
        reader.skip(_NO_ALLOCATION)
    names_tasks = version < Protocol.RECONCILED.version
    return Metadata(url, config_offset, allocation, known.read_report(reader), names_tasks)


def _write_report(report: AgentReport) -> bytes:
    if not math.isfinite(report.capacity):
        raise EncodeError(f"agent.capacity: {report.capacity} is not finite")
    applied = report.applied
    parts = [
        primitives.int8(_ROLE_CODES[report.role], "agent.role"),
        primitives.string(report.identity, "agent.identity"),
        primitives.string(report.incarnation, "agent.incarnation"),
        write_items(sorted(report.stopping), "agent.stopping"),
        primitives.boolean(report.draining),
        primitives.boolean(applied is not None),
    ]
    if applied is not None:
        parts.append(primitives.int64(applied.term, "agent.applied.term"))
        parts.append(primitives.int32(applied.generation, "agent.applied.generation"))
    parts.append(primitives.float64(report.capacity, "agent.capacity"))
    parts.append(primitives.string(report.zone, "agent.zone"))
    parts.append(primitives.int64(report.nonce, "agent.nonce"))
    parts.append(primitives.int8(_WARMTH_CODES[report.warmth], "agent.warmth"))
    parts.append(primitives.boolean(report.learns))
    parts.append(primitives.boolean(report.reconciles))
    return write_trailer(_MAGIC, _TRAILER_VERSION, b"".join(parts))


def _read_report(payload: ByteReader) -> tuple[AgentReport, int | None]:
    """Returns also the position of ``_USUAL``, if that is what the payload contains."""
    # A member with an unknown role of a later release gets no work.
    role = _ROLES.get(payload.int8("agent.role"), Role.LEADER)
    identity = payload.string("agent.identity")
    incarnation = payload.string("agent.incarnation")
    usual, usual_at = payload.peek(_USUAL), None
    if usual is not None and usual[:3] == _USUAL_FLAGS:
        usual_at = payload.position
        payload.raw(_USUAL.size, "agent")
        stopping, draining, applied, capacity = _NONE, False, Epoch(usual[3], usual[4]), usual[5]
    else:
        stopping = _NONE if payload.skip(_EMPTY) else frozenset(read_items(payload, "agent.stopping"))
        draining = payload.boolean("agent.draining")
        applied = None
        if payload.boolean("agent.applied"):
            applied = Epoch(*payload.unpack(_EPOCH, "agent.applied"))
        capacity = payload.float64("agent.capacity")
    if not math.isfinite(capacity):
        raise DecodeError(f"agent.capacity: {capacity} is not finite")
    zone = payload.string("agent.zone")
    nonce = payload.int64("agent.nonce")
    # Members of the first release do not send it; of the others nearly all are warm most of the time.
    is_warm = payload.skip(_WARM) or not payload.remaining
    warmth = Warmth.WARM if is_warm else _read_warmth(payload)
    # Members of earlier releases do not send it.
    learns = bool(payload.remaining) and payload.int8("agent.learns") == 1
    reconciles = bool(payload.remaining) and payload.int8("agent.reconciles") == 1
    report = AgentReport(
        role,
        identity,
        incarnation,
        stopping,
        draining,
        applied,
        capacity,
        zone,
        nonce,
        warmth,
        learns,
        reconciles,
    )
    return report, usual_at


def _read_warmth(payload: ByteReader) -> Warmth:
    # The planner revokes nothing for a stalled member, and does not wait for it.
    return _WARMTHS.get(payload.int8("agent.warmth"), Warmth.STALLED)


_UUID_SUFFIX: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def member_of(member_id: str, client_id: str, metadata: Metadata) -> Member:
    """The planner's view of a member.

    Of a stock worker only the ids are known: its identity is its client id, else its member id without the
    broker's UUID, and each member id is an incarnation of its own. Two stock workers may have the same client
    id: see ``leader.identities``.
    """
    allocation = metadata.allocation
    owned = () if allocation is None else allocation.assigned
    agent = metadata.agent
    if agent is not None and agent.stopping:
        # A stopping task occupies its slot, whatever the allocation says.
        owned = tuple(dict.fromkeys((*owned, *sorted(agent.stopping))))
    if agent is None:
        return Member(
            member_id=member_id,
            identity=client_id or _UUID_SUFFIX.sub("", member_id),
            incarnation=member_id,
            owned=owned,
            is_agent=False,
            url=metadata.url,
        )
    return Member(
        member_id=member_id,
        identity=agent.identity,
        incarnation=agent.incarnation,
        owned=owned,
        stopping=agent.stopping,
        draining=agent.draining,
        applied=agent.applied,
        capacity=agent.capacity,
        zone=agent.zone,
        warmth=agent.warmth,
        url=metadata.url,
        learns=agent.learns,
        reconciles=agent.reconciles,
    )
