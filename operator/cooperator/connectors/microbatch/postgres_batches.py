"""Batches that are read by Spark, converted here, and written into PostgreSQL by one transaction.

They are for conversions that Spark's plan cannot express; see ``copy_batches`` for all others.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, Superseded
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition, encoded
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    JobGroup,
    of_partition,
    read,
    read_failure,
)
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_sink import Chunk, move, stage

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

Chunks = Sequence[Chunk]
Convert = Callable[[Partition, "pa.Table", OffsetRange], Chunks]
"""Returns the rows of records that were read of a partition, in order. An exception ends the attempt."""


class PostgresBatches:
    """Runs the batches of one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        database: Database,
        positions: PostgresPositions,
        units: PostgresUnits,
        convert: Convert,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        """``closing`` is called once no batch runs any more."""
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._source = source
        self._database = database
        self._positions = positions
        self._units = units
        self._convert = convert
        self._closing = closing
        self._group = JobGroup(spark, "batches")

    @property
    def reads_topics_apart(self) -> bool:
        return False

    def open(self, session: str) -> None:
        """There is nothing to initialise: a session is a value in the table of positions."""

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        ranges = [each for slot in slots for each in slot]
        moves = self._units.moves(ranges, records)
        counts: dict[Partition, int] = {}
        try:
            chunks = [chunk for chunk in self._rows(slots, counts) if chunk.size]
        except _Unread as error:
            return Outcome(0, [error.failure])
        try:
            rows = self._database.once(lambda connection: self._write(connection, session, chunks, moves))
        except _WrittenBefore as before:
            rows = before.rows
        except (DatabaseUnavailable, Superseded) as error:
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, str(error))])
        self._units.moved(moves)
        return Outcome(rows, counts=counts)

    def cancel(self) -> None:
        self._group.cancel()
        self._database.interrupt()

    def close(self) -> None:
        try:
            self._closing()
        finally:
            self._database.close()

    def _write(
        self, connection: "psycopg.Connection[Any]", session: str, chunks: Chunks, moves: Sequence[Move]
    ) -> int:
        rows = stage(connection, chunks)
        if not self._positions.advance(connection, session, moves):
            raise _WrittenBefore(rows)
        move(connection, chunks)
        return rows

    def _rows(self, slots: Sequence[Sequence[OffsetRange]], counts: dict[Partition, int]) -> list[Chunk]:
        """Returns the rows of a batch; counts the records of partitions."""
        some = [tuple(each for each in slot if each.size) for slot in slots]
        some = [slot for slot in some if slot]
        if not some:
            return []
        raw = self._collected(self._read(some))
        found: list[Chunk] = []
        for each in [each for slot in some for each in slot]:
            part = of_partition(raw, each.partition)
            counts[each.partition] = part.num_rows
            if part.num_rows:
                found += self._convert(each.partition, part, each)
        return found

    def _read(self, slots: Sequence[Sequence[OffsetRange]]) -> "DataFrame":
        return read(self._spark, self._source, ranges=encoded(slots))

    def _collected(self, query: "DataFrame") -> "pa.Table":
        """Returns the query's result. Raises ``_Unread`` if Kafka was the reason that it failed."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return query.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            kind, told = read_failure(self._java, error)
            if kind in (FailureKind.FAILED, FailureKind.ROWS):
                raise
            raise _Unread(SlotFailure(0, kind, told)) from error


class _WrittenBefore(Exception):
    """Another transaction has written this batch, so this one must be rolled back."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


class _Unread(Exception):
    """A batch could not be read."""

    def __init__(self, failure: SlotFailure) -> None:
        super().__init__(failure.error)
        self.failure = failure
