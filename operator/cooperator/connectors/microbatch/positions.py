"""The contents of the topic of positions, folded from its records."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cooperator.connectors.microbatch.claims import (
    Claim,
    ClaimKey,
    NoteKey,
    Position,
    PositionKey,
    RawKey,
    TransactionalIds,
    UnitKey,
    decode_claim,
    decode_position,
    decode_slots,
    split_key,
)

Claims = Mapping[UnitKey, Mapping[Claim, TransactionalIds]]
"""The claims on each unit."""
Positions = Mapping[UnitKey, Position]
"""The position of each unit that has one."""


@dataclass(slots=True)
class Ledger:
    """The newest value of each key. Values are decoded only for the units that are asked for.

    So a record of one connector that cannot be read stops no other. Records must be applied in the order of
    their partition; those of one unit's positions, and those of all claims, are in one partition.
    """

    _positions: dict[UnitKey, bytes] = field(default_factory=dict)
    _claims: dict[UnitKey, dict[str, bytes]] = field(default_factory=dict)
    _notes: dict[UnitKey, bytes] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a record; a value of None is a tombstone. Kinds that are not known are passed over."""
        raw = split_key(key)
        if raw is None:
            return
        if raw.claim:
            self._apply_claim(raw, value)
            return
        values = self._notes if raw.is_note else self._positions
        if value is None:
            values.pop(raw.unit, None)
        else:
            values[raw.unit] = value

    def _apply_claim(self, raw: RawKey, value: bytes | None) -> None:
        claims = self._claims.setdefault(raw.unit, {})
        if value is not None:
            claims[raw.claim] = value
            return
        claims.pop(raw.claim, None)
        if not claims:
            del self._claims[raw.unit]

    def units(self, connector: str) -> frozenset[UnitKey]:
        """Returns the units of a connector that have a position or a claim."""
        return frozenset(
            unit for known in (self._positions, self._claims) for unit in known if unit.connector == connector
        )

    def note(self, key: NoteKey) -> bytes | None:
        """Returns the value of a note; None: there is none."""
        return self._notes.get(UnitKey(key.connector, key.name))

    def notes(self, connector: str) -> frozenset[NoteKey]:
        """Returns the keys of a connector's notes."""
        return frozenset(NoteKey(*key) for key in self._notes if key.connector == connector)

    def claims(self, units: Collection[UnitKey]) -> dict[UnitKey, dict[Claim, TransactionalIds]]:
        """Returns the claims on each of the units. Raises UnreadableRecord."""
        return {unit: self._claims_on(unit) for unit in units}

    def _claims_on(self, unit: UnitKey) -> dict[Claim, TransactionalIds]:
        found: dict[Claim, TransactionalIds] = {}
        for text, value in self._claims.get(unit, {}).items():
            claim = decode_claim(RawKey(unit, text))
            found[claim] = decode_slots(ClaimKey(unit, claim).encode(), value)
        return found

    def positions(self, units: Collection[UnitKey]) -> dict[UnitKey, Position]:
        """Returns the position of each of the units that has one. Raises UnreadableRecord."""
        return {
            unit: decode_position(PositionKey(unit).encode(), self._positions[unit])
            for unit in units
            if unit in self._positions
        }
