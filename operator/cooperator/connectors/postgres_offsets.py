"""Positions of connectors that read tables: a unit is a table, its position the columns of the last row read.

The partition is ``{"table": "public.orders"}``; the offset has ``incrementing``, ``timestamp`` or both, as
the mode requires: the next batch begins after that row. Without a position a table is read from its
beginning.
"""

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TypeVar

from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.marked_offsets import MarkedOffsets, MarkedUnit
from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sources import UnitPlace, Where
from cooperator.connectors.offsets.unit_log import end_of_batch
from cooperator.connectors.places import Place
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import PostgresSourceOptions, TableReader, source_tables
from cooperator.connectors.unit_position import KeptPosition, Stated

_LOOK_S = 30.0
_TYPES = {"incrementing": (int, "<number>"), "timestamp": (str, '"<time as PostgreSQL writes it>"')}


class TableToKafkaOptions(PostgresSourceOptions, KafkaSinkOptions):
    """Options of connectors that read tables and write to topics."""


T = TypeVar("T", bound=TableToKafkaOptions)


class TablePosition(KeptPosition):
    """The position in a marker is the end of the newest batch, as the checkpoint has it."""

    def taken(self, checkpoint: Place, batch: int, is_new: bool) -> Stated:
        return Stated(end_of_batch(checkpoint, batch) if batch >= 0 else "")

    def reached(self, checkpoint: Place, batch: int, before: str) -> Stated:
        return Stated(end_of_batch(checkpoint, batch))

    def restore(self, checkpoint: Place, position: str) -> tuple[str, str]:
        return "", position


class TableOffsets(MarkedOffsets[T]):
    def unit_of(self, options: T, partition: Json) -> str:
        table = partition.get("table")
        if set(partition) != {"table"} or not isinstance(table, str):
            raise OffsetsError(f'unknown partition {json.dumps(partition)}; write {{"table": "<name>"}}')
        with closing(_database(options)) as database:
            known = source_tables(database, options, lambda text: None)
        if table not in known:
            raise OffsetsError(
                f"partition {json.dumps(partition)}: the connector does not read this table; it reads "
                f"{', '.join(known)}"
            )
        return table

    def at(self, options: T, place: UnitPlace, where: Where) -> list[Entry]:
        if where is Where.EARLIEST:
            return []
        give_up_at = time.monotonic() + _LOOK_S

        def wait(seconds: float) -> bool:
            if time.monotonic() > give_up_at:
                raise OffsetsError(
                    f"table {place.unit}: transactions that are older than its newest rows are still open; "
                    "end them, or set a position"
                )
            time.sleep(seconds)
            return False

        with closing(_database(options)) as database:
            reader = TableReader(database, options, place.unit)
            position = ""
            while (end := reader.next_end(position, wait, lambda text: None)) is not None:
                position = end
        return _entries(place.unit, position)

    def check(self, options: T, entries: Sequence[Entry]) -> None:
        names = options.mode.split("+")
        for entry in entries:
            offset = entry.offset or {}
            fits = set(offset) == set(names) and all(
                isinstance(value, _TYPES[name][0]) and not isinstance(value, bool)
                for name, value in offset.items()
            )
            if not fits:
                form = ", ".join(f'"{name}": {_TYPES[name][1]}' for name in names)
                raise OffsetsError(
                    f"partition {entry.key}: unknown offset {json.dumps(offset)}; write {{{form}}}"
                )

    def in_checkpoint(self, options: T, place: UnitPlace, batch: int, ends: Sequence[str]) -> list[Entry]:
        return _entries(place.unit, ends[0] if ends else "")

    def in_sink(self, options: T, unit: MarkedUnit, position: str) -> list[Entry]:
        return _entries(unit.place.unit, position)

    def stated(self, options: T, unit: MarkedUnit, entries: Sequence[Entry]) -> Stated:
        # In the order of a position's parts.
        names = options.mode.split("+")
        return Stated(
            "".join(json.dumps({name: (entry.offset or {})[name] for name in names}) for entry in entries)
        )


def _entries(table: str, position: str) -> list[Entry]:
    return [Entry({"table": table}, json.loads(position))] if position else []


def _database(options: PostgresSourceOptions) -> Database:
    return Database(options, "offsets", threading.Event(), lambda text: None)
