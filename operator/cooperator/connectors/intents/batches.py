"""Batches of a task whose rows go into files: staged by one Spark job, then committed unit by unit."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cooperator.connectors.intents.naming import placed, visible_name
from cooperator.connectors.intents.stores import FileStore
from cooperator.connectors.intents.units import FileUnits
from cooperator.connectors.intents.values import StagedFile
from cooperator.connectors.microbatch.batches import (
    FailureKind,
    Outcome,
    PositionRecord,
    SlotFailure,
    WorkFailed,
)
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """The rows that were written, and the numbers of records that were read of partitions."""

    rows: int
    counts: Mapping[Partition, int]


class StageFailed(WorkFailed):
    """The rows could not be staged."""


class Stager(Protocol):
    """Writes rows into files, each range into files of its own."""

    def write(self, directory: str, ranges: Sequence[OffsetRange]) -> Written:
        """Writes the rows of the n-th range below ``directory`` (a URI).

        They are in files of the n-th Spark partition, or in a folder of their own (see ``naming``). Their
        names are Spark's, and end as staged files do. Raises ``StageFailed``.
        """

    def cancel(self) -> None:
        """Ends a ``write`` in another thread."""


class SearchingStager(Stager, Protocol):
    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        """Returns records that cannot be converted; see ``PlannedBatches``."""


class FileBatches:
    """``Batches`` of a task: any number of units, in one or more directories."""

    reads_topics_apart = False

    def __init__(
        self,
        units: FileUnits,
        stager: Stager,
        wrote: Callable[[Partition, int, int], None] = lambda partition, records, size_bytes: None,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        """``wrote`` is told the offsets and the bytes of each cut; ``closing`` is called at the end."""
        self._units = units
        self._closing = closing
        self._stager = stager
        self._wrote = wrote

    def open(self, session: str) -> None: ...

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        ranges = [each for slot in slots for each in slot]
        if session != self._units.session:
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, f"session {session} is over")])
        staged: dict[Partition, list[StagedFile]] = {}
        rows, counts = 0, dict[Partition, int]()
        try:
            for store, some in self._by_directory(ranges):
                written = self._stage(store, some, staged)
                rows += written.rows
                counts |= written.counts
        except StageFailed as error:
            failed = range(len(slots)) if error.kind is FailureKind.ROWS else [0]
            return Outcome(0, [SlotFailure(slot, error.kind, str(error)) for slot in failed])
        except OSError as error:
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, f"staging files: {error}")])
        failures = self._units.commit(
            {each.partition: (records[each.partition], staged.get(each.partition, ())) for each in ranges},
            {each.partition for each in ranges if not each.size},
        )
        return Outcome(
            0 if failures else rows,
            [
                SlotFailure(_slot_of(partition, slots), FailureKind.RETRIABLE, text)
                for partition, text in failures.items()
            ],
            counts,
        )

    def cancel(self) -> None:
        self._stager.cancel()

    def close(self) -> None:
        self._closing()

    def _by_directory(self, ranges: Sequence[OffsetRange]) -> list[tuple[FileStore, list[OffsetRange]]]:
        found: dict[int, tuple[FileStore, list[OffsetRange]]] = {}
        for each in ranges:
            if each.size:
                store = self._units.store_of(each.partition)
                found.setdefault(id(store), (store, []))[1].append(each)
        return list(found.values())

    def _stage(
        self, store: FileStore, ranges: Sequence[OffsetRange], staged: dict[Partition, list[StagedFile]]
    ) -> Written:
        claim, batch = self._units.attempt, uuid.uuid4().hex[:8]
        try:
            written = self._stager.write(store.batch_directory(claim, batch), ranges)
            sizes = dict.fromkeys(ranges, 0)
            for output in store.outputs(claim, batch) if written.rows else ():
                if output.size_bytes == 0:
                    continue
                index, path = placed(output.path)
                cut = ranges[index]
                sizes[cut] += output.size_bytes
                of_unit = staged.setdefault(cut.partition, [])
                base = self._units.base_of(cut.partition)
                name = visible_name(path, cut, claim, f"{base}-{batch}", len(of_unit))
                of_unit.append(store.stage(str(cut.partition), base, (claim, batch), output.path, name))
        finally:
            store.drop_batch(claim, batch)
        for cut, size_bytes in sizes.items():
            self._wrote(cut.partition, cut.size, size_bytes)
        return written


class FilePlan(FileBatches):
    """A ``PlannedBatches`` of a task."""

    def __init__(
        self, units: FileUnits, stager: SearchingStager, wrote: Callable[[Partition, int, int], None]
    ) -> None:
        super().__init__(units, stager, wrote)
        self._searching = stager

    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        return self._searching.failing(slots, most)


def _slot_of(partition: Partition, slots: Sequence[Sequence[OffsetRange]]) -> int:
    return next(n for n, slot in enumerate(slots) if any(each.partition == partition for each in slot))
