"""Offsets of connectors whose positions are beside their files (see ``intents``).

They are changed by sessions as attempts have them, so that attempts that still run write nothing more.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from cooperator.connectors import fence
from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.intents.directory import Directory, directory_of
from cooperator.connectors.intents.earlier import UnreadableLog, has_batch, has_log, make_plain, newest_batch
from cooperator.connectors.intents.earlier import query_of as query_written
from cooperator.connectors.intents.moves import move, positions
from cooperator.connectors.intents.owner import DirectoryOwner
from cooperator.connectors.kafka_offsets import KafkaOffsets, offset_of
from cooperator.connectors.kafka_source import reads
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.microbatch.task import MIGRATED
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, changes
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import About, UnitPlace
from cooperator.connectors.offsets.unit_log import query_of, reached
from cooperator.connectors.places import put
from cooperator.connectors.stored_offsets import StoredOffsets, earlier, listed
from cooperator.connectors.units import read_layout

_LIMIT_S: Final = 60.0
_OWNER: Final = "offsets"


def directory(
    options: KafkaToFilesOptions, group_id: str, connector: str, conf: Mapping[str, str]
) -> Directory:
    """Returns the directory of a connector. Raises ``OptionError``."""
    owner = DirectoryOwner(group_id, connector)
    return directory_of(options.path, owner, conf, lambda topic: reads(options, topic))


class FilesPositionOffsets(StoredOffsets[KafkaToFilesOptions]):
    place: ClassVar[str] = "beside its files"

    @contextmanager
    def opened(self, options: KafkaToFilesOptions, about: About) -> "Iterator[_Files]":
        too_late = threading.Event()
        timer = threading.Timer(_LIMIT_S, too_late.set)
        timer.daemon = True
        timer.start()
        try:
            yield _Files(directory(options, about.group_id, about.connector, about.conf), too_late)
        except Cancelled:
            raise OffsetsError(
                f"{options.path}: the positions cannot be changed in time; try again"
            ) from None
        except Replaced as error:
            raise OffsetsError(f"{error}; stop the connector, and try again") from None
        except UnreadableLog as error:
            raise OffsetsError(str(error)) from None
        except OSError as error:
            raise OffsetsError(
                f"{options.path}: the positions cannot be read or changed: {error}; check that this machine "
                "sees the directory and may write there, and try again"
            ) from None
        finally:
            timer.cancel()

    def migrate(self, options: KafkaToFilesOptions, about: About, *, dry_run: bool) -> list[Change]:
        with self.opened(options, about) as files:
            current = listed(files)
            missing = earlier(about, files)
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
                    if has_log(files.directory.place, place.unit):
                        make_plain(files.directory.place, place.unit)
            return found


def _position(options: KafkaToFilesOptions, found: Directory, place: UnitPlace) -> list[Entry]:
    """Returns the position of a checkpoint, with the batch in flight if the unit's log has it."""
    at, unit = found.place, place.unit
    owner, newest = query_written(at, unit), reached(place.checkpoint)[1]
    if owner and owner != query_of(place.checkpoint):
        raise OffsetsError(
            f"unit {unit}: {at / unit} was written by another checkpoint than {place.checkpoint}: move that "
            "directory away, or restore the checkpoint that wrote it"
        )
    if newest_batch(at, unit) > newest:
        raise OffsetsError(
            f"unit {unit}: {at / unit} has batch {newest_batch(at, unit)} of this checkpoint, which "
            f"ends with batch {newest}: the checkpoint was restored from an older copy; restore a newer one, "
            "or reset the offsets and set them (`offsets alter`)"
        )

    def has(options: Any, place: UnitPlace, query: str, batch: int) -> bool:
        return has_batch(at, place.unit, batch)

    return KafkaOffsets[KafkaToFilesOptions](Sink(has)).current(options, place)


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

    def move(self, offsets: Mapping[str, int | None], *, plain: bool = True) -> None:
        """Moves units to these offsets (None: none)."""
        self.directory.settle(plain=plain)
        # Without Spark, files in a store are made visible by the next attempt.
        move(self._logs, offsets, self._too_late, publishes=isinstance(self.directory.place, Path))

    def forget(self, earlier: Sequence[UnitPlace]) -> None:
        if not self.directory.is_mine:
            return
        for place in earlier:
            fence.close(place.checkpoint, _OWNER)
        publishes = isinstance(self.directory.place, Path)
        move(self._logs, dict.fromkeys(self._logs.units()), self._too_late, publishes=publishes)
        self.directory.forget()
