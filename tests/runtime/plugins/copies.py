"""Connectors of plug-ins that need no Spark: one that keeps all rules, and one for each way to break one.

A unit is a directory with files of one record each. A batch is a file, named by its number and put in place
atomically, so that a repeated batch replaces itself.
"""

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from cooperator.connectors.fence import Fence
from cooperator.connectors.offsets import Entry, OffsetsError
from cooperator.connectors.offsets.sources import SourceOffsets, UnitPlace, Where
from cooperator.connectors.plugin import (
    Connector,
    Delivered,
    Delivery,
    FullPath,
    Options,
    RunningUnit,
    UnitContext,
    UnitProgress,
    claim,
    option,
    refuse,
)
from tests.runtime.plugins.polled import Batch, BatchLog, PolledSource, PolledUnit

_BATCH = 5


class CopiesOptions(Options):
    path: FullPath = option("path", expected="a directory with folders", fixed=True)
    target: FullPath = option("target", expected="a directory to write to", fixed=True)
    pause_ms: int = option("pause.ms", 50, expected="milliseconds between two looks, 1 or more", ge=1)


class Positions(SourceOffsets[CopiesOptions]):
    """The number of files of a directory that have been copied."""

    def current(self, options: CopiesOptions, place: UnitPlace) -> list[Entry]:
        count = BatchLog(place.checkpoint, lambda: None).position() or "0"
        return [Entry({"folder": place.unit}, {"files": int(count)})]

    def unit_of(self, options: CopiesOptions, partition: Any) -> str:
        return str(partition["folder"])

    def at(self, options: CopiesOptions, place: UnitPlace, where: Where) -> list[Entry]:
        raise OffsetsError("folders have no ends")

    def check(self, options: CopiesOptions, entries: Sequence[Entry]) -> None:
        """Accepts any number."""

    def move(self, options: CopiesOptions, place: UnitPlace, entries: Sequence[Entry]) -> None:
        raise OffsetsError("positions of folders stay")


class Folder(PolledSource):
    def __init__(self, options: CopiesOptions, context: UnitContext) -> None:
        self.source = Path(options.path) / context.unit
        self.target = Path(options.target) / context.unit
        self.context = context

    def next_end(self, position: str) -> str | None:
        begin = int(position or 0)
        end = min(begin + _BATCH, len(self.names()))
        return str(end) if end > begin else None

    def deliver(self, batch: Batch, query: str) -> int:
        names = self.names()[int(batch.start or 0) : int(batch.end)]
        records = [(self.source / name).read_text() for name in names]
        self.put(batch, records)
        return len(records)

    def put(self, batch: Batch, records: list[str]) -> None:
        self.write(f"{batch.number}.txt", records)

    def write(self, name: str, records: list[str]) -> None:
        self.target.mkdir(parents=True, exist_ok=True)
        # Of its own: an attempt that lingers must not break another rule by taking it away.
        part = self.target / f".{name}.{uuid.uuid4().hex}"
        part.write_text("\n".join(records))
        part.replace(self.target / name)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.source.iterdir())


class Copies(Connector[CopiesOptions]):
    options: ClassVar[type[Options]] = CopiesOptions
    folder: ClassVar[type[Folder]] = Folder

    def delivery(self, options: CopiesOptions) -> Delivered:
        return Delivered(Delivery.EXACTLY_ONCE, "Readers pass over hidden files.")

    def offsets(self) -> SourceOffsets[CopiesOptions] | None:
        return Positions()

    def units(self, options: CopiesOptions, say: Callable[[str], None]) -> Sequence[str]:
        return sorted(folder.name for folder in Path(options.path).iterdir())

    def claim(self, context: UnitContext) -> Fence:
        return claim(context.checkpoint, context.epoch, context.attempt, context.owner)

    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        fence = self.claim(context)
        batches = BatchLog(context.checkpoint, fence.check)
        return PolledUnit(self.folder(options, context), batches, context, options.pause_ms / 1000)


class LeavesThreads(Copies):
    """Keeps all rules, and leaves threads behind that never end, as clients of stores do."""

    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        threading.Thread(target=threading.Event().wait, daemon=False).start()
        return super().open(options, context)


# --- one class per broken rule, named by its defect ---


class Unmakeable(Copies):
    def __init__(self, journal: str) -> None:
        super().__init__()


class Remembers(Copies):
    def __init__(self) -> None:
        self.asked = 0

    def units(self, options: CopiesOptions, say: Callable[[str], None]) -> Sequence[str]:
        self.asked += 1
        return super().units(options, say)


class NoConnector:
    options = CopiesOptions


class WithoutName(Copies):
    class Options(CopiesOptions):
        batch_size: int = 5

    options = Options


class OpenSecret(Copies):
    class Options(CopiesOptions):
        password: str = option("password", "", expected="the password of the folder")

    options = Options


def _short(value: str) -> str:
    if len(value) > 3:
        raise refuse(f"{value} is too long", "write three letters")
    return value


class RepeatsValues(Copies):
    class Options(CopiesOptions):
        prefix: Annotated[str, AfterValidator(_short)] = option("prefix", "", expected="three letters")

    options = Options


class TakesAnything(Copies):
    class Options(CopiesOptions):
        model_config = CopiesOptions.model_config | {"extra": "ignore"}

    options = Options


class TakesNegativePauses(Copies):
    class Options(CopiesOptions):
        pause_ms: int = option("pause.ms", 50, expected="milliseconds between two looks")

    options = Options


class SaysNothing(Copies):
    def delivery(self, options: CopiesOptions) -> Delivered:
        return Delivered(Delivery.EXACTLY_ONCE, "")


class ForgetsUnits(Copies):
    def groups(
        self, units: Sequence[str], tasks_max: int, earlier: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        return [(unit,) for unit in units[:tasks_max]]


class UnitsByHash(Copies):
    def units(self, options: CopiesOptions, say: Callable[[str], None]) -> Sequence[str]:
        return [f"{folder.name}-{hash(folder.name)}" for folder in sorted(Path(options.path).iterdir())]


class UnitsByPath(Copies):
    def units(self, options: CopiesOptions, say: Callable[[str], None]) -> Sequence[str]:
        return [str(folder) for folder in sorted(Path(options.path).iterdir())]


class CannotStart(Copies):
    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        raise RuntimeError("the folder is locked")


class _Loses(Folder):
    def put(self, batch: Batch, records: list[str]) -> None:
        super().put(batch, records[:-1])


class LosesRecords(Copies):
    folder = _Loses


class Unclaimed(Copies):
    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        batches = BatchLog(context.checkpoint, lambda: None)
        return PolledUnit(self.folder(options, context), batches, context, options.pause_ms / 1000)


class NeverLooksAgain(Copies):
    found: ClassVar[dict[str, Sequence[str]]] = {}

    def units(self, options: CopiesOptions, say: Callable[[str], None]) -> Sequence[str]:
        return self.found.setdefault(options.path, super().units(options, say))


class _Lingers:
    def __init__(self, unit: PolledUnit) -> None:
        self._unit = unit

    def poll(self) -> UnitProgress:
        return self._unit.poll()

    def stop(self) -> None:
        """Keeps running."""


class StopsInName(Copies):
    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        unit = super().open(options, replace(context, cancelled=threading.Event()))
        assert isinstance(unit, PolledUnit)
        return _Lingers(unit)


class BeginsAnew(Copies):
    """Its checkpoint belongs to its process."""

    _scratch: ClassVar[str] = uuid.uuid4().hex

    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        own = context.checkpoint / self._scratch
        fence = self.claim(context)
        own.mkdir(exist_ok=True)
        folder = self.folder(options, context)
        folder.target = folder.target.with_name(f"{context.unit}-{self._scratch}")
        return PolledUnit(folder, BatchLog(own, fence.check), context, options.pause_ms / 1000)

    def offsets(self) -> SourceOffsets[CopiesOptions] | None:
        return None


class LocksItselfOut(Copies):
    """Its leftovers keep other processes from starting."""

    def open(self, options: CopiesOptions, context: UnitContext) -> RunningUnit:
        unit = super().open(options, context)
        lock = context.checkpoint / "lock"
        if lock.exists() and lock.read_text() != str(os.getpid()):
            raise RuntimeError(f"process {lock.read_text()} has locked it")
        lock.write_text(str(os.getpid()))
        return unit


class _Appends(Folder):
    def put(self, batch: Batch, records: list[str]) -> None:
        self.write(f"{uuid.uuid4().hex}.txt", records)


class WritesTwice(Copies):
    folder = _Appends


class _Queues(Folder):
    """Counts a batch as delivered once it is queued."""

    def __init__(self, options: CopiesOptions, context: UnitContext) -> None:
        super().__init__(options, context)
        self._queue: SimpleQueue[tuple[Batch, list[str]] | None] = SimpleQueue()
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        context.closing.callback(thread.join)
        context.closing.callback(self._queue.put, None)

    def put(self, batch: Batch, records: list[str]) -> None:
        self._queue.put((batch, records))

    def _work(self) -> None:
        while (held := self._queue.get()) is not None:
            time.sleep(0.2)
            super().put(*held)


class WritesLater(Copies):
    folder = _Queues


class KnowsNoEpochs(Copies):
    def claim(self, context: UnitContext) -> Fence:
        return claim(context.checkpoint, None, context.attempt, context.owner)


class _Drifting(Positions):
    def current(self, options: CopiesOptions, place: UnitPlace) -> list[Entry]:
        return [Entry({"folder": place.unit}, {"files": hashlib.sha256(uuid.uuid4().bytes).hexdigest()})]


class OffsetsDrift(Copies):
    def offsets(self) -> SourceOffsets[CopiesOptions] | None:
        return _Drifting()
