"""Offsets of connectors that read files: one per file read, by its path below the source's directory.

They are ``{"path": "a/b.txt"}`` and ``{"modified_ms": …}``. A file without an offset is read (again).
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

from cooperator.connectors import source_log
from cooperator.connectors.file_positions import FileNames, FileSnapshot, FilesRead, names_in_kafka
from cooperator.connectors.files import bucket_of, visible_files
from cooperator.connectors.files_source import BucketOptions
from cooperator.connectors.marked_offsets import MarkedOffsets, MarkedUnit
from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sources import UnitPlace, Where, number
from cooperator.connectors.source_log import ReadFile
from cooperator.connectors.unit_position import Stated

# The characters that java.net.URI does not quote in a path, besides letters and digits.
_UNQUOTED = "/-_.!~*'():@&=+$,;"
# java.net.URI quotes all of ASCII but the above, and non-ASCII characters that are not visible.
_ENCODED = re.compile(r"[\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


B = TypeVar("B", bound=BucketOptions)


class MarkedFiles(MarkedOffsets[B]):
    """Positions in markers: those of a SELECT with state, and of earlier releases."""

    def unit_of(self, options: B, partition: Json) -> str:
        return unit_of(options, partition)

    def at(self, options: B, place: UnitPlace, where: Where) -> list[Entry]:
        return files_at(options, place.unit, where)

    def check(self, options: B, entries: Sequence[Entry]) -> None:
        for entry in entries:
            number(entry, "modified_ms")

    def in_checkpoint(self, options: B, place: UnitPlace, batch: int, ends: Sequence[str]) -> list[Entry]:
        last = source_log.number_at(place.checkpoint, batch)
        return _entries(options, source_log.files_between(place.checkpoint, -1, last))

    def in_sink(self, options: B, unit: MarkedUnit, position: str) -> list[Entry]:
        return _entries(options, _names(options, unit).read(FileSnapshot.decode(position)))

    def stated(self, options: B, unit: MarkedUnit, entries: Sequence[Entry]) -> Stated:
        root = local_root(options) if entries else Path()
        files = [
            ReadFile(_uri(root / entry.partition["path"]), number(entry, "modified_ms")) for entry in entries
        ]
        return FilesRead(_names(options, unit)).stated(files)


def unit_of(options: BucketOptions, partition: Json) -> str:
    """Returns the unit of a file; raises ``OffsetsError``."""
    path = partition.get("path")
    if set(partition) != {"path"} or not isinstance(path, str) or not path or path.startswith("/"):
        text = json.dumps(partition)
        raise OffsetsError(f'unknown partition {text}; write {{"path": "<below {options.path}>"}}')
    return f"bucket-{bucket_of(path, options.units)}-of-{options.units}"


def files_at(options: BucketOptions, unit: str, where: Where) -> list[Entry]:
    """Returns the positions of a unit at an end of the directory's current contents."""
    if where is Where.EARLIEST:
        return []
    root = local_root(options)
    return [
        Entry({"path": path}, {"modified_ms": file.stat().st_mtime_ns // 1_000_000})
        for file in visible_files(root)
        if unit_of(options, {"path": (path := file.relative_to(root).as_posix())}) == unit
    ]


def _names(options: BucketOptions, unit: MarkedUnit) -> FileNames:
    place = unit.place
    return names_in_kafka(options, place.group_id, place.connector, place.unit, unit.patience)


def _entries(options: BucketOptions, files: Iterable[ReadFile]) -> list[Entry]:
    root = f"{local_root(options)}/"
    found = {unquote(urlsplit(file.uri).path).removeprefix(root): file.modified_ms for file in files}
    return [Entry({"path": path}, {"modified_ms": at}) for path, at in sorted(found.items())]


def _uri(file: Path) -> str:
    """Returns the URI as Hadoop's paths write it (java.net.URI): non-ASCII letters stay as they are."""
    return "file://" + _ENCODED.sub(lambda match: quote(match[0], safe=_UNQUOTED), file.as_posix())


def local_root(options: BucketOptions) -> Path:
    """Returns the directory; raises ``OffsetsError`` if it is elsewhere."""
    if not options.path.startswith("/"):
        raise OffsetsError(
            f"option 'path' = {options.path!r}: offsets can be listed for local directories only"
        )
    return Path(options.path)
