"""Offsets of connectors whose positions are in PostgreSQL (see ``microbatch.postgres_positions``).

A change is one transaction, after which no attempt that runs has its claim: its later transactions are
refused, and it stops. Newer attempts begin at the new positions.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from cooperator.connectors import fence
from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import CheckpointBehind, Marker
from cooperator.connectors.kafka_offsets import KafkaOffsets, offset_of
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.microbatch.postgres_positions import PostgresPositions
from cooperator.connectors.microbatch.ranges import end_of
from cooperator.connectors.microbatch.task import MIGRATED
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, changes
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import About, UnitPlace
from cooperator.connectors.offsets.unit_log import query_of, reached
from cooperator.connectors.places import put
from cooperator.connectors.postgres import Database, identifier
from cooperator.connectors.postgres_table import describe_table
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.connectors.stored_offsets import StoredOffsets, listed
from cooperator.connectors.units import read_layout

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

_LIMIT_S: Final = 30.0
_LOOK_S: Final = 5.0
_OWNER: Final = "offsets"


def positions_of(options: KafkaToPostgresOptions, group_id: str, connector: str) -> PostgresPositions:
    """Returns the positions of a connector, in the table that its options name."""
    return PostgresPositions(options.positions_table, group_id, connector)


def stored_ends(
    options: KafkaToPostgresOptions, group_id: str, connector: str, units: Sequence[str]
) -> Mapping[str, str]:
    """Returns where units stand, as JSON; empty for those without a position. Raises ``OffsetsError``."""
    with _Table(options, group_id, connector, _LOOK_S) as table:
        found = table.positioned()
        return {unit: end_of(unit, found.get(unit)) for unit in units}


class PostgresPositionOffsets(StoredOffsets[KafkaToPostgresOptions]):
    place: ClassVar[str] = "in PostgreSQL"

    def opened(self, options: KafkaToPostgresOptions, about: About) -> "_Table":
        return _Table(options, about.group_id, about.connector, _LIMIT_S)

    def migrate(self, options: KafkaToPostgresOptions, about: About, *, dry_run: bool) -> list[Change]:
        with self.opened(options, about) as table:
            current, known = listed(table), table.positioned()
            missing = [place for place in about.places if place.unit not in known]
            if missing and not dry_run:
                # Writers of earlier releases must not commit another batch after it was looked for.
                table.end_earlier(missing)
            taken = {place.unit: _position(options, table, place) for place in missing}
            after = [*current, *(entry for entries in taken.values() for entry in entries)]
            found = changes(current, after)
            if not dry_run:
                # A unit with a position is not looked at again, so the layout and the notes come with it.
                layout = read_layout(about.checkpoints, about.connector)
                notes = {place.unit: FileMemory(place.checkpoint / "types.arrow").read() for place in missing}
                table.take_over(
                    {unit: offset_of(entry) for unit, entries in taken.items() for entry in entries},
                    {unit: note for unit, note in notes.items() if note is not None},
                    None if layout is None else layout.encode(),
                )
                for place in about.places:
                    put(place.checkpoint / MIGRATED, b"its position is in PostgreSQL\n")
            return found


def _position(options: KafkaToPostgresOptions, table: "_Table", place: UnitPlace) -> list[Entry]:
    """Returns the position of a checkpoint, with the batch in flight if the database has it."""
    marker, query, newest = table.marker(place.unit), query_of(place.checkpoint), reached(place.checkpoint)[1]
    try:
        if query:
            marker.refuse_behind(query, newest)
    except CheckpointBehind as error:
        raise OffsetsError(f"unit {place.unit}: {error}") from None

    def has(options: Any, place: UnitPlace, query: str, batch: int) -> bool:
        return marker.has(query, batch)

    return KafkaOffsets[KafkaToPostgresOptions](Sink(has)).current(options, place)


class _Table:
    """The positions of one connector, for one operation in a limited time."""

    def __init__(
        self, options: KafkaToPostgresOptions, group_id: str, connector: str, limit_s: float
    ) -> None:
        self._markers = options.marker_table
        self._group_id, self._connector = group_id, connector
        self._positions = positions_of(options, group_id, connector)
        self._too_late = threading.Event()
        self._timer = threading.Timer(limit_s, self._too_late.set)
        self._timer.daemon = True
        self._said = ""
        self._database = Database(options, f"offsets of {connector}", self._too_late, self._say)

    def __enter__(self) -> "_Table":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self._database.close()

    def positioned(self) -> Mapping[str, int]:
        """Returns the positions of all units that have one."""

        def read(connection: "psycopg.Connection[Any]") -> Mapping[str, int]:
            if not self._positions.exists(connection):
                return {}
            states = self._positions.all(connection)
            return {unit: state.next for unit, state in states.items() if state.next is not None}

        return self._run(read)

    def move(self, offsets: Mapping[str, int | None]) -> None:
        self.take_over(offsets, {}, None)

    def take_over(
        self, offsets: Mapping[str, int | None], notes: Mapping[str, bytes], layout: bytes | None
    ) -> None:
        """Sets positions, what converters remember, and the layout, unless there is one."""
        session = uuid.uuid4().hex

        def work(connection: "psycopg.Connection[Any]") -> None:
            if layout is not None:
                self._positions.keep_layout(connection, layout)
            if offsets:
                self._positions.put(connection, dict(sorted(offsets.items())), session)
            for unit, note in notes.items():
                self._positions.set_note(connection, unit, note)

        self._run(self._positions.create)
        self._run(work)

    def end_earlier(self, places: Sequence[UnitPlace]) -> None:
        """Ends writers of earlier releases for good: their markers change hands, and their fences are
        closed."""
        for place in places:
            fence.close(place.checkpoint, _OWNER)
        units = [place.unit for place in places]
        self._run(lambda connection: self._marked(connection, units, _OWNER))

    def forget(self, earlier: Sequence[UnitPlace]) -> None:
        def work(connection: "psycopg.Connection[Any]") -> None:
            if self._positions.exists(connection):
                self._positions.forget(connection)

        self.end_earlier(earlier)
        self._run(work)

    def marker(self, unit: str) -> Marker:
        """Returns the marker that an earlier release has kept for a unit."""
        found = self._run(lambda connection: self._marked(connection, [unit], "")).get(unit)
        return found or Marker("")

    def _marked(
        self, connection: "psycopg.Connection[Any]", units: Sequence[str], owner: str
    ) -> Mapping[str, Marker]:
        from psycopg import sql

        table = describe_table(connection, self._markers)
        if table is None:
            return {}
        values = {
            "worker": self._group_id,
            "connector": self._connector,
            "units": list(units),
            "owner": owner,
        }
        where = "WHERE worker = %(worker)s AND connector = %(connector)s AND unit = ANY(%(units)s)"
        content = "content" if "content" in table.columns else "''"
        named = {"table": identifier(self._markers), "content": sql.SQL(content)}
        if owner:
            text: Any = f"UPDATE {{table}} SET owner = %(owner)s {where}"
            connection.execute(sql.SQL(text).format(**named), values)
        text = f"SELECT unit, owner, query, batch, {{content}} FROM {{table}} {where}"
        rows = connection.execute(sql.SQL(text).format(**named), values)
        return {unit: Marker(owner, query, batch, content=has) for unit, owner, query, batch, has in rows}

    def _run(self, work: "Callable[[psycopg.Connection[Any]], T]") -> T:
        with self._in_time():
            return self._database.run(work)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except Cancelled:
            said = self._said or "PostgreSQL does not answer"
            raise OffsetsError(f"the positions cannot be read or changed in time: {said}") from None
        except psycopg.Error as error:
            raise OffsetsError(f"the positions cannot be read or changed: {str(error).strip()}") from error

    def _say(self, text: str) -> None:
        self._said = text or self._said
