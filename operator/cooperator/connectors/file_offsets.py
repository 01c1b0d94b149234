"""Offsets of connectors that read files: one per file read, by its path below the source's directory.

They are ``{"path": "a/b.txt"}`` and ``{"modified_ms": …}``. A file without an offset is read (again). Spark
keeps them in a log of its own (``sources/0``): a file ``<n>`` for each batch of files, and every tenth batch
a ``<n>.compact`` with all before it. An end in ``offsets`` is a batch number of that log. Moving offsets
means writing a log of one batch, which is read from before its beginning (-1) to its end (0).
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cooperator.connectors.files import bucket_of, visible_files
from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import SourceOffsets, UnitPlace, Where, number
from cooperator.connectors.offsets.unit_log import begin, move, read_unit, remove, replace, settle_in_flight
from cooperator.connectors.places import Place, names

_LOG_ENTRY = re.compile(r"(\d+)(\.compact)?\Z")
# The characters that java.net.URI does not quote in a path, besides letters and digits.
_UNQUOTED = "/-_.!~*'():@&=+$,;"
# java.net.URI quotes all of ASCII but the above, and non-ASCII characters that are not visible.
_ENCODED = re.compile(r"[\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class FileOffsets(SourceOffsets[Any]):
    """Works with options that have ``path`` and ``units``. ``sink`` is the sink of the same connector."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def current(self, options: Any, place: UnitPlace) -> list[Entry]:
        found = read_unit(place.checkpoint, self._sink.at(options, place))
        last = _last(found.ends)
        return [
            Entry({"path": path}, {"modified_ms": modified_ms})
            for path, modified_ms in sorted(_seen(options, place, last).items())
        ]

    def unit_of(self, options: Any, partition: Json) -> str:
        path = partition.get("path")
        if set(partition) != {"path"} or not isinstance(path, str) or not path or path.startswith("/"):
            text = json.dumps(partition)
            raise OffsetsError(f'unknown partition {text}; write {{"path": "<below {options.path}>"}}')
        return f"bucket-{bucket_of(path, options.units)}-of-{options.units}"

    def at(self, options: Any, place: UnitPlace, where: Where) -> list[Entry]:
        if where is Where.EARLIEST:
            return []
        root = _root(options)
        return [
            Entry({"path": path}, {"modified_ms": file.stat().st_mtime_ns // 1_000_000})
            for file in visible_files(root)
            if self.unit_of(options, {"path": (path := file.relative_to(root).as_posix())}) == place.unit
        ]

    def check(self, options: Any, entries: Sequence[Entry]) -> None:
        for entry in entries:
            number(entry, "modified_ms")

    def move(self, options: Any, place: UnitPlace, entries: Sequence[Entry]) -> None:
        found = settle_in_flight(place.checkpoint, self._sink.at(options, place))
        log = place.checkpoint / "sources" / "0"
        root = _root(options)
        lines = [
            _line(_uri(root / entry.partition["path"]), number(entry, "modified_ms")) for entry in entries
        ]
        replace(log / "0", "\n".join(["v1", *lines]))
        # This precedes the move of the ends: after a crash in between, Spark must not reread files.
        for name in names(log):
            if _LOG_ENTRY.match(name) and name != "0":
                remove(log / name)
        if found.committed < 0:
            begin(place.checkpoint, _end(0))
            return
        if found.committed > 0:
            # Spark looks at the last batch once more when it starts.
            move(place.checkpoint, found.committed - 1, [_end(-1)])
        move(place.checkpoint, found.committed, [_end(0)])

    def refuse_forgetting(self, options: Any, place: UnitPlace) -> None:
        self._sink.refuse_forgetting(options, place)


def _uri(file: Path) -> str:
    """Returns the URI as Hadoop's paths write it (java.net.URI): non-ASCII letters stay as they are."""
    return "file://" + _ENCODED.sub(lambda match: quote(match[0], safe=_UNQUOTED), file.as_posix())


def _line(uri: str, modified_ms: int) -> str:
    return json.dumps({"path": uri, "timestamp": modified_ms, "batchId": 0}, separators=(",", ":"))


def _end(batch: int) -> str:
    return json.dumps({"logOffset": batch}, separators=(",", ":"))


def _last(ends: tuple[str, ...]) -> int:
    return int(json.loads(ends[0])["logOffset"]) if ends else -1


def _seen(options: Any, place: UnitPlace, last: int) -> dict[str, int]:
    """Maps the files in batches up to ``last`` of the source's log to their modification times (ms)."""
    log = place.checkpoint / "sources" / "0"
    root = f"{_root(options)}/"
    found: dict[str, int] = {}
    for name in names(log):
        if _LOG_ENTRY.match(name):
            for line in _entries(log / name):
                if int(line["batchId"]) <= last:
                    path = unquote(urlsplit(str(line["path"])).path)
                    found[path.removeprefix(root)] = int(line["timestamp"])
    return found


def _entries(file: Place) -> Iterator[dict[str, Any]]:
    version, *lines = file.read_text().split("\n")
    if version != "v1":
        raise OffsetsError(f"{file}: unknown version {version!r}; only v1 is supported")
    yield from (json.loads(line) for line in lines if line)


def _root(options: Any) -> Path:
    if not options.path.startswith("/"):
        raise OffsetsError(
            f"option 'path' = {options.path!r}: offsets can be listed for local directories only"
        )
    return Path(options.path)
