"""Offsets of connectors whose positions are beside their files (see ``intents``).

They are changed by sessions as attempts have them, so that attempts that still run write nothing more.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cooperator.connectors import fence
from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.intents import earlier
from cooperator.connectors.intents.directory import Directory, directory_of
from cooperator.connectors.intents.moves import move, positions
from cooperator.connectors.intents.owner import DirectoryOwner
from cooperator.connectors.kafka_offsets import KafkaOffsets, entry_at, entry_of, offset_of
from cooperator.connectors.kafka_source import reads
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.task import MIGRATED, is_earlier
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, altered, changes
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import About, ConnectorOffsets, UnitPlace, Where
from cooperator.connectors.offsets.unit_log import query_of, reached
from cooperator.connectors.places import put
from cooperator.connectors.units import read_layout

_LIMIT_S: Final = 60.0
_OWNER: Final = "offsets"


def directory(
    options: KafkaToFilesOptions, group_id: str, connector: str, conf: Mapping[str, str]
) -> Directory:
    """Returns the directory of a connector. Raises ``OptionError``."""
    owner = DirectoryOwner(group_id, connector)
    return directory_of(options.path, owner, conf, lambda topic: reads(options, topic))


def end_of(unit: str, stand: Stand | None) -> str:
    """Returns where a unit stands, as JSON; empty: nowhere."""
    if stand is None:
        return ""
    partition = Partition.of_unit(unit)
    return f'{{"{partition.topic}":{{"{partition.number}":{stand.next}}}}}'


class FilesPositionOffsets(ConnectorOffsets[KafkaToFilesOptions]):
    def __init__(self) -> None:
        self._checkpoints: KafkaOffsets[KafkaToFilesOptions] = KafkaOffsets(Sink())

    def listed(self, options: KafkaToFilesOptions, about: About) -> list[Entry]:
        with _opened(options, about) as files:
            return files.listed()

    def alter(
        self, options: KafkaToFilesOptions, about: About, wanted: Sequence[Entry], *, dry_run: bool
    ) -> list[Change]:
        units = {entry.key: self._checkpoints.unit_of(options, entry.partition) for entry in wanted}
        self._checkpoints.check(options, [entry for entry in wanted if entry.offset is not None])
        with _opened(options, about) as files:
            _refuse_earlier(about, files)
            current = files.listed()
            found = changes(current, altered(current, wanted))
            if not dry_run:
                files.move({units[entry.key]: offset_of(entry) for entry in wanted})
            return found

    def reset(
        self, options: KafkaToFilesOptions, about: About, where: Where | None, *, dry_run: bool
    ) -> list[Change]:
        with _opened(options, about) as files:
            if where is None and not files.directory.is_mine:
                return []
            current = files.listed()
            after: list[Entry] = []
            if where is not None:
                _refuse_earlier(about, files)
                after = [entry_at(options, entry, where) for entry in current]
            found = changes(current, after)
            if not dry_run and where is not None:
                unit_of = self._checkpoints.unit_of
                files.move({unit_of(options, entry.partition): offset_of(entry) for entry in after})
            elif not dry_run:
                for place in _earlier(about, files):
                    fence.close(place.checkpoint, _OWNER)
                files.forget()
            return found

    def migrate(self, options: KafkaToFilesOptions, about: About, *, dry_run: bool) -> list[Change]:
        with _opened(options, about) as files:
            current = files.listed()
            missing = _earlier(about, files)
            if not dry_run:
                # Writers of earlier releases must not commit another batch after it was looked for.
                for place in about.places:
                    fence.close(place.checkpoint, _OWNER)
            taken = {place.unit: _position(options, files.directory, place) for place in missing}
            after = [*current, *(entry for entries in taken.values() for entry in entries)]
            found = changes(current, after)
            if not dry_run:
                files.directory.settle(plain=False)
                # A unit with a position is not looked at again, so the notes come first.
                layout = read_layout(about.checkpoints, about.connector)
                if layout is not None:
                    files.directory.settle_layout(layout)
                for place in missing:
                    types = FileMemory(place.checkpoint / "types.arrow").read()
                    if types is not None:
                        files.directory.memory(place.unit).write(types)
                offsets = {unit: offset_of(entry) for unit, entries in taken.items() for entry in entries}
                files.move(offsets, plain=False)
                # The logs go last: they tell whether a batch that was in flight is there.
                for place in about.places:
                    put(place.checkpoint / MIGRATED, b"its position is beside its files\n")
                    if earlier.has_log(files.directory.place, place.unit):
                        earlier.make_plain(files.directory.place, place.unit)
            return found


def _earlier(about: About, files: "_Files") -> list[UnitPlace]:
    """Returns the units whose positions only their checkpoints have."""
    known = files.positioned()
    return [p for p in about.places if p.unit not in known and is_earlier(p.checkpoint)]


def _refuse_earlier(about: About, files: "_Files") -> None:
    if found := _earlier(about, files):
        name = about.connector
        raise OffsetsError(
            f"checkpoint {found[0].checkpoint} has the position of unit {found[0].unit}, which is not beside "
            f"its files yet; migrate the offsets of {name} first (`kubectl cooperator offsets migrate "
            f"{name}`, `cooperator local offsets migrate {name}`), or reset them, so that it starts as a new "
            "connector"
        )


def _position(options: KafkaToFilesOptions, found: Directory, place: UnitPlace) -> list[Entry]:
    """Returns the position of a checkpoint, with the batch in flight if the unit's log has it."""
    at, unit = found.place, place.unit
    owner, newest = earlier.query_of(at, unit), reached(place.checkpoint)[1]
    if owner and owner != query_of(place.checkpoint):
        raise OffsetsError(
            f"unit {unit}: {at / unit} was written by another checkpoint than {place.checkpoint}: move that "
            "directory away, or restore the checkpoint that wrote it"
        )
    if earlier.newest_batch(at, unit) > newest:
        raise OffsetsError(
            f"unit {unit}: {at / unit} has batch {earlier.newest_batch(at, unit)} of this checkpoint, which "
            f"ends with batch {newest}: the checkpoint was restored from an older copy; restore a newer one, "
            "or reset the offsets and set them (`offsets alter`)"
        )

    def has(options: Any, place: UnitPlace, query: str, batch: int) -> bool:
        return earlier.has_batch(at, place.unit, batch)

    return KafkaOffsets[KafkaToFilesOptions](Sink(has)).current(options, place)


@contextmanager
def _opened(options: KafkaToFilesOptions, about: About) -> "Iterator[_Files]":
    """Yields the files of a connector for one operation, in a limited time."""
    too_late = threading.Event()
    timer = threading.Timer(_LIMIT_S, too_late.set)
    timer.daemon = True
    timer.start()
    try:
        yield _Files(directory(options, about.group_id, about.connector, about.conf), too_late)
    except Cancelled:
        raise OffsetsError(f"{options.path}: the positions cannot be changed in time; try again") from None
    except Replaced as error:
        raise OffsetsError(f"{error}; stop the connector, and try again") from None
    except earlier.UnreadableLog as error:
        raise OffsetsError(str(error)) from None
    except OSError as error:
        raise OffsetsError(
            f"{options.path}: the positions cannot be read or changed: {error}; check that this machine sees "
            "the directory and may write there, and try again"
        ) from None
    finally:
        timer.cancel()


class _Files:
    def __init__(self, found: Directory, too_late: threading.Event) -> None:
        self.directory = found
        self._logs = found.logs()
        self._too_late = too_late

    def positioned(self) -> Mapping[str, int]:
        """Returns the positions of all units that have one; there are none in another's directory."""
        if not self.directory.is_mine:
            return {}
        return {unit: stand.next for unit, stand in positions(self._logs, self._logs.units()).items()}

    def listed(self) -> list[Entry]:
        placed = sorted((Partition.of_unit(unit), at) for unit, at in self.positioned().items())
        return [entry_of(partition.topic, partition.number, offset) for partition, offset in placed]

    def move(self, offsets: Mapping[str, int | None], *, plain: bool = True) -> None:
        """Moves units to these offsets (None: none)."""
        self.directory.settle(plain=plain)
        # Without Spark, files in a store are made visible by the next attempt.
        move(self._logs, offsets, self._too_late, publishes=isinstance(self.directory.place, Path))

    def forget(self) -> None:
        units = self._logs.units()
        publishes = isinstance(self.directory.place, Path)
        move(self._logs, dict.fromkeys(units), self._too_late, publishes=publishes)
        self.directory.forget()
