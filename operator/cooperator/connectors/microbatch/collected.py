"""Batches that are converted on the driver, one unit after the other, and written in one transaction.

They are for batches that Spark's plan cannot convert: records that bring new types, and records that are left
out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.microbatch.batches import Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition, encoded
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    BatchTarget,
    SparkBatches,
    batch_of,
    of_partition,
    read,
    read_failure,
    run_batch,
)
from cooperator.connectors.output_record import OutputRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Convert = Callable[[Partition, "pa.Table"], Sequence[OutputRecord]]
"""Returns the records to write, each with its topic, of the records that were read of a partition, in order.

An exception ends the attempt.
"""


class CollectedBatches(SparkBatches):
    """Runs the batches of one task; see ``SparkBatches``."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        plan: "Callable[[DataFrame], DataFrame]",
        target: BatchTarget,
        convert: Convert,
    ) -> None:
        """``plan`` is a query on the records that must be possible; it does not run."""
        super().__init__(spark, source, plan, target)
        self._convert = convert
        self._encoded = target.encode()

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self._group.enter()
        ranges = [each for slot in slots for each in slot]
        raw = self._read([[each for each in slot if each.size] for slot in slots])
        if isinstance(raw, SlotFailure):
            return Outcome(0, [raw])
        counts: dict[Partition, int] = {}
        rows: list[OutputRecord] = []
        for each in ranges:
            part = of_partition(raw, each.partition)
            counts[each.partition] = part.num_rows
            if part.num_rows:
                rows += self._convert(each.partition, part)
        untyped: Any = self._spark.createDataFrame(_table(rows))
        plan = self._java.given(untyped._jdf.queryExecution(), self._encoded)
        try:
            outcome = run_batch(plan, {**batch_of(session, [ranges], records), "given": True}, [ranges])
        finally:
            plan.free()
        return Outcome(outcome.rows, outcome.failures, counts)

    def _read(self, slots: Sequence[Sequence[OffsetRange]]) -> "pa.Table | SlotFailure":
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        ranges = encoded([slot for slot in slots if slot])
        try:
            return read(self._spark, self._source, ranges=ranges, collected=True).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            return SlotFailure(0, *read_failure(self._java, error))


def _table(rows: Sequence[OutputRecord]) -> "pa.Table":
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "topic": pa.array([row.topic for row in rows], pa.string()),
            "partition": pa.array([None if row.partition < 0 else row.partition for row in rows], pa.int32()),
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in row.headers] for row in rows],
                pa.list_(header),
            ),
            "timestamp": pa.array([row.timestamp_ms or None for row in rows], pa.int64()),
        }
    )
