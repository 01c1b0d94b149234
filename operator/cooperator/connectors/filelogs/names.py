"""The names of files that were read, as records of ``<group>-files``. Pure.

A record's key is ``<connector>/<unit>/<snapshot>/<part>``; its value has some thousand names. They are
committed with the position of their unit, so the names in a snapshot are a chain: each record says at which
offset of the unit's log its first file begins, and ends where the next one begins. A gap is a record that was
lost.

Earlier releases wrote URIs, and counted files (decision 072). In a snapshot that was taken over each of these
takes one offset, before all others.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from cooperator.connectors.filelogs.file_log import LogStand, Placed, SourceFile
from cooperator.connectors.offsets.entries import OffsetsError


class NameRecord(NamedTuple):
    """A record to write."""

    key: str
    value: str


class NameKey(NamedTuple):
    """The key of a record, without its last part."""

    connector: str
    unit: str
    snapshot: str

    @classmethod
    def parse(cls, key: bytes) -> "NameKey | None":
        """Returns None for a key of another kind."""
        parts = key.decode(errors="replace").split("/")
        return cls(*parts[:3]) if len(parts) == 4 else None

    def part(self, start: int) -> str:
        return f"{self.connector}/{self.unit}/{self.snapshot}/@{start}"


def name_records(key: NameKey, files: Sequence[Placed], limit_bytes: int) -> list[NameRecord]:
    """Returns the records of files that follow each other, each of about that many bytes at most."""
    found: list[NameRecord] = []
    some: list[list[object]] = []
    start, size = 0, 0
    for placed in files:
        entry: list[object] = [placed.file.path, placed.file.modified_ms, placed.file.size + 1]
        more = len(json.dumps(entry)) + 2
        if some and size + more > limit_bytes:
            found.append(_record(key, start, some))
            some, size = [], 0
        if not some:
            start = placed.start
        some.append(entry)
        size += more
    return [*found, _record(key, start, some)] if some else found


def _record(key: NameKey, start: int, files: list[list[object]]) -> NameRecord:
    value = json.dumps({"start": start, "files": files}, separators=(",", ":"))
    return NameRecord(key.part(start), value)


@dataclass(frozen=True, slots=True)
class _Part:
    """A record of names as far as a start needs it. ``start`` -1: it is of an earlier release."""

    start: int
    weight: int
    digests: bytes
    last: SourceFile


@dataclass(slots=True)
class NamesRead:
    """The names in the snapshots of some units, folded from their records.

    ``below`` returns the path below the source's directory of a URI of earlier releases.
    """

    snapshots: Mapping[str, str]
    below: Callable[[str], str]
    _parts: dict[str, dict[bytes, _Part]] = field(default_factory=dict)

    def is_wanted(self, key: bytes) -> bool:
        found = NameKey.parse(key)
        return found is not None and self.snapshots.get(found.unit, "") == found.snapshot != ""

    def add(self, key: bytes, value: bytes) -> None:
        """Takes the newest record of a key that is wanted."""
        name = NameKey.parse(key)
        files = list(read_files(value, self.below))
        if name is None or not files:
            return
        digests = b"".join(digest(file.path) for file, _ in files)
        start = json.loads(value).get("start", -1)
        weight = sum(weight for _, weight in files)
        self._parts.setdefault(name.unit, {})[key] = _Part(start, weight, digests, files[-1][0])

    def stand(self, unit: str, position: int) -> tuple[LogStand, bytes]:
        """Returns where a unit's log stands, and the digests of its paths.

        Raises ``OffsetsError`` when names are missing.
        """
        parts = self._parts.get(unit, {}).values()
        reached = sum(part.weight for part in parts if part.start < 0)
        partial: Placed | None = None
        for part in sorted((part for part in parts if part.start >= 0), key=lambda part: part.start):
            if part.start != reached or part.start >= position:
                break
            reached += part.weight
            partial = Placed(reached - part.last.size - 1, part.last)
        else:
            if position == reached:
                partial = None
            if position == reached or (partial is not None and partial.start < position < reached):
                digests = b"".join(part.digests for part in parts)
                return LogStand(self.snapshots[unit], position, partial), digests
        raise missing_names(unit)


def missing_names(unit: str) -> OffsetsError:
    return OffsetsError(
        f"the topic of files lacks names of files that unit {unit} has read, so that they would be read "
        "again: restore the topic; or stop the Connector, and reset or alter its offsets"
    )


def read_files(value: bytes, below: Callable[[str], str]) -> Iterator[tuple[SourceFile, int]]:
    """Yields the files of a record, each with the number of its offsets."""
    content = json.loads(value)
    if "start" not in content:
        yield from ((SourceFile(below(str(uri)), int(at), 0), 1) for uri, at in content["files"])
        return
    for path, modified_ms, weight in content["files"]:
        yield SourceFile(str(path), int(modified_ms), int(weight) - 1), int(weight)


def below_root(root: str) -> Callable[[str], str]:
    """Returns a function from a file's URI to its path below ``root``, which ends with a slash.

    It raises ``OffsetsError`` for a file elsewhere: its path would not be known again.
    """

    def below(uri: str) -> str:
        path = unquote(urlsplit(uri).path)
        if not path.startswith(root):
            raise OffsetsError(
                f"{uri} was read, which is not below {root}: change option 'path' back, or stop the "
                "Connector and reset its offsets"
            )
        return path.removeprefix(root)

    return below


def digest(path: str) -> bytes:
    """Returns 16 bytes that stand for a path, as in ``FileListing.java``."""
    return hashlib.md5(path.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
