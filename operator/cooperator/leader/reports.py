"""The decoded reports of a round's members.

Unchanged bytes are not decoded again: neither whole metadata, nor, where only an offset or an epoch differs,
the allocation in them, which is then the same object for the planner, too (``planner.workspace``). Nor is an
allocation decoded that equals what the leader predicted (``expect``, ``foresee``).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cooperator.group import JoinedMember, Round
from cooperator.model import Member
from cooperator.wire import (
    DecodeError,
    KnownHead,
    KnownItems,
    KnownMetadata,
    Role,
    decode_metadata,
    member_of,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a round.

    * ``members``: workers in the order of the round.
    * ``idle_ids``: members that are not workers (an absent operator) or are unreadable; they need an empty
      assignment.
    * ``offsets``: the stock workers' config log offsets, by member id.
    """

    members: tuple[Member, ...]
    idle_ids: tuple[str, ...]
    highest_offset: int
    metadata_bytes: int
    offsets: Mapping[str, int] = field(default_factory=dict)


class _Decoded(NamedTuple):
    metadata: bytes
    member: Member | None
    offset: int
    known: KnownMetadata


class ReportReader:
    """Decodes rounds; keeps the last decoded report per member id, and predicts the next."""

    def __init__(self) -> None:
        self._known: dict[str, _Decoded] = {}
        self._changing: list[tuple[KnownItems, Member, bytes]] = []

    def read(self, round_: Round) -> Reports:
        """Never raises: a member without valid Connect metadata is idle, and a warning is logged."""
        head = KnownHead()
        self._known = {joined.member_id: self._decode(joined, head) for joined in round_.members}
        members = tuple(d.member for d in self._known.values() if d.member is not None)
        idle = tuple(member_id for member_id, d in self._known.items() if d.member is None)
        highest = max((d.offset for d in self._known.values() if d.member is not None), default=-1)
        offsets = {i: d.offset for i, d in self._known.items() if d.member and not d.member.is_agent}
        size = sum(len(decoded.metadata) for decoded in self._known.values())
        return Reports(members, idle, highest, size, offsets)

    def expect(self, members: Iterable[Member], written: Mapping[str, bytes]) -> None:
        """Expect that those ``members`` that ran nothing before report exactly their assignments next.

        ``members`` include all that they were assigned; ``written``: as in ``Answer``. If the reports match,
        nothing is decoded. The items may then be in another order: do not use this with a policy that depends
        on the order of a report.
        """
        self._changing = []
        for member in members:
            decoded, assigned = self._known.get(member.member_id), written.get(member.member_id)
            if decoded is None or assigned is None or decoded.member is None:
                continue
            if not decoded.member.owned:
                decoded.known.items.expect(member.owned, assigned)
            else:
                self._changing.append((decoded.known.items, member, assigned))

    def foresee(self) -> None:
        """Encode what members will report once they have applied their assignments and revocations.

        If they report exactly that, nothing is decoded. Encoding takes about as long as decoding, but nobody
        waits for it: the assignments are on their way.
        """
        for decoded in self._known.values():
            if decoded.member is not None and decoded.member.applied is None:
                decoded.known.foresee()
        for known, member, assigned in self._changing:
            known.foresee(member.owned, member.stopping, assigned)
        self._changing = []

    def _decode(self, joined: JoinedMember, head: KnownHead) -> _Decoded:
        known = self._known.get(joined.member_id)
        if known is not None and known.metadata == joined.metadata:
            return known
        before = KnownMetadata() if known is None else known.known
        try:
            metadata = decode_metadata(joined.metadata, before, head)
        except DecodeError as error:
            log.warning("member %s gets no work: %s", joined.member_id, error)
            return _Decoded(joined.metadata, None, -1, KnownMetadata())
        if metadata.agent is not None and metadata.agent.role is Role.LEADER:
            return _Decoded(joined.metadata, None, -1, KnownMetadata())
        member = member_of(joined.member_id, joined.client_id, metadata)
        return _Decoded(joined.metadata, member, metadata.config_offset, before)
