"""The log of one unit: its files in the order in which they were found, as ranges of offsets. Pure.

A file takes as many offsets as it has bytes, and one more, so that an empty file has one, too. The record
that begins at a byte of a file belongs to that offset. So a batch is a range of offsets, and any range is the
same records in every attempt.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cooperator.connectors.microbatch.ranges import OffsetRange, Partition


class SourceFile(NamedTuple):
    """A file: its path below the source's directory (``a/b.txt``), when it was modified, and its bytes.

    ``is_whole``: it has to be read at once, because it is one record, or is compressed.
    """

    path: str
    modified_ms: int
    size: int
    is_whole: bool = False


class Placed(NamedTuple):
    """A file in the log of its unit: it begins at the offset ``start``."""

    start: int
    file: SourceFile

    @property
    def end(self) -> int:
        return self.start + self.file.size + 1


class Piece(NamedTuple):
    """The part of a file that belongs to a range: from a byte up to, and without, another."""

    file: SourceFile
    start: int
    end: int


class LogStand(NamedTuple):
    """Where a unit's log stands in the sink.

    ``snapshot`` names the set of names. ``partial`` is the file in which ``next`` is; None: between two.
    """

    snapshot: str
    next: int = 0
    partial: Placed | None = None


class FileLog:
    """The part of a unit's log that is not read yet: the rest of a file, and files that were found since."""

    def __init__(self, stand: LogStand) -> None:
        self.snapshot = stand.snapshot
        self._next = stand.next
        self._unread: deque[Placed] = deque([stand.partial] if stand.partial else [])

    @property
    def next(self) -> int:
        """The position in the sink, as far as it is known here."""
        return self._next

    @property
    def end(self) -> int:
        return self._unread[-1].end if self._unread else self._next

    def append(self, files: Iterable[SourceFile]) -> None:
        """Adds files that were found, in this order."""
        for file in files:
            self._unread.append(Placed(self.end, file))

    def reach(self, position: int) -> None:
        """Notes that everything before the position is in the sink. Raises ValueError if it knows no such."""
        if not self._next <= position <= self.end:
            raise ValueError(f"position {position} is not in the log, from {self._next} to {self.end}")
        self._next = position
        while self._unread and self._unread[0].end <= position:
            self._unread.popleft()

    def drop_new(self) -> list[SourceFile]:
        """Forgets the files of which nothing is in the sink, and returns them."""
        kept = [each for each in self._unread if each.start < self._next]
        gone = [each.file for each in self._unread if each.start >= self._next]
        self._unread = deque(kept)
        return gone

    def cut(self, start: int, end: int, max_files: int | None = None) -> int:
        """Returns where a batch from ``start`` ends that would end at ``end``.

        It ends with a file, unless not even one fits; a file that has to be read whole is, even if it is
        larger. It has at most ``max_files``.
        """
        found, files = start, 0
        for placed in self._from(start):
            if placed.end > end:
                if found == start:
                    found = placed.end if placed.file.is_whole else end
                return found
            found, files = placed.end, files + 1
            if files == max_files or found == end:
                return found
        return found

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Returns what a range consists of, in order."""
        return [
            Piece(each.file, max(start - each.start, 0), min(end, each.end) - each.start)
            for each in self._from(start)
            if each.start < end
        ]

    def begun(self, start: int, end: int) -> list[Placed]:
        """Returns the files that begin in a range: their names are committed with it."""
        return [each for each in self._from(start) if start <= each.start < end]

    def _from(self, start: int) -> Iterator[Placed]:
        return (each for each in self._unread if each.end > start)


class FileLogs:
    """The logs of a task's units."""

    def __init__(self, units: Mapping[Partition, str]) -> None:
        self.units = dict(units)
        self.logs: dict[Partition, FileLog] = {}

    def __getitem__(self, partition: Partition) -> FileLog:
        return self.logs[partition]

    def reach(self, positions: Mapping[Partition, int]) -> None:
        for partition, position in positions.items():
            self.logs[partition].reach(position)

    def ends(self) -> dict[Partition, int]:
        return {partition: log.end for partition, log in self.logs.items()}

    def cut(self, ranges: Sequence[OffsetRange], max_files: int | None) -> tuple[OffsetRange, ...]:
        """Returns ranges that begin in the same place and end as ``FileLog.cut`` says."""
        return tuple(
            each._replace(end=self.logs[each.partition].cut(each.start, each.end, max_files))
            for each in ranges
        )


def in_order(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Returns files as they are read: the oldest first, as in Spark's source."""
    return sorted(files, key=lambda file: (file.modified_ms, file.path))
