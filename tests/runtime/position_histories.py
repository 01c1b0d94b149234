"""A unit whose position is with its sink, through copies, restores, losses, moves and deaths.

The checkpoints are real directories, one for each machine; the log of the sink is in memory. Two sources: a
table, as ``BatchLog`` plans its batches, and files, as Spark's file source does.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from cooperator.connectors import source_log
from cooperator.connectors.exactly_once import (
    CheckpointBehind,
    LogLost,
    Marker,
    Replaced,
    Row,
    TransactionAborted,
    UnitWriter,
)
from cooperator.connectors.fence import Fenced
from cooperator.connectors.file_positions import FileNames, FileSnapshot, FilesRead
from cooperator.connectors.offsets import OffsetsError, unit_log
from cooperator.connectors.offsets.unit_log import content_of, end_of_batch, query_of, reached
from cooperator.connectors.output_owner import ensure_query
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import create
from cooperator.connectors.source_log import ReadFile
from cooperator.connectors.tablelogs.earlier import TablePosition
from cooperator.connectors.unit_position import KeptPosition, Stated, move, settle
from tests.harness.fake_unit_log import FakeLogs, Impatient
from tests.runtime.plugins.polled import BatchLog

NAMES = "group-files"
MACHINES = ("a", "b")


class Died(BaseException):
    """The process of an attempt ends."""


class Source(ABC):
    """Items 0, 1, …, of which the first ``available`` are there."""

    kept: KeptPosition
    available: int = 0

    @abstractmethod
    def plan(self, checkpoint: Path, check: Callable[[], None]) -> int | None:
        """The number of the batch in flight, or of the next one; None: nothing is new."""

    @abstractmethod
    def items(self, checkpoint: Path, batch: int) -> list[int]: ...

    @abstractmethod
    def done(self, checkpoint: Path, batch: int) -> None: ...

    @abstractmethod
    def stated(self, end: int) -> Stated:
        """The position after the first ``end`` items."""

    @abstractmethod
    def read_until(self, position: str) -> set[int]:
        """The items before a position."""

    @abstractmethod
    def alter_as_before(self, checkpoint: Path, end: int) -> None:
        """Changes the offsets as an earlier release does: in the checkpoint, of which no batch is in
        flight."""


class Table(Source):
    def __init__(self) -> None:
        self.kept = TablePosition()

    def plan(self, checkpoint: Path, check: Callable[[], None]) -> int | None:
        log = BatchLog(checkpoint, check)
        if (batch := log.begun()) is not None:
            return batch.number
        at = _end(log.position())
        if at >= self.available:
            return None
        return log.plan(_position(min(self.available, at + 2))).number

    def items(self, checkpoint: Path, batch: int) -> list[int]:
        start = end_of_batch(checkpoint, batch - 1) if batch else ""
        return list(range(_end(start), _end(end_of_batch(checkpoint, batch))))

    def done(self, checkpoint: Path, batch: int) -> None:
        create(checkpoint / "commits" / str(batch), b"v1\n{}")

    def stated(self, end: int) -> Stated:
        return Stated(_position(end) if end else "")

    def read_until(self, position: str) -> set[int]:
        return set(range(_end(position)))

    def alter_as_before(self, checkpoint: Path, end: int) -> None:
        unit_log.move(checkpoint, reached(checkpoint)[0], [_position(end) if end else ""])


def _position(end: int) -> str:
    return json.dumps({"incrementing": end})


def _end(position: str) -> int:
    return int(json.loads(position)["incrementing"]) if position else 0


class Files(Source):
    """Spark's file source; each third entry of its log has all before it."""

    def __init__(self, logs: FakeLogs) -> None:
        self._logs = logs
        self._names = FileNames("lines", "bucket-0-of-1", TopicPartition(NAMES, 0), self._read, 60)
        self.kept = self._reading = FilesRead(self._names)
        self._planned = 0

    def _read(self, begin: bytes) -> Mapping[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for row in self._logs.rows:
            if isinstance(row, OutputRecord) and row.topic == NAMES and row.key and row.key.startswith(begin):
                found.pop(row.key, None)
                if row.value is not None:
                    found[row.key] = row.value
        return found

    def plan(self, checkpoint: Path, check: Callable[[], None]) -> int | None:
        ensure_query(checkpoint, check)
        committed, newest = reached(checkpoint)
        if newest > committed:
            return newest
        number, seen = self._seen(checkpoint)
        new = [item for item in range(self.available) if item not in seen][:2]
        if new:
            number += 1
            self._log(checkpoint, number, new, check)
        at = source_log.number_at(checkpoint, newest)
        if number == at:
            return None
        self._planned += 1
        metadata = json.dumps({"batchTimestampMs": self._planned})
        entry = checkpoint / "offsets" / str(newest + 1)
        create(entry, f"v1\n{metadata}\n{source_log.end(number)}".encode(), check)
        return newest + 1

    def _log(self, checkpoint: Path, number: int, new: list[int], check: Callable[[], None]) -> None:
        files = [(number, each) for each in new]
        log, name = checkpoint / "sources" / "0", f"{number}"
        if (number + 1) % 3 == 0:
            before = [(each, one) for each in range(number) for one in _in_log(checkpoint, each)]
            files, name = before + files, f"{number}.compact"
        lines = [
            json.dumps({"path": f"file:///in/{item}", "timestamp": item, "batchId": batch},
            separators=(",", ":"))
            for batch, item in files
        ]  # fmt: skip
        assert create(log / name, "\n".join(["v1", *lines]).encode(), check), "two queries write one log"
        if name.endswith(".compact"):
            for each in range(number):
                (log / str(each)).unlink(missing_ok=True)

    def _seen(self, checkpoint: Path) -> tuple[int, set[int]]:
        log = checkpoint / "sources" / "0"
        found = [int(each.name.partition(".")[0]) for each in log.iterdir()] if log.is_dir() else []
        number = max(found, default=-1)
        return number, {item for each in range(number + 1) for item in _in_log(checkpoint, each)}

    def items(self, checkpoint: Path, batch: int) -> list[int]:
        after = source_log.number_at(checkpoint, batch - 1)
        last = source_log.number_at(checkpoint, batch)
        return [item for each in range(after + 1, last + 1) for item in _in_log(checkpoint, each)]

    def done(self, checkpoint: Path, batch: int) -> None:
        create(checkpoint / "commits" / str(batch), b"v1\n{}")

    def stated(self, end: int) -> Stated:
        return self._reading.stated([ReadFile(f"file:///in/{item}", item) for item in range(end)])

    def read_until(self, position: str) -> set[int]:
        return {int(file.modified_ms) for file in self._names.read(FileSnapshot.decode(position))}

    def alter_as_before(self, checkpoint: Path, end: int) -> None:
        source_log.write(checkpoint, [ReadFile(f"file:///in/{item}", item) for item in range(end)])
        committed, _ = reached(checkpoint)
        if committed:
            unit_log.move(checkpoint, committed - 1, [source_log.end(-1)])
        unit_log.move(checkpoint, committed, [source_log.end(0)])


def _in_log(checkpoint: Path, number: int) -> list[int]:
    return [file.modified_ms for file in source_log.files_between(checkpoint, number - 1, number)]


@dataclass
class History:
    """One unit. ``read`` are the items that the sink has, or that a change has left out."""

    root: Path
    make: Callable[[FakeLogs], Source]
    logs: FakeLogs = field(default_factory=FakeLogs)
    read: set[int] = field(default_factory=set)
    shared: bool = False
    attempts: int = 0
    counted: int = 0
    frozen: "Frozen | None" = None

    def __post_init__(self) -> None:
        self.source = self.make(self.logs)

    def checkpoint(self, machine: str) -> Path:
        return self.root / (MACHINES[0] if self.shared else machine)

    def more(self, count: int) -> None:
        self.source.available += count

    def run(self, machine: str, dies_at: int | None = None, batches: int = 1) -> None:
        """An attempt that writes so many batches. It dies at a step of its own, if that is given."""
        try:
            with self.attempt(machine, dies_at) as (writer, check):
                for _ in range(batches):
                    if not self.write(machine, writer, check):
                        return
        except Died:
            pass
        finally:
            self.look()

    @contextmanager
    def attempt(
        self, machine: str, dies_at: int | None = None
    ) -> Iterator[tuple[UnitWriter, Callable[[], None]]]:
        self.attempts += 1
        writer = UnitWriter(self.logs, f"{machine}/{self.attempts}", Impatient(), Claimed(self.attempts))
        check = Steps(dies_at)
        settle(writer, writer.claim(), self.checkpoint(machine), check, self.source.kept)
        yield writer, check

    def write(self, machine: str, writer: UnitWriter, check: Callable[[], None]) -> bool:
        checkpoint = self.checkpoint(machine)
        batch = self.source.plan(checkpoint, check)
        if batch is None:
            return False
        self.deliver(checkpoint, writer, batch, check)
        return True

    def deliver(self, checkpoint: Path, writer: UnitWriter, batch: int, check: Callable[[], None]) -> None:
        stated = self.source.kept.reached(checkpoint, batch, writer.position or "")
        rows = [(None, b"%d" % item) for item in self.source.items(checkpoint, batch)]
        content, query = content_of(checkpoint, batch), query_of(checkpoint)
        check()
        writer.write(query, batch, lambda: chain(rows, stated.records), content, stated.position)
        check()
        self.source.done(checkpoint, batch)

    def run_as_before(self, machine: str, finishes: bool = True) -> None:
        """An attempt of an earlier release: it knows no positions, and trusts the checkpoint."""
        self.attempts += 1
        checkpoint = self.checkpoint(machine)
        writer = UnitWriter(Forgetful(self.logs), f"{machine}/{self.attempts}", Impatient())
        found = writer.claim()
        found.refuse_behind(query_of(checkpoint), reached(checkpoint)[1])
        batch = self.source.plan(checkpoint, lambda: None)
        if batch is not None:
            rows = [(None, b"%d" % item) for item in self.source.items(checkpoint, batch)]
            writer.write(query_of(checkpoint), batch, lambda: rows, content_of(checkpoint, batch))
            if finishes:
                self.source.done(checkpoint, batch)
        self.look()

    def alter(self, machine: str, end: int) -> None:
        """Offsets are changed by a command on this machine: exactly the first ``end`` items are read."""
        writer = UnitWriter(self.logs, f"offsets-{self.attempts}", Impatient())
        seen = self.logs.marker() or Marker("")
        move(writer, seen, self.checkpoint(machine), self.source.stated(end))
        self.read = set(range(end))

    def lose(self, machine: str) -> None:
        shutil.rmtree(self.checkpoint(machine), ignore_errors=True)

    def copy(self, machine: str) -> None:
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        if self.checkpoint(machine).exists():
            shutil.copytree(self.checkpoint(machine), self.root / "copy")

    def restore(self, machine: str) -> None:
        self.lose(machine)
        if (self.root / "copy").exists():
            shutil.copytree(self.root / "copy", self.checkpoint(machine))

    def freeze(self, machine: str) -> None:
        """An attempt stops between its last check and the files of its next batch."""
        with self.attempt(machine) as (writer, _):
            checkpoint, beside = self.checkpoint(machine), self.root / "planned"
            shutil.rmtree(beside, ignore_errors=True)
            shutil.copytree(checkpoint, beside)
            batch = self.source.plan(beside, lambda: None)
            if batch is None:
                return
            files = {
                file.relative_to(beside): file.read_bytes()
                for file in beside.rglob("*")
                if file.is_file() and not (checkpoint / file.relative_to(beside)).exists()
            }
            stated = self.source.kept.reached(beside, batch, writer.position or "")
            rows = [(None, b"%d" % item) for item in self.source.items(beside, batch)]
            content, query = content_of(beside, batch), query_of(beside)
            records = [*rows, *stated.records]
            self.frozen = Frozen(
                checkpoint,
                files,
                lambda: writer.write(query, batch, lambda: records, content, stated.position),
            )

    def wake(self) -> None:
        """Its files appear, late, unless there are others; then it commits, unless it was replaced."""
        frozen, self.frozen = self.frozen, None
        if frozen is None:
            return
        for name, content in frozen.files.items():
            create(frozen.checkpoint / name, content)
        try:
            frozen.write()
        finally:
            self.look()

    def look(self) -> None:
        """No item that is written now has been read before."""
        rows = [row for row in self.logs.rows[self.counted :] if not isinstance(row, OutputRecord)]
        self.counted = len(self.logs.rows)
        written = [int(row[1] or b"") for row in rows]
        assert len(written) == len(set(written)), f"{written} has items twice"
        assert not self.read & set(written), f"{sorted(self.read & set(written))} are doubled"
        self.read |= set(written)

    def ends(self) -> None:
        """The last attempt reads everything that no other one has."""
        self.run("a", batches=1_000)
        missing = set(range(self.source.available)) - self.read
        assert not missing, f"{missing} are lost"


@dataclass
class Frozen:
    """An attempt that is about to write these files, and then its batch."""

    checkpoint: Path
    files: Mapping[Path, bytes]
    write: Callable[[], int]


@dataclass
class Claimed:
    """The claim of an attempt; later ones are greater."""

    number: int

    @property
    def claim(self) -> str:
        return f"{self.number:06}"

    def check(self) -> None:
        return


@dataclass
class Steps:
    """Dies at the step of that number."""

    dies_at: int | None
    done: int = 0

    def __call__(self) -> None:
        self.done += 1
        if self.done == self.dies_at:
            raise Died


@dataclass
class Forgetful:
    """The log as an earlier release sees it: markers have no positions."""

    logs: FakeLogs

    def open(self, slowdown: int) -> Any:
        return self.logs.open(slowdown)

    def marker(self) -> Marker | None:
        found = self.logs.marker()
        if found is None:
            return None
        content = json.loads(found.encode())
        return Marker.decode(json.dumps({**content, "position": None}).encode())


REFUSALS = (CheckpointBehind, OffsetsError, Replaced, Fenced, LogLost, TransactionAborted)

__all__ = ["MACHINES", "REFUSALS", "Died", "Files", "History", "Row", "Table"]
