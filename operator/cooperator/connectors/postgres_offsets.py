"""Offsets of connectors that read tables: a unit is a table, its position the columns of the last row read.

The partition is ``{"table": "public.orders"}``; the offset has ``incrementing``, ``timestamp`` or both, as
the mode requires: the next batch begins after that row. Without a position a table is read from its
beginning.
"""

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import SourceOffsets, UnitPlace, Where
from cooperator.connectors.offsets.unit_log import begin, move, read_unit, settle_in_flight
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import PostgresSourceOptions, TableReader, source_tables

_LOOK_S = 30.0
_TYPES = {"incrementing": (int, "<number>"), "timestamp": (str, '"<time as PostgreSQL writes it>"')}


class TableOffsets(SourceOffsets[Any]):
    """Works with ``PostgresSourceOptions``. ``sink`` is the sink of the same connector."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def current(self, options: PostgresSourceOptions, place: UnitPlace) -> list[Entry]:
        ends = read_unit(place.checkpoint, self._sink.at(options, place)).ends
        return [Entry({"table": place.unit}, json.loads(end)) for end in ends if end]

    def unit_of(self, options: PostgresSourceOptions, partition: Json) -> str:
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

    def at(self, options: PostgresSourceOptions, place: UnitPlace, where: Where) -> list[Entry]:
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
        return [Entry({"table": place.unit}, json.loads(position))] if position else []

    def check(self, options: PostgresSourceOptions, entries: Sequence[Entry]) -> None:
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

    def move(self, options: PostgresSourceOptions, place: UnitPlace, entries: Sequence[Entry]) -> None:
        found = settle_in_flight(place.checkpoint, self._sink.at(options, place))
        # In the order of a position's parts.
        names = options.mode.split("+")
        end = "".join(json.dumps({name: (entry.offset or {})[name] for name in names}) for entry in entries)
        if found.committed >= 0:
            move(place.checkpoint, found.committed, [end])
        elif end:
            begin(place.checkpoint, end)


def _database(options: PostgresSourceOptions) -> Database:
    return Database(options, "offsets", threading.Event(), lambda text: None)
