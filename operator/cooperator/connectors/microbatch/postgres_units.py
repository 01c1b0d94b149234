"""The units of one attempt, claimed in the target database."""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence

from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.letters import KeptLetters
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, UnitState
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.postgres import Database
from cooperator.model import Epoch


class PostgresUnits:
    """``UnitOwnership`` by rows of a table; see ``postgres_positions``. It is for one thread.

    ``epoch`` None: no leader orders attempts, and this one is newer than all before it. ``deliver`` writes
    the letters of a unit that were committed with its position, unless that was done already.
    """

    def __init__(
        self,
        database: Database,
        positions: PostgresPositions,
        units: Mapping[Partition, str],
        epoch: Epoch | None,
        attempt: int,
        owner: str,
        deliver: Callable[[str, str], None] = lambda unit, letters: None,
    ) -> None:
        self._database = database
        self._positions = positions
        self._units = units
        self._made: Claim | None = None
        self._epoch, self._attempt, self._owner = epoch, attempt, owner
        self._deliver = deliver
        self._states: dict[str, UnitState] = {}

    def claim(self) -> Owned:
        self._database.run(self._positions.create)
        units, session = sorted(self._units.values()), _session()
        found = self._database.run(
            lambda connection: self._positions.claim(connection, units, self._claim_of, session)
        )
        return self._owned(found, session)

    def recover(self) -> Owned:
        units, session, claim = sorted(self._units.values()), _session(), self.claimed
        found = self._database.run(
            lambda connection: self._positions.renew(connection, units, claim, session)
        )
        return self._owned(found, session)

    @property
    def claimed(self) -> Claim:
        """The claim of this attempt, once it was made."""
        assert self._made is not None, "claim() comes first"
        return self._made

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(self._units[partition], json.dumps([stand.next, stand.topic_id]))

    def line(self, unit: str) -> str:
        """Returns the line that the unit is on."""
        return self._states[unit].line

    def moves(self, ranges: Sequence[OffsetRange], records: Mapping[Partition, PositionRecord]) -> list[Move]:
        """Returns the moves of a batch, in the order of their units."""
        found = []
        for each in ranges:
            unit = self._units[each.partition]
            _, topic_id = json.loads(records[each.partition].value)
            jump = "" if each.size else _session()
            letters = KeptLetters(self.line(unit), each.end, each.left_out).encode()
            found.append(Move(unit, self.line(unit), each.start, each.end, topic_id, jump, letters))
        return sorted(found, key=lambda move: move.unit)

    def moved(self, moves: list[Move]) -> None:
        """Notes that these moves were committed, and writes their letters."""
        for move in moves:
            state = self._states[move.unit]
            self._states[move.unit] = state._replace(next=move.end, line=move.line_after)
        for move in moves:
            if move.letters:
                self._deliver(move.unit, move.letters)

    def _claim_of(self, newest: Claim | None) -> Claim:
        if self._made is None:
            epoch, attempt = self._epoch, self._attempt
            if epoch is None:
                epoch, attempt = (newest.epoch, newest.attempt + 1) if newest else (Epoch(0, 0), 1)
            self._made = Claim.of(epoch, attempt, self._owner)
        return self._made

    def _owned(self, found: Mapping[str, UnitState], session: str) -> Owned:
        self._states = dict(found)
        for unit, state in found.items():
            if state.letters:
                # An earlier session may have ended between its commit and its letters.
                self._deliver(unit, state.letters)
        stands = {
            partition: Stand(state.next, state.topic_id)
            for partition, unit in self._units.items()
            if (state := found[unit]).next is not None
        }
        return Owned(stands, session)


class UnitNote:
    """The memory of a unit's converters, in its row (see ``connectors.memory``)."""

    def __init__(self, database: Database, positions: PostgresPositions, unit: str) -> None:
        self._database = database
        self._positions = positions
        self._unit = unit

    def read(self) -> bytes | None:
        return self._database.run(lambda connection: self._positions.note(connection, self._unit))

    def write(self, content: bytes) -> None:
        self._database.run(lambda connection: self._positions.set_note(connection, self._unit, content))


def _session() -> str:
    return uuid.uuid4().hex
