"""Batches that are read by Spark, converted here, and written into PostgreSQL by one transaction.

They are for conversions that Spark's plan cannot express, and for records that the database refuses: these
are found while the others are written. See ``copy_batches`` for all others.
"""

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cooperator.connectors.base import Cancelled
from cooperator.connectors.dead_letters import Letter, record_refused
from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, Superseded
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import LeftOut, OffsetRange, Partition, encoded
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    JobGroup,
    of_partition,
    read,
    read_failure,
)
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_refusals import DatabaseRefusal, StatementRefused
from cooperator.connectors.postgres_sink import Chunk, TargetChanged, move, stage
from cooperator.model.text import counted

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_STAGE: Final = "TASK_PUT"
"""Connect's name of what fails if the sink refuses a record."""
_MOST_KEPT: Final = 64 << 20
"""Characters of letters of one transaction: the database has to hold them, and to parse them."""


class Converted(NamedTuple):
    """Records of a partition as they were read, their rows, and those that are left out already.

    The rows have the numbers of their records.
    """

    range: OffsetRange
    raw: "pa.Table"
    chunks: Sequence[Chunk]
    left_out: Sequence[Letter]


class RowConverter(NamedTuple):
    """``convert`` returns the rows of records that were read of a partition, in order, and the records that
    are left out. ``letters`` returns these with what is written in their place; None: a record that the
    database refuses fails the batch.
    """

    convert: "Callable[[Partition, pa.Table], tuple[Sequence[Chunk], Sequence[Letter]]]"
    letters: Callable[[Partition, Sequence[Letter]], Sequence[LeftOut]] | None = None
    close: Callable[[], None] = lambda: None
    """It is called once no batch runs any more."""


Slots = Sequence[Sequence[OffsetRange]]


class PostgresBatches:
    """Runs the batches of one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        database: Database,
        positions: PostgresPositions,
        units: PostgresUnits,
        converter: RowConverter,
        say: Callable[[str], None] = lambda text: None,
        have_changed: Callable[[], bool] = lambda: False,
    ) -> None:
        """``have_changed`` returns whether a table is not as it was described; it is described anew then."""
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._source = source
        self._database = database
        self._positions = positions
        self._units = units
        self._converter = converter
        self._say = say
        self._have_changed = have_changed
        self._cancelled = threading.Event()
        self._group = JobGroup(spark, "batches")

    @property
    def reads_topics_apart(self) -> bool:
        return False

    def open(self, session: str) -> None:
        """There is nothing to initialise: a session is a value in the table of positions."""

    def run(
        self,
        session: str,
        slots: Slots,
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        try:
            parts = self._converted(slots)
        except _Unread as error:
            return Outcome(0, [error.failure])
        empty = [each for slot in slots for each in slot if not each.size]
        batch = _Batch(parts, empty)
        try:
            moves = self._database.once(lambda connection: self._write(connection, session, batch, records))
        except _TooManyLetters:
            return self._run_halves(session, slots, records)
        except (DatabaseUnavailable, Superseded) as error:
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, str(error))])
        except (TargetChanged, StatementRefused) as error:
            if not self._have_changed() and isinstance(error, StatementRefused):
                raise
            return Outcome(0, [SlotFailure(0, FailureKind.RETRIABLE, str(error))])
        finally:
            if batch.refused:
                self._say("")
        self._units.moved(moves)
        return Outcome(batch.rows, counts={part.range.partition: part.raw.num_rows for part in parts})

    def cancel(self) -> None:
        self._cancelled.set()
        self._group.cancel()
        self._database.interrupt()

    def close(self) -> None:
        try:
            self._converter.close()
        finally:
            self._database.close()

    def _write(
        self,
        connection: "psycopg.Connection[Any]",
        session: str,
        batch: "_Batch",
        records: Mapping[Partition, PositionRecord],
    ) -> list[Move]:
        def refuse(number: int, refusal: DatabaseRefusal) -> None:
            self._refuse(batch, number, refusal)

        batch.refused.clear()
        moves = self._units.moves(batch.ranges, records)
        stage(connection, batch.chunks, refuse)
        if not self._positions.check(connection, session, moves):
            raise Superseded("the batch was committed before")
        move(connection, batch.chunks, refuse)
        if self._converter.letters is not None:
            ranges = batch.ranges_without(self._converter.letters)
            moves = self._units.moves(ranges, records)
            kept = sum(len(each.letters) for each in moves)
            if kept > _MOST_KEPT and any(each.size > 1 for each in ranges):
                raise _TooManyLetters
        self._positions.move(connection, session, moves)
        return moves

    def _refuse(self, batch: "_Batch", number: int, refusal: DatabaseRefusal) -> None:
        """Leaves out a record that the database refuses, or raises."""
        if self._cancelled.is_set():
            raise Cancelled
        if not batch.refused:
            self._say(f"searching {counted(batch.records, 'record')} for those that the database refuses")
        part, row = batch.record(number)
        if self._converter.letters is None:
            remedy = f"{refusal.remedy}, or set errors.tolerance to all"
            raise record_refused(row, refusal.reason, remedy)
        error = record_refused(row, refusal.reason, refusal.remedy)
        if not batch.refused:
            log.warning("%s: left out: %s", part.range.partition, error)
        batch.refused[number] = Letter(row, _STAGE, error)

    def _run_halves(self, session: str, slots: Slots, records: Mapping[Partition, PositionRecord]) -> Outcome:
        """Runs the batch as two, one after the other: its letters are too large for one transaction."""
        middles = {each: (each.start + each.end + 1) // 2 for slot in slots for each in slot}
        halves = (
            [[each._replace(end=middles[each]) for each in slot] for slot in slots],
            [[each._replace(start=middles[each]) for each in slot if each.size > 1] for slot in slots],
        )
        total = Outcome(0)
        for half in halves:
            one = self.run(session, half, records)
            counts = {each: total.counts.get(each, 0) + one.counts.get(each, 0) for each in one.counts}
            total = Outcome(total.rows + one.rows, one.failures, {**total.counts, **counts})
            if one.failures:
                break
        return total

    def _converted(self, slots: Slots) -> list[Converted]:
        """Returns the records of a batch with their rows. An exception ends the attempt."""
        some = [tuple(each for each in slot if each.size) for slot in slots]
        some = [slot for slot in some if slot]
        if not some:
            return []
        raw = self._collected(read(self._spark, self._source, ranges=encoded(some), collected=True))
        found = []
        for each in [each for slot in some for each in slot]:
            part = of_partition(raw, each.partition)
            chunks, left_out = self._converter.convert(each.partition, part) if part.num_rows else ([], [])
            found.append(Converted(each, part, chunks, left_out))
        return found

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


class _Batch:
    """The records of one transaction, numbered over all partitions; ``empty`` are ranges without any."""

    def __init__(self, parts: Sequence[Converted], empty: Sequence[OffsetRange]) -> None:
        self._parts = parts
        self._empty = empty
        self._firsts: list[int] = []
        self.records = 0
        self.chunks: list[Chunk] = []
        self.refused: dict[int, Letter] = {}
        """The records that the database refuses."""
        for part in parts:
            first = self.records
            self._firsts.append(first)
            self.chunks += [
                Chunk(target, [(first + number, row) for number, row in rows])
                for target, rows in part.chunks
                if rows
            ]
            self.records += part.raw.num_rows

    @property
    def ranges(self) -> list[OffsetRange]:
        return [*self._empty, *(part.range for part in self._parts)]

    @property
    def rows(self) -> int:
        """The number of rows that the database accepts."""
        return sum(number not in self.refused for chunk in self.chunks for number, _ in chunk.rows)

    def record(self, number: int) -> tuple[Converted, Mapping[str, Any]]:
        """Returns a record as it was read, and its part."""
        place = bisect_right(self._firsts, number) - 1
        part = self._parts[place]
        [row] = part.raw.slice(number - self._firsts[place], 1).to_pylist()
        return part, row

    def ranges_without(
        self, letters: Callable[[Partition, Sequence[Letter]], Sequence[LeftOut]]
    ) -> list[OffsetRange]:
        """Returns the ranges, without the records that are left out."""
        found = [*self._empty]
        for first, part in zip(self._firsts, self._parts, strict=True):
            refused = [self.refused.get(first + number) for number in range(part.raw.num_rows)]
            left_out = [*part.left_out, *(letter for letter in refused if letter is not None)]
            left_out.sort(key=lambda letter: letter.row["offset"])
            some = tuple(letters(part.range.partition, left_out))
            found.append(part.range._replace(left_out=some))
        return found


class _TooManyLetters(Exception):
    """The letters do not fit into one transaction; nothing of it is written."""


class _Unread(Exception):
    """A batch could not be read."""

    def __init__(self, failure: SlotFailure) -> None:
        super().__init__(failure.error)
        self.failure = failure
