"""Batches that are read by Spark and written into PostgreSQL by one transaction, with their positions."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, Superseded
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    JobGroup,
    of_partition,
    read,
    read_failure,
)
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_sink import Chunk, Lines, move, stage

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

Chunks = Sequence[Chunk | Lines]
Convert = Callable[[Partition, "pa.Table", OffsetRange], Chunks]
"""Returns the rows of records that were read of a partition, in order. An exception ends the attempt."""
ToLines = Callable[["DataFrame", str], "tuple[DataFrame, Callable[[pa.Table], Chunks]]"]
"""Returns a query on records of one topic, and what makes rows for a table of its result."""


class PostgresBatches:
    """Runs the batches of one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        database: Database,
        positions: PostgresPositions,
        units: PostgresUnits,
        *,
        to_lines: ToLines | None = None,
        convert: Convert | None = None,
        by_topic: bool = False,
        closing: Callable[[], None] = lambda: None,
    ) -> None:
        """Either ``to_lines`` or ``convert`` makes the rows. ``by_topic``: tables depend on the topic.

        ``closing`` is called once no batch runs any more.
        """
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._source = source
        self._database = database
        self._positions = positions
        self._units = units
        self._to_lines = to_lines
        self._convert = convert
        self._by_topic = by_topic
        self._closing = closing
        self._group = JobGroup(spark, "batches")

    @property
    def reads_topics_apart(self) -> bool:
        return self._by_topic

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
            failed = range(len(slots)) if error.kind is FailureKind.ROWS else [0]
            return Outcome(0, [SlotFailure(slot, error.kind, str(error)) for slot in failed])
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

    def _rows(
        self, slots: Sequence[Sequence[OffsetRange]], counts: dict[Partition, int]
    ) -> list[Chunk | Lines]:
        """Returns the rows of a batch; counts the records of partitions, as far as they are known."""
        some = [tuple(each for each in slot if each.size) for slot in slots]
        some = [slot for slot in some if slot]
        if not some:
            return []
        if self._to_lines is None:
            return self._converted(some, counts)
        found: list[Chunk | Lines] = []
        topics = sorted({each.partition.topic for slot in some for each in slot}) if self._by_topic else [""]
        for topic in topics:
            of_topic = [[e for e in slot if topic in ("", e.partition.topic)] for slot in some]
            query, chunks = self._to_lines(self._read(of_topic), topic or some[0][0].partition.topic)
            found += chunks(self._collected(query))
        return found

    def _converted(
        self, slots: Sequence[Sequence[OffsetRange]], counts: dict[Partition, int]
    ) -> list[Chunk | Lines]:
        assert self._convert is not None, "there is one of them"
        raw = self._collected(self._read(slots))
        found: list[Chunk | Lines] = []
        for each in [each for slot in slots for each in slot]:
            part = of_partition(raw, each.partition)
            counts[each.partition] = part.num_rows
            if part.num_rows:
                found += self._convert(each.partition, part, each)
        return found

    def _read(self, slots: Sequence[Sequence[OffsetRange]]) -> "DataFrame":
        ranges = [[[*each.partition, each.start, each.end] for each in slot] for slot in slots if slot]
        return read(self._spark, self._source, ranges=json.dumps(ranges))

    def _collected(self, query: "DataFrame") -> "pa.Table":
        """Returns the query's result. Raises ``_Unread`` if Kafka was the reason that it failed."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return query.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            kind, told = read_failure(self._java, error)
            if kind is FailureKind.FAILED or (kind is FailureKind.ROWS and self._to_lines is None):
                raise
            raise _Unread(kind, told) from error


class _WrittenBefore(Exception):
    """Another transaction has written this batch, so this one must be rolled back."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


class _Unread(Exception):
    """A batch could not be read."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
