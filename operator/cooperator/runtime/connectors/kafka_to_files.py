"""``kafka-to-files``: topics become files of a directory, exactly once.

A unit is a partition of a topic and writes to a directory of its own, ``<path>/<topic>-<partition>``.
What is committed there is told by the directory's ``_spark_metadata``: read it with
``cooperator.runtime.output.read_units``, or with Spark unit by unit; never the parent directory, where
what a crash left over would count.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from cooperator.runtime.connectors.base import Delivered, Delivery, UnitContext
from cooperator.runtime.connectors.kafka_offsets import KafkaOffsets
from cooperator.runtime.connectors.kafka_source import (
    KafkaSourceOptions,
    partition_units,
    read_partition,
    source_partitions,
)
from cooperator.runtime.connectors.spark import SparkConnector
from cooperator.runtime.connectors.transform import Select, selected
from cooperator.runtime.offsets.sinks import file_sink
from cooperator.runtime.offsets.sources import SourceOffsets
from cooperator.runtime.options import FullPath, Names, Options, option, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class KafkaToFilesOptions(KafkaSourceOptions):
    path: FullPath = option(
        "path", expected="a directory that every member sees", fixed=True, local_path=True
    )
    format: Literal["parquet", "json", "csv"] = option(
        "format", "parquet", expected="parquet, json or csv", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to make directories of, with commas", fixed=True
    )
    sql: Select = option("sql", "", expected="the same as transform.sql, which is its newer name")

    @model_validator(mode="after")
    def _one_select(self) -> Self:
        if self.sql and self.transform_sql:
            raise refuse("cannot be given with transform.sql", "give one of them", "sql")
        return self


class KafkaToFiles(SparkConnector[KafkaToFilesOptions]):
    options: ClassVar[type[Options]] = KafkaToFilesOptions

    def delivery(self, options: KafkaToFilesOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, "Readers of the files must honour _spark_metadata, unit by unit."
        )

    def offsets(self) -> SourceOffsets[KafkaToFilesOptions]:
        return KafkaOffsets(file_sink(lambda options, unit: f"{options.path}/{unit}"))

    def units(self, options: KafkaToFilesOptions, say: Callable[[str], None]) -> Sequence[str]:
        return partition_units(source_partitions(options, say))

    def reader(
        self, spark: "SparkSession", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataFrame":
        records = read_partition(spark, options, context).selectExpr(
            "CAST(key AS STRING) AS key",
            "CAST(value AS STRING) AS value",
            "topic",
            "partition",
            "offset",
            "timestamp",
        )
        if options.sql:
            return selected(records, options.sql, "sql")
        return selected(records, options.transform_sql) if options.transform_sql else records

    def writer(
        self, stream: "DataFrame", options: KafkaToFilesOptions, context: UnitContext
    ) -> "DataStreamWriter":
        writer = stream.writeStream.format(options.format).option("path", f"{options.path}/{context.unit}")
        if options.format == "csv":
            writer = writer.option("header", True)
        return writer.partitionBy(*options.partition_by) if options.partition_by else writer
