"""Random histories of the loop of a task over files: attempts that end and fail at any step, and files that
come, vanish and come back, over a sink in memory that commits rows, positions and names together."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from cooperator.connectors.filelogs.file_log import FileLogs, Piece, SourceFile, in_order
from cooperator.connectors.filelogs.listing import NewFiles, NotListed
from cooperator.connectors.filelogs.names import NameKey, NamesRead, below_root, digest, name_records
from cooperator.connectors.filelogs.units import NamedUnits
from cooperator.connectors.files import bucket_of
from cooperator.connectors.microbatch import loop as loop_module
from cooperator.connectors.microbatch.batches import PositionRecord, Stand
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from tests.microbatch.log_fakes import Dies, FakeUnits, Fate, FatedBatches, LogSink, Slot

BUCKETS = 3
UNITS = {
    Partition.of_unit(f"bucket-{number}-of-{BUCKETS}"): f"bucket-{number}-of-{BUCKETS}"
    for number in range(BUCKETS)
}
BELOW = below_root("/in/")
SMALL = Limits(20, 45)


@dataclass
class Sink(LogSink):
    """The committed records. ``read`` has the pieces of each file, in order."""

    names: dict[bytes, bytes] = field(default_factory=dict)
    read: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    readings: int = 0


@dataclass
class Directory:
    """The files that are there, by path."""

    files: dict[str, SourceFile] = field(default_factory=dict)
    is_there: bool = True


class FakeListing:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._seen: set[bytes] = set()
        self._waiting: list[SourceFile] = []
        self.lists = 0

    def clear(self) -> None:
        self._seen, self._waiting = set(), []

    def know(self, digests: bytes) -> None:
        self._seen |= {digests[at : at + 16] for at in range(0, len(digests), 16)}

    def forget(self, paths: Sequence[str]) -> None:
        self._seen -= {digest(path) for path in paths}

    def list(self) -> None:
        self.lists += 1
        if not self._directory.is_there:
            raise NotListed("waiting for the directory /in")
        there = self._directory.files.values()
        self._waiting = in_order(file for file in there if digest(file.path) not in self._seen)

    def take(self, buckets: Sequence[int], limit: int) -> Mapping[int, Sequence[SourceFile]]:
        found: dict[int, list[SourceFile]] = {}
        for file in list(self._waiting):
            bucket = bucket_of(file.path, BUCKETS)
            if bucket in buckets and len(found.get(bucket, [])) < limit:
                found.setdefault(bucket, []).append(file)
                self._waiting.remove(file)
                self._seen.add(digest(file.path))
        return found

    def close(self) -> None: ...


class FakePieces(FatedBatches):
    """Commits ranges of slots, unless their fate or a file that is not there forbids it."""

    def __init__(self, sink: Sink, directory: Directory, logs: FileLogs, fate: Fate) -> None:
        super().__init__(sink, fate)
        self._sink, self._directory, self._logs = sink, directory, logs

    def _pieces(self, slot: Slot) -> list[Piece]:
        return [piece for each in slot for piece in self._logs[each.partition].pieces(each.start, each.end)]

    def lacks(self, slot: Slot) -> bool:
        return any(piece.file.path not in self._directory.files for piece in self._pieces(slot))

    def commit(self, slot: Slot, records: Mapping[Partition, PositionRecord]) -> None:
        pieces = self._pieces(slot)
        for each in slot:
            unit, snapshot, reached = UNITS[each.partition], *records[each.partition][:2]
            before = self._sink.stands.get(each.partition) or self._sink.earlier.get(unit, Stand(0))
            assert before.next == each.start, "a batch begins at its unit's position"
            assert not before.topic_id or before.topic_id == snapshot
            self._sink.stands[each.partition] = Stand(int(reached), snapshot)
            begun = self._logs[each.partition].begun(each.start, each.end)
            for key, value in name_records(NameKey("copy", unit, snapshot), begun, 120):
                self._sink.names[key.encode()] = value.encode()
        for piece in pieces:
            self._sink.read.setdefault(piece.file.path, []).append((piece.start, piece.end))


class FakeNames:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def ensure(self) -> None: ...

    def read(self, snapshots: Mapping[str, str]) -> NamesRead:
        self._sink.readings += 1
        found = NamesRead(snapshots, BELOW)
        for key, value in self._sink.names.items():
            if found.is_wanted(key):
                found.add(key, value)
        return found


class OneLook(NewFiles):
    """Calls ``at_the_end`` when there is nothing to read now."""

    def __init__(self, logs: FileLogs, listing: FakeListing) -> None:
        super().__init__(logs, listing, 0, lambda text: None, lambda: 0.0)
        self.at_the_end: Callable[[], None] = self.close
        self._left = 60

    def pause(self, wait_s: float) -> None:
        self.at_the_end()

    def restart(self) -> None:
        super().restart()
        self._left -= 1
        assert self._left, "the loop does not come to an end"


def attempt(
    sink: Sink,
    directory: Directory,
    fate: Fate = lambda: (None, True),
    limits: Limits = SMALL,
    max_files: int | None = None,
) -> None:
    """Runs an attempt until it has read all that is there, or ``fate`` raises ``Dies``."""
    logs = FileLogs(UNITS)
    listing = FakeListing(directory)
    ends = OneLook(logs, listing)
    units = NamedUnits(FakeUnits(sink), logs, listing, FakeNames(sink), sink.taken_over)
    loop = TaskLoop(
        units=tuple(UNITS),
        ownership=units,
        batches=FakePieces(sink, directory, logs, fate),
        ends=ends,
        limits=limits,
        grouping=Grouping(2, 5),
        first_offsets=lambda missing: dict.fromkeys(missing, 0),
        say=lambda text: None,
        cut=lambda ranges: logs.cut(ranges, max_files),
    )
    ends.at_the_end = loop.stop
    with patch.object(loop_module, "_BACKOFF_S", (0.0,)), suppress(Dies):
        loop.run()
