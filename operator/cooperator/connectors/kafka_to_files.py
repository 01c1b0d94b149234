"""``kafka-to-files``: writes topics to files in a directory, exactly once.

A unit is a partition of a topic and writes to a directory of its own, ``<path>/<topic>-<partition>``. The
directory's ``_spark_metadata`` defines which files are committed: read it with
``cooperator.connectors.output.read_units``, or with Spark unit by unit; never read the parent directory,
where leftovers of a crash would count.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from cooperator.connectors.base import Delivered, Delivery, UnitContext
from cooperator.connectors.conversion import (
    Conversion,
    ConversionOptions,
    LetterBox,
    ensure_letters,
)
from cooperator.connectors.decoding import fields_of_value
from cooperator.connectors.file_sink import FileSink
from cooperator.connectors.kafka_offsets import KafkaOffsets
from cooperator.connectors.kafka_source import partition_lag, partition_units, source_partitions
from cooperator.connectors.offsets.sinks import file_sink
from cooperator.connectors.offsets.sources import SourceOffsets
from cooperator.connectors.options import FullPath, Names, Options, option, refuse
from cooperator.connectors.output_owner import NEWEST
from cooperator.connectors.outputs import Output
from cooperator.connectors.parts import as_one_table
from cooperator.connectors.spark import SparkConnector, partitioned
from cooperator.connectors.transform import Select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class KafkaToFilesOptions(ConversionOptions):
    path: FullPath = option(
        "path", expected="a directory that every member sees", fixed=True, local_path=True
    )
    format: Literal["parquet", "json", "csv"] = option(
        "format", "parquet", expected="parquet, json or csv", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to partition directories by, separated by commas", fixed=True
    )
    sql: Select = option("sql", "", expected="the older name of transform.sql")

    @property
    def select(self) -> str:
        return self.sql or self.transform_sql

    @property
    def select_option(self) -> str:
        return "sql" if self.sql else "transform.sql"

    @model_validator(mode="after")
    def _one_select(self) -> Self:
        if self.sql and self.transform_sql:
            raise refuse("cannot be combined with transform.sql", "use one of them", "sql")
        return self


class KafkaToFiles(SparkConnector[KafkaToFilesOptions]):
    options: ClassVar[type[Options]] = KafkaToFilesOptions

    def delivery(self, options: KafkaToFilesOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, "Readers of the files must honour _spark_metadata, unit by unit."
        )

    def outputs(self, options: KafkaToFilesOptions) -> Sequence[Output]:
        return [Output(options.path, frozenset(options.topics), options.topics_regex)]

    def offsets(self) -> SourceOffsets[KafkaToFilesOptions]:
        return KafkaOffsets(file_sink(lambda options, unit: f"{options.path}/{unit}"))

    def lag(self, options: KafkaToFilesOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToFilesOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = partition_units(source_partitions(options, say))
        ensure_letters(options)
        return found

    def runs_remotely(self, options: KafkaToFilesOptions) -> bool:
        return not options.by_record and options.tolerance == "none"

    def reader(
        self, spark: "SparkSession", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataFrame":
        return _conversion(options, context).stream(spark)

    def writer(
        self, stream: "DataFrame", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataStreamWriter":
        path = f"{options.path}/{context.unit}"
        format_options = {"header": "true"} if options.format == "csv" else {}
        if not _conversion(options, context).by_batch:
            writer = stream.writeStream.format(options.format).option("path", path).options(**format_options)
            return partitioned(writer, stream, options.partition_by)
        letter_box = LetterBox(options, context)
        # The sink is opened now, not with the first batch, so that a directory of another checkpoint is
        # refused early.
        opened = FileSink(stream.sparkSession, options.format, path, options.partition_by, format_options)
        conversion = _conversion(options, context, opened.accept)

        def write(batch: "DataFrame", batch_id: int) -> None:
            query = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
            parts, left_out = conversion.batch(batch)
            letter_box.put(query, batch_id, left_out)
            batch.sparkSession.conf.set(NEWEST, str(batch_id))
            sink = FileSink(batch.sparkSession, options.format, path, options.partition_by, format_options)
            sink.add(batch_id, as_one_table(parts))

        return stream.writeStream.foreachBatch(write)


def _conversion(
    options: KafkaToFilesOptions,
    context: UnitContext,
    accept: "Callable[[DataFrame], object]" = lambda rows: None,
) -> Conversion:
    def finish(rows: "DataFrame") -> "DataFrame":
        return rows if options.select or not options.can_fail else fields_of_value(rows)

    return Conversion(options, context, finish, accept=accept, one_table=True)
