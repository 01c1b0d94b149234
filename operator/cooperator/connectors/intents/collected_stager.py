"""Stages the rows of batches that are converted on the driver, one unit after the other.

They are for batches that Spark's plan cannot convert: records that bring new types, and records that are left
out.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.intents.batches import StageFailed, Written
from cooperator.connectors.intents.naming import folder_of
from cooperator.connectors.intents.spark_stager import FileFormat
from cooperator.connectors.microbatch.ranges import OffsetRange, encoded
from cooperator.connectors.microbatch.spark_batches import (
    BatchSource,
    JobGroup,
    of_partition,
    read,
    read_failure,
)
from cooperator.connectors.parts import as_relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Convert = Callable[[OffsetRange, "pa.Table"], "pa.Table | None"]
"""Returns the rows of the records of a range, in order. An exception ends the attempt."""


class CollectedStager:
    """A ``Stager`` for one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self, spark: "SparkSession", source: BatchSource, convert: Convert, file_format: FileFormat
    ) -> None:
        """``spark`` is the task's own session."""
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._source = source
        self._convert = convert
        self._format = file_format
        self._group = JobGroup(spark, f"files of {source.pool}", "a batch of files")
        file_format.prepare(spark)

    def write(self, directory: str, ranges: Sequence[OffsetRange]) -> Written:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        self._group.enter()
        slots = encoded([[each] for each in ranges])
        try:
            raw = read(self._spark, self._source, ranges=slots, collected=True).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            raise StageFailed(*read_failure(self._java, error)) from error
        counts, written = {}, 0
        for number, each in enumerate(ranges):
            records = of_partition(raw, each.partition)
            counts[each.partition] = records.num_rows
            rows = self._convert(each, records) if records.num_rows else None
            if rows is None or not rows.num_rows:
                continue
            written += rows.num_rows
            try:
                # One Spark partition keeps the records' order.
                frame = as_relation(rows, self._spark).coalesce(1)
                self._format.save(frame, f"{directory}/{folder_of(number)}")
            except (PySparkException, Py4JJavaError) as error:
                raise StageFailed(*read_failure(self._java, error)) from error
        return Written(written, counts)

    def cancel(self) -> None:
        self._group.cancel()
