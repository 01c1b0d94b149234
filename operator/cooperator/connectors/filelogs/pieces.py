"""Batches of pieces of files, written by Spark's tasks as those of topics (``microbatch.spark_batches``)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicPartition

from cooperator.connectors.file_positions import record_limit
from cooperator.connectors.filelogs.file_log import FileLogs
from cooperator.connectors.filelogs.names import NameKey, name_records
from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, BatchTarget, SparkBatches, run_batch
from cooperator.connectors.output_record import OutputRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE: Final = "dev.cooperator.spark.FilePieces"
_TIMEOUT: Final = "transaction.timeout.ms"
_MAX_TIMEOUT_MS: Final = 900_000
"""The default of ``transaction.max.timeout.ms`` of brokers."""


@dataclass(frozen=True, slots=True)
class PieceSource:
    """The files of a task.

    ``place`` returns the partition for the names of a unit, whose records may have ``max_record`` bytes.
    ``beside`` returns the records that a unit's first batch commits besides.
    """

    path: str
    wholetext: bool
    connector: str
    max_record: int
    place: Callable[[str], TopicPartition]
    beside: Callable[[Partition], Sequence[OutputRecord]]


class PieceBatches(SparkBatches):
    """Runs the batches of one task. With the positions it commits the names of the files that it begins."""

    def __init__(
        self,
        spark: "SparkSession",
        source: PieceSource,
        logs: FileLogs,
        transform: "Callable[[DataFrame], DataFrame]",
        target: BatchTarget,
    ) -> None:
        """``transform`` gets the columns path and line, and returns what ``SparkBatches`` writes."""
        super().__init__(spark, BatchSource({}), transform, target)
        self._pieces = source
        self._logs = logs
        self._given = target
        self._name_bytes = record_limit(source.max_record)

    def rows(self) -> "DataFrame":
        return self._transform(
            self._spark.read.format(SOURCE)
            .option("path", self._pieces.path)
            .option("wholetext", self._pieces.wholetext)
            .option("slots", self._slots)
            .load()
        )

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        units = [[self._unit(each, records[each.partition]) for each in slot] for slot in slots]
        outcome = run_batch(self._planned(), {"session": session, "slots": units}, slots)
        for failure in outcome.failures:
            if failure.kind is FailureKind.FENCED and self._has_whole(slots[failure.slot]):
                self._slow_down()
                break
        return outcome

    def _unit(self, each: OffsetRange, record: PositionRecord) -> list[Any]:
        log = self._logs[each.partition]
        pieces = [
            [file.path, start, end, file.size, file.modified_ms, file.is_whole]
            for file, start, end in log.pieces(each.start, each.end)
        ]
        return [*each.partition, each.start, each.end, *record, pieces, self._beside(each)]

    def _beside(self, each: OffsetRange) -> list[list[Any]]:
        log, unit = self._logs[each.partition], self._logs.units[each.partition]
        key = NameKey(self._pieces.connector, unit, log.snapshot)
        place = self._pieces.place(unit)
        names = name_records(key, log.begun(each.start, each.end), self._name_bytes)
        found = [[place.topic, place.partition, *name] for name in names]
        if each.start == 0:
            for record in self._pieces.beside(each.partition):
                text = [(part or b"").decode() for part in (record.key, record.value)]
                found.append([record.topic, record.partition, *text])
        return found

    def _has_whole(self, ranges: Sequence[OffsetRange]) -> bool:
        return any(
            piece.file.is_whole
            for each in ranges
            for piece in self._logs[each.partition].pieces(each.start, each.end)
        )

    def _slow_down(self) -> None:
        """Gives the next session's transactions more time: a file that is read at once cannot be halved."""
        settings = dict(self._given.settings)
        now_ms = int(settings.get(_TIMEOUT, "60000"))
        if now_ms < _MAX_TIMEOUT_MS:
            settings[_TIMEOUT] = str(min(2 * now_ms, _MAX_TIMEOUT_MS))
            self._given = replace(self._given, settings=settings)
            self._target = self._given.encode()
            self._plan = None
