"""Offsets of connectors that read tables: a unit is a table, its position the columns of the last row read.

The partition is ``{"table": "public.orders"}``; the offset has ``incrementing``, ``timestamp`` or both, as
the mode requires: the next batch begins after that row. Without a position a table is read from its
beginning. A change is committed by an attempt that has fenced all others (see ``position_offsets``).
Positions of earlier releases are taken over by it, as by a start.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Final

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.loop_offsets import LoopStore, nothing_to_migrate, opened
from cooperator.connectors.microbatch import notes
from cooperator.connectors.microbatch.earlier import EarlierUnits
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.offsets.entries import Change, Entry, Json, OffsetsError, altered, changes
from cooperator.connectors.offsets.sources import About, ConnectorOffsets, Where
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import Place
from cooperator.connectors.position_offsets import PositionTopic
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import offset_of, source_tables
from cooperator.connectors.tablelogs.arrivals import SETTLING_S
from cooperator.connectors.tablelogs.database import PostgresTables
from cooperator.connectors.tablelogs.earlier import TablePosition, told
from cooperator.connectors.tablelogs.options import TableToKafkaOptions
from cooperator.connectors.topics import client_config
from cooperator.connectors.units import checkpoint

_LIMIT_S: Final = 90.0
_LOOK_S: Final = 30.0
_TYPES: Final = {"incrementing": (int, "<number>"), "timestamp": (str, '"<time as PostgreSQL writes it>"')}


class TableOffsets(ConnectorOffsets[TableToKafkaOptions]):
    def listed(self, options: TableToKafkaOptions, about: About) -> list[Entry]:
        with _opened(options, about) as store:
            return [entry for entries in store.current(store.units()).values() for entry in entries]

    def alter(
        self, options: TableToKafkaOptions, about: About, wanted: Sequence[Entry], *, dry_run: bool
    ) -> list[Change]:
        by_unit: dict[str, list[Entry]] = {}
        for entry in wanted:
            by_unit.setdefault(_unit_of(options, entry.partition), []).append(entry)
        for entry in wanted:
            if entry.offset is not None:
                _check(options, entry)
        with _opened(options, about) as store:
            before = store.current(sorted(by_unit))
            after = {unit: altered(before[unit], entries) for unit, entries in by_unit.items()}
            return store.carry_out(before, after, dry_run=dry_run)

    def reset(
        self, options: TableToKafkaOptions, about: About, where: Where | None, *, dry_run: bool
    ) -> list[Change]:
        with _opened(options, about) as store:
            units = store.units()
            if where is None:
                gone = [Change(e.partition, e.offset, None) for e in store.current_or_nothing(units)]
                if not dry_run:
                    store.forget(units)
                return gone
            after = _latest(options, units) if where is Where.LATEST else {unit: [] for unit in units}
            return store.carry_out(store.current(units), after, dry_run=dry_run)

    def migrate(self, options: TableToKafkaOptions, about: About, *, dry_run: bool) -> list[Change]:
        raise nothing_to_migrate(about)


def _unit_of(options: TableToKafkaOptions, partition: Json) -> str:
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


def _check(options: TableToKafkaOptions, entry: Entry) -> None:
    """Raises ``OffsetsError`` unless the offset has the parts of the mode."""
    names, offset = options.mode.split("+"), entry.offset or {}
    fits = set(offset) == set(names) and all(
        isinstance(value, _TYPES[name][0]) and not isinstance(value, bool) for name, value in offset.items()
    )
    if not fits:
        form = ", ".join(f'"{name}": {_TYPES[name][1]}' for name in names)
        raise OffsetsError(f"partition {entry.key}: unknown offset {json.dumps(offset)}; write {{{form}}}")


def _latest(options: TableToKafkaOptions, units: Sequence[str]) -> dict[str, list[Entry]]:
    """Returns the positions of the last rows that are there."""
    names = {Partition(unit, 0): unit for unit in units}
    give_up_at = time.monotonic() + _LOOK_S
    with closing(_database(options)) as database:
        tables = PostgresTables(database, options, names)
        seen = tables.observe(dict.fromkeys(names, ""))
        writing = {table for table, each in seen.items() if each.ceiling and each.writers}
        while writing:
            there = tables.writers(writing)
            writing = {table for table in writing if seen[table].writers & there[table]}
            if writing and time.monotonic() > give_up_at:
                raise OffsetsError(
                    f"table {names[min(writing)]}: transactions that are older than its newest rows are "
                    "still open; end them, or set a position"
                )
            time.sleep(SETTLING_S if writing else 0)
        return {
            unit: _entries(unit, tables.last(table, seen[table].ceiling) if seen[table].ceiling else "")
            for table, unit in names.items()
        }


def _entries(table: str, position: str) -> list[Entry]:
    return [Entry({"table": table}, offset_of(position))] if position else []


def _database(options: TableToKafkaOptions) -> Database:
    return Database(options, "offsets", threading.Event(), lambda text: None)


def _opened(options: TableToKafkaOptions, about: About) -> AbstractContextManager["_Store"]:
    return opened(client_config(options), about, _LIMIT_S, lambda topic: _Store(options, about, topic))


class _Store(LoopStore):
    def __init__(self, options: TableToKafkaOptions, about: About, topic: PositionTopic) -> None:
        self._options = options
        earlier = EarlierUnits(
            options,
            about.group_id,
            about.connector,
            topic.patience,
            self._checkpoint,
            lambda unit: TablePosition(),
        )
        super().__init__(about, topic, earlier)

    def _checkpoint(self, unit: str) -> Place:
        return checkpoint(self._about.checkpoints, self._about.connector, unit)

    def current(self, units: Sequence[str]) -> dict[str, list[Entry]]:
        return {unit: _entries(unit, self._position(unit)) for unit in units}

    def carry_out(
        self, before: Mapping[str, list[Entry]], after: Mapping[str, list[Entry]], *, dry_run: bool
    ) -> list[Change]:
        """Sets these positions; also where nothing differs, so that attempts that still run lose the unit."""
        if not dry_run:
            self._earlier.ensure()
            self._end_earlier(after)
            # An offset counts rows of batches, and means nothing of the table.
            offsets = {unit: self._positions[unit].next if unit in self._positions else 0 for unit in after}
            ids = {unit: self._encoded(entries) for unit, entries in after.items()}
            closing_records = [self._earlier.closing(unit) for unit in after if unit not in self.markers]
            self.topic.move(offsets, ids, self._positions, closing_records)
        return [change for unit in after for change in changes(before[unit], after[unit])]

    def forget(self, units: Sequence[str]) -> None:
        """Forgets everything of these units, and of the connector."""
        self._earlier.ensure()
        self._earlier.close([unit for unit in units if self._is_of_earlier(unit)])
        records: list[OutputRecord] = [self._earlier.closing(unit) for unit in units]
        self.topic.move(dict.fromkeys(units), beside=records)
        notes.forget(self.topic.positions, self._about.connector, self.topic.patience)

    def _position(self, unit: str) -> str:
        if unit in self._positions:
            return self._positions[unit].topic_id
        return told(unit, self.markers.get(unit), self._checkpoint(unit))

    def _encoded(self, entries: Sequence[Entry]) -> str:
        # In the order of a position's parts.
        names = self._options.mode.split("+")
        return "".join(json.dumps({name: (entry.offset or {})[name] for name in names}) for entry in entries)

    def _end_earlier(self, units: Mapping[str, object]) -> None:
        """Ends writers of earlier releases for good. Raises ``Replaced`` if they have written meanwhile."""
        of_earlier = {unit: self._position(unit) for unit in units if self._is_of_earlier(unit)}
        for unit, position in self._earlier.taken_over(of_earlier, self.markers).items():
            if position != of_earlier[unit]:
                raise Replaced(f"an attempt has read rows of unit {unit} meanwhile")
