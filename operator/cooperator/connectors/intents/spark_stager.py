"""Stages the rows of a batch by one Spark job: read from Kafka, converted by the plan, written by the
tasks."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.intents.batches import StageFailed, Written
from cooperator.connectors.microbatch.ranges import OffsetRange, encoded
from cooperator.connectors.microbatch.spark_batches import (
    LEAST_SLOTS,
    BatchSource,
    FailingSearch,
    JobGroup,
    read,
    read_failure,
)
from cooperator.connectors.planned_decoding import failing_once

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_PROTOCOL: Final = "spark.sql.sources.commitProtocolClass"
_STAGED_FILES: Final = "dev.cooperator.spark.StagedFiles"
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_SHUFFLED: Final = "spark.sql.shuffle.partitions"
_NO_MARKER: Final = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


class RowsMoved(ValueError):
    """A query's plan does not keep each record where it was read."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of files, with Spark's options, and the columns that directories are partitioned by.

    No file has more than ``max_rows`` rows; None: any number.
    """

    name: str
    partition_by: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    max_rows: int | None = None

    def prepare(self, spark: "SparkSession") -> None:
        """Gives a session the commit protocol by which files are staged."""
        spark.conf.set(_PROTOCOL, _STAGED_FILES)

    def save(self, rows: "DataFrame", directory: str) -> None:
        limit = {"maxRecordsPerFile": str(self.max_rows)} if self.max_rows is not None else {}
        writer = rows.write.format(self.name).options(**self.options, **_NO_MARKER, **limit)
        writer.mode("append").partitionBy(*self.partition_by).save(directory)


class SparkStager:
    """A ``Stager`` for one task, all in one thread; ``cancel`` may be called by any."""

    def __init__(
        self,
        spark: "SparkSession",
        source: BatchSource,
        transform: "Callable[[DataFrame], DataFrame]",
        file_format: FileFormat,
        *,
        can_fail: bool = False,
    ) -> None:
        """``spark`` is the task's own session. ``transform`` keeps each record where it was read.

        Raises ``RowsMoved`` if it does not: rows of two units would be in one file. With ``can_fail`` a job
        that fails for a row is not tried again.
        """
        untyped: Any = spark
        self._spark = spark
        self._java: Any = untyped._jvm.dev.cooperator.spark.KafkaTransactions
        self._counts: Any = untyped._jvm.dev.cooperator.spark.RangeCounts
        self._source = source
        self._transform = transform
        self._format = file_format
        self._can_fail = can_fail
        self._group = JobGroup(spark, f"files of {source.pool}", "a batch of files")
        file_format.prepare(spark)
        # A plan that moves no rows has nothing to adapt, and another one shows by its number of partitions.
        spark.conf.set(_ADAPTIVE, "false")
        spark.conf.set(_SHUFFLED, str(LEAST_SLOTS + 1))
        planned: Any = transform(read(spark, source, slots=LEAST_SLOTS))
        partitions = planned._jdf.queryExecution().toRdd().getNumPartitions()
        if partitions != LEAST_SLOTS:
            raise RowsMoved(
                f"the query's plan has {partitions} Spark partitions instead of {LEAST_SLOTS}: the SQL "
                "must keep each record where it was read"
            )

    def write(self, directory: str, ranges: Sequence[OffsetRange]) -> Written:
        import pyspark.sql.functions as F  # noqa: N812
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
        from pyspark.sql import Observation

        self._group.enter()
        slots = encoded([[each] for each in ranges])
        counted, reading = Observation(), uuid.uuid4().hex
        try:
            rows = self._transform(read(self._spark, self._source, ranges=slots, counts=reading))
            if self._can_fail:
                rows = failing_once(rows)
            rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
            self._format.save(rows, directory)
        except (PySparkException, Py4JJavaError) as error:
            raise StageFailed(*read_failure(self._java, error)) from error
        finally:
            records = dict(self._counts.take(reading))
        return Written(
            int(counted.get["rows"]), {ranges[number].partition: count for number, count in records.items()}
        )

    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        """Returns records that the transform fails for; see ``PlannedBatches``."""
        self._group.enter()
        rows = self._transform(read(self._spark, self._source, slots=len(slots)))
        return FailingSearch(self._spark, lambda: rows, is_before_rows=True).find(slots, most)

    def cancel(self) -> None:
        self._group.cancel()
