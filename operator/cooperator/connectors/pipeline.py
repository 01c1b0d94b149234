"""``spark``: copies any stream that Spark can read to any sink that it can write.

The formats are Spark's own or Python Data Sources (``data.sources`` names those to register). There is
one unit, or one for each entry of ``units``, each with a checkpoint of its own. Spark's file sinks are
exactly once, by their ``_spark_metadata``; all other sinks are at least once: after a crash the newest batch
may be written again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from cooperator.connectors import data_sources
from cooperator.connectors.base import Delivered, Delivery, UnitContext
from cooperator.connectors.formats import FILE_SINKS
from cooperator.connectors.offsets.sinks import file_sink
from cooperator.connectors.offsets.sources import SourceOffsets
from cooperator.connectors.options import (
    OptionError,
    Options,
    Problem,
)
from cooperator.connectors.pipeline_options import PipelineOptions
from cooperator.connectors.query import SparkQuery
from cooperator.connectors.raw_offsets import RawOffsets
from cooperator.connectors.references import own_topics
from cooperator.connectors.spark import SparkConnector, partitioned
from cooperator.connectors.stateful import check_partitions
from cooperator.connectors.transform import selected
from cooperator.model.text import did_you_mean, otherwise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FORMATS = (*FILE_SINKS, "kafka", "rate", "rate-micro-batch", "socket", "console", "noop", "memory", "delta")
_NOT_FOUND = "DATA_SOURCE_NOT_FOUND"
_NO_SCHEMA = "Schema must be specified when creating a streaming source"


class Pipeline(SparkConnector[PipelineOptions]):
    options: ClassVar[type[Options]] = PipelineOptions

    def delivery(self, options: PipelineOptions) -> Delivered:
        if options.sink_format not in FILE_SINKS:
            return super().delivery(options)
        note = (
            "Readers of the files must honour _spark_metadata, unit by unit, and the source must be "
            "replayable."
        )
        return Delivered(Delivery.EXACTLY_ONCE, note)

    def outputs(self, options: PipelineOptions) -> Sequence[str]:
        units = (f"unit-{number}" for number in range(len(options.unit_overrides)))
        return [path for unit in units if (path := _output(options, unit)) is not None]

    def offsets(self) -> SourceOffsets[PipelineOptions]:
        return RawOffsets(file_sink(_output))

    def units(self, options: PipelineOptions, say: Callable[[str], None]) -> Sequence[str]:
        return [f"unit-{number}" for number in range(len(options.unit_overrides))]

    def runs_remotely(self, options: PipelineOptions) -> bool:
        return not options.data_sources

    def open(self, options: PipelineOptions, context: UnitContext) -> SparkQuery:
        try:
            return super().open(options, context)
        except Exception as error:
            formats = {"source.format": options.source_format, "sink.format": options.sink_format}
            unknown = [
                Problem(name, value, "is not a format that Spark has here", _remedy(value))
                for name, value in formats.items()
                if _NOT_FOUND in str(error) and f" {value}." in str(error)
            ]
            if _NO_SCHEMA in str(error):
                problem = f"is required by the format {options.source_format}"
                remedy = "write the columns as DDL, such as id LONG, name STRING"
                unknown.append(Problem("source.schema", options.source_schema or None, problem, remedy))
            if not unknown:
                raise
            raise OptionError(unknown) from error

    def reader(self, spark: "SparkSession", options: PipelineOptions, context: UnitContext) -> "DataFrame":
        for name in options.data_sources:
            spark.dataSource.register(data_sources.load(name))
        source = spark.readStream.format(options.source_format)
        given = _without_topics_of(context.group_id, options.of_source(_number(context)))
        source = source.options(**options.with_access(options.source_format, given))
        rows = (source.schema(options.source_schema) if options.source_schema else source).load()
        if options.source_format == "kafka":
            # A pattern of Java's can be written so that it escapes what is put around it.
            rows = rows.where(~rows["topic"].isin(*sorted(own_topics(context.group_id))))
        if options.source_sql:
            rows = selected(rows, options.source_sql, "source.sql")
        if options.state_partitions is not None:
            check_partitions(options.state_partitions, context.checkpoint)
            rows.sparkSession.conf.set("spark.sql.shuffle.partitions", str(options.state_partitions))
        rows = _within_watermark(rows, options)
        return selected(rows, options.transform_sql) if options.transform_sql else rows

    def writer(
        self, stream: "DataFrame", options: PipelineOptions, context: UnitContext
    ) -> "DataStreamWriter":
        if options.sink_format == "kafka" and "topic" in stream.columns:
            stream = _refusing_topics_of(context.group_id, stream)
        sink = stream.writeStream.format(options.sink_format).outputMode(options.output_mode)
        sink = sink.options(**options.with_access(options.sink_format, options.of_sink(_number(context))))
        return partitioned(sink, stream, options.partition_by)


def _within_watermark(rows: "DataFrame", options: PipelineOptions) -> "DataFrame":
    """Returns the rows with their watermark, without duplicates; raises ``OptionError`` for bad columns."""
    types = {name.lower(): kind for name, kind in rows.dtypes}
    there = f"use one of {', '.join(rows.columns)}"
    if not options.watermark_column:
        return rows
    kind = types.get(options.watermark_column.lower())
    if kind not in ("timestamp", "timestamp_ntz"):
        problem = "does not name a column of the view input" if kind is None else f"is of type {kind}"
        remedy = there if kind is None else "make it a timestamp by source.sql: to_timestamp(…)"
        raise OptionError([Problem("watermark.column", options.watermark_column, problem, remedy)])
    for name in options.deduplicate_by:
        if name.lower() not in types:
            problem = "does not name a column of the view input"
            raise OptionError([Problem("deduplicate.by", name, problem, there)])
    rows = rows.withWatermark(options.watermark_column, f"{options.watermark_delay_ms} milliseconds")
    return rows.dropDuplicatesWithinWatermark([*options.deduplicate_by]) if options.deduplicate_by else rows


def _remedy(spark_format: str) -> str:
    more = "add its package to spec.spark.packages, or its name to data.sources"
    return otherwise(did_you_mean(spark_format, _FORMATS), more)


def _output(options: PipelineOptions, unit: str) -> str | None:
    """Returns the directory of a unit with a file sink; None for other sinks."""
    is_file_sink = options.sink_format in FILE_SINKS
    return options.of_sink(int(unit.removeprefix("unit-"))).get("path") if is_file_sink else None


def _number(context: UnitContext) -> int:
    return int(context.unit.removeprefix("unit-"))


def _without_topics_of(group_id: str, options: dict[str, str]) -> dict[str, str]:
    """Adds a lookahead to a Java pattern for Kafka's consumer, so that it never matches the group's own
    topics."""
    own = "|".join(sorted(own_topics(group_id))).replace(".", "[.]")
    return {
        name: f"(?!(?:{own})$)(?:{value})" if name == "subscribePattern" else value
        for name, value in options.items()
    }


def _refusing_topics_of(group_id: str, rows: "DataFrame") -> "DataFrame":
    """Makes a batch fail if its column ``topic`` names one of the group's own topics."""
    from pyspark.sql import functions as f

    refused = f.raise_error(f.concat(f.lit("a topic of the Worker's own group: "), f.col("topic")))
    is_own = f.col("topic").isin(*sorted(own_topics(group_id)))
    return rows.withColumn("topic", f.when(is_own, refused.cast("string")).otherwise(f.col("topic")))
