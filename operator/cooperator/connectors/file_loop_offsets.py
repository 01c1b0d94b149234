"""Offsets of ``files-to-kafka``: where positions are with a SELECT that treats each row by itself.

A change is a new snapshot of names, committed with the position of its unit by an attempt that has fenced all
others (see ``position_offsets``). Positions of earlier releases are taken over by it, as by a start.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final
from urllib.parse import urlsplit

from cooperator.connectors.exactly_once import CLOSED, Replaced
from cooperator.connectors.file_offsets import MarkedFiles, files_at, unit_of
from cooperator.connectors.file_positions import FileSnapshot, files_read, new_snapshot, record_limit
from cooperator.connectors.filelogs.file_log import Placed, SourceFile
from cooperator.connectors.filelogs.names import (
    NameKey,
    NamesRead,
    below_root,
    name_records,
    read_files,
)
from cooperator.connectors.filelogs.names_topic import KafkaNames
from cooperator.connectors.files_source import FilesToKafkaOptions
from cooperator.connectors.loop_offsets import LoopStore, nothing_to_migrate, opened
from cooperator.connectors.marked_offsets import MarkedUnit
from cooperator.connectors.microbatch import notes
from cooperator.connectors.microbatch.earlier import EarlierUnits
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, altered, changes
from cooperator.connectors.offsets.sources import About, ConnectorOffsets, UnitPlace, Where, number
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.position_offsets import PositionTopic
from cooperator.connectors.topics import client_config
from cooperator.connectors.units import directory

_LIMIT_S: Final = 60.0
_BYTES: Final = "bytes"
"""Of a file that is read in part: the bytes whose records were read."""


class FileOffsets(ConnectorOffsets[FilesToKafkaOptions]):
    """Offsets of the class, with state and without."""

    def __init__(self) -> None:
        self._queries: MarkedFiles[FilesToKafkaOptions] = MarkedFiles()

    def listed(self, options: FilesToKafkaOptions, about: About) -> list[Entry]:
        if options.has_state:
            _refuse_closed(options, about)
            return self._queries.listed(options, about)
        with _opened(options, about) as store:
            return [entry for entries in store.current(store.units()).values() for entry in entries]

    def alter(
        self, options: FilesToKafkaOptions, about: About, wanted: Sequence[Entry], *, dry_run: bool
    ) -> list[Change]:
        if options.has_state:
            _refuse_closed(options, about)
            return self._queries.alter(options, about, wanted, dry_run=dry_run)
        by_unit: dict[str, list[Entry]] = {}
        for entry in wanted:
            by_unit.setdefault(unit_of(options, entry.partition), []).append(entry)
        with _opened(options, about) as store:
            current = store.current(sorted(by_unit))
            known = [entry for entries in current.values() for entry in entries]
            for entry in wanted:
                # A file that is read in part may only be left as it is.
                if entry.offset is not None and entry not in known:
                    number(entry, "modified_ms")
            after = {unit: altered(current[unit], entries) for unit, entries in by_unit.items()}
            return store.carry_out(current, after, dry_run=dry_run)

    def reset(
        self, options: FilesToKafkaOptions, about: About, where: Where | None, *, dry_run: bool
    ) -> list[Change]:
        if options.has_state:
            if where is not None:
                _refuse_closed(options, about)
            elif not dry_run:
                self._forget_loops(options, about)
            return self._queries.reset(options, about, where, dry_run=dry_run)
        with _opened(options, about) as store:
            units = store.units()
            if where is None:
                gone = [Change(e.partition, e.offset, None) for e in store.current_or_nothing(units)]
                if not dry_run:
                    store.forget(units)
                return gone
            after = {unit: files_at(options, unit, where) for unit in units}
            return store.carry_out(store.current(units), after, dry_run=dry_run)

    def _forget_loops(self, options: FilesToKafkaOptions, about: About) -> None:
        """Forgets positions of a SELECT without state, so that a query with state may begin."""
        with _opened(options, about) as store:
            if store.topic.units():
                store.forget(store.units())

    def migrate(self, options: FilesToKafkaOptions, about: About, *, dry_run: bool) -> list[Change]:
        raise nothing_to_migrate(about)


def _refuse_closed(options: FilesToKafkaOptions, about: About) -> None:
    with _opened(options, about) as store:
        closed = sorted(unit for unit, marker in store.markers.items() if marker.claim == CLOSED)
    if closed:
        raise OffsetsError(
            f"unit {closed[0]}: option 'transform.sql' has state, and the positions are those of a SELECT "
            "without state: restore the SELECT, or reset the offsets without --to (it then starts over)"
        )


def _opened(options: FilesToKafkaOptions, about: About) -> AbstractContextManager["_Store"]:
    return opened(client_config(options), about, _LIMIT_S, lambda topic: _Store(options, about, topic))


class _Store(LoopStore):
    def __init__(self, options: FilesToKafkaOptions, about: About, topic: PositionTopic) -> None:
        root = directory(about.checkpoints, about.connector)
        kept = files_read(options, about.group_id, about.connector, topic.patience)
        earlier = EarlierUnits(
            options, about.group_id, about.connector, topic.patience, lambda unit: root / unit, kept
        )
        super().__init__(about, topic, earlier)
        self._options = options
        client, root_path = client_config(options), urlsplit(options.path).path.rstrip("/")
        self._below = below_root(f"{root_path if '://' in options.path else options.path.rstrip('/')}/")
        self._names = KafkaNames(client, about.group_id, about.connector, topic.patience, self._below)
        self._queries: MarkedFiles[FilesToKafkaOptions] = MarkedFiles()

    def current(self, units: Sequence[str]) -> dict[str, list[Entry]]:
        here = [unit for unit in units if unit in self._positions]
        values = self._names.values(here)
        return {
            unit: self._in_kafka(unit, values) if unit in here else self._of_earlier(unit) for unit in units
        }

    def _of_earlier(self, unit: str) -> list[Entry]:
        checkpoint = directory(self._about.checkpoints, self._about.connector) / unit
        place = UnitPlace(self._about.group_id, self._about.connector, unit, checkpoint, self._about.conf)
        marked = MarkedUnit(place, self.markers.get(unit), self.topic.patience)
        return self._queries.current(self._options, marked)

    def _in_kafka(self, unit: str, values: Mapping[bytes, bytes]) -> list[Entry]:
        position, found = self._positions[unit], dict[str, dict[str, int]]()
        read = NamesRead({unit: position.topic_id}, self._below)
        for key, value in values.items():
            if read.is_wanted(key):
                read.add(key, value)
                for file, _ in read_files(value, self._below):
                    found[file.path] = {"modified_ms": file.modified_ms}
        stand, _ = read.stand(unit, position.next)
        if stand.partial is not None:
            found[stand.partial.file.path][_BYTES] = position.next - stand.partial.start
        return [Entry({"path": path}, offset) for path, offset in sorted(found.items())]

    def carry_out(
        self, before: Mapping[str, list[Entry]], after: Mapping[str, list[Entry]], *, dry_run: bool
    ) -> list[Change]:
        """Sets these positions; also where nothing differs, so that attempts that still run lose the unit."""
        if not dry_run:
            self._end_earlier(before)
            values = self._names.values(after)
            known = self._by_path(values)
            offsets, ids, records = dict[str, int | None](), dict[str, str](), list[OutputRecord]()
            for unit, entries in after.items():
                key = NameKey(self._about.connector, unit, new_snapshot())
                files = _placed(entries, known)
                ids[unit], offsets[unit] = key.snapshot, _next(entries, files)
                place = self._names.place(unit)
                limit = record_limit(self._options.max_record)
                records += [
                    OutputRecord(name.encode(), value.encode(), place.topic, place.partition)
                    for name, value in name_records(key, files, limit)
                ]
                if unit not in self.markers:
                    records.append(self._earlier.closing(unit))
            self._names.ensure()
            self.topic.move(offsets, ids, self._positions, [*records, *self._removals(values)])
        return [change for unit in after for change in changes(before[unit], after[unit])]

    def forget(self, units: Sequence[str]) -> None:
        """Forgets everything of these units, and of the connector."""
        self._names.ensure()
        self._earlier.close([unit for unit in units if self._is_of_earlier(unit)])
        records = [*map(self._earlier.closing, units), *self._removals(self._names.values(units))]
        self.topic.move(dict.fromkeys(units), beside=records)
        notes.forget(self.topic.positions, self._about.connector, self.topic.patience)

    def _end_earlier(self, before: Mapping[str, list[Entry]]) -> None:
        """Ends writers of earlier releases for good. Raises ``Replaced`` if they have written meanwhile."""
        units = [unit for unit in before if self._is_of_earlier(unit)]
        for unit, position in self._earlier.taken_over(units, self.markers).items():
            if FileSnapshot.decode(position).files != len(before[unit]):
                raise Replaced(f"an attempt has read files of unit {unit} meanwhile")

    def _by_path(self, values: Mapping[bytes, bytes]) -> dict[str, SourceFile]:
        """Returns the files of these names by their paths."""
        return {file.path: file for value in values.values() for file, _ in read_files(value, self._below)}

    def _removals(self, values: Mapping[bytes, bytes]) -> list[OutputRecord]:
        found = []
        for key in values:
            name = NameKey.parse(key)
            if name is not None:
                place = self._names.place(name.unit)
                found.append(OutputRecord(key, None, place.topic, place.partition))
        return found


def _placed(entries: Sequence[Entry], known: Mapping[str, SourceFile]) -> list[Placed]:
    """Returns the files of entries: each takes one offset, but one that is read in part stays as it
    is, at the end."""
    found: list[Placed] = []
    for entry in sorted(entries, key=lambda entry: _BYTES in (entry.offset or {})):
        path, offset = str(entry.partition["path"]), entry.offset or {}
        size = known[path].size if _BYTES in offset else 0
        start = found[-1].end if found else 0
        found.append(Placed(start, SourceFile(path, int(offset["modified_ms"]), size)))
    return found


def _next(entries: Sequence[Entry], files: Sequence[Placed]) -> int:
    for entry in entries:
        if entry.offset is not None and _BYTES in entry.offset:
            return files[-1].start + int(entry.offset[_BYTES])
    return files[-1].end if files else 0
