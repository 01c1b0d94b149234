"""Checks that the output equals the input: every row, once."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cooperator.connectors.output import plain_files, read_units
from cooperator.demo.sources import read_lines

Fingerprints = Counter[bytes]


@dataclass(frozen=True, slots=True)
class Content:
    """A multiset of rows (path, line), as fingerprints, and the sum of the lines' lengths in characters."""

    rows: Fingerprints
    characters: int

    @property
    def count(self) -> int:
        return self.rows.total()

    @property
    def digest(self) -> str:
        """A hash of the multiset, independent of the order."""
        total = sum(int.from_bytes(row) * times for row, times in self.rows.items())
        return f"{total % (1 << 64):016x}"


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """``missing`` and ``doubled`` count rows; ``derived_right``: the computed column is correct, too."""

    missing: int
    doubled: int
    derived_right: bool

    @property
    def exact(self) -> bool:
        return not self.missing and not self.doubled and self.derived_right


def content_of_sources(root: Path) -> Content:
    """Returns the input, read by plain Python."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return _content((path.relative_to(root).as_posix(), line) for path in files for line in read_lines(path))


def content_of_lake(path: Path) -> tuple[Content, int]:
    """Returns the rows of the lake, and the sum of the column ``length`` as Spark computed it."""
    table = read_units(path)
    if not table.num_rows:
        return Content(Counter(), 0), 0
    rows = zip(table.column("path").to_pylist(), table.column("line").to_pylist(), strict=True)
    return _content(rows), sum(table.column("length").to_pylist())


def compare(sources: Content, lake: Content, lengths: int) -> DemoVerdict:
    return DemoVerdict(
        missing=(sources.rows - lake.rows).total(),
        doubled=(lake.rows - sources.rows).total(),
        derived_right=lengths == lake.characters,
    )


class SinkCounter:
    """Counts the rows of visible files, from their footers. Each file is read once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[Path, int] = {}

    def count(self) -> int:
        from pyarrow.parquet import read_metadata

        for file in plain_files(self._path):
            if file not in self._rows:
                self._rows[file] = read_metadata(file).num_rows
        return sum(self._rows.values())


def _content(rows: Iterable[tuple[str, str]]) -> Content:
    fingerprints: Fingerprints = Counter()
    characters = 0
    for path, line in rows:
        # No path contains a zero byte, so two different rows never have the same text.
        fingerprints[hashlib.blake2b(f"{path}\0{line}".encode(), digest_size=12).digest()] += 1
        characters += len(line)
    return Content(fingerprints, characters)
