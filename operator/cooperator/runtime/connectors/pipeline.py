"""``spark``: anything that Spark can read as a stream, to anything that it can write.

The formats are Spark's own or Python Data Sources (``data.sources`` names the classes to register). There
is one unit, or one for each entry of ``units``, each with a checkpoint of its own. A file sink of Spark's
is exactly once, by its ``_spark_metadata``; everything else is at least once: after a death the newest
batch may be written again.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from cooperator.runtime.connectors.access import KafkaOptions, of_spark
from cooperator.runtime.connectors.base import Delivered, Delivery, UnitContext
from cooperator.runtime.connectors.raw_offsets import RawOffsets
from cooperator.runtime.connectors.spark import SparkConnector
from cooperator.runtime.connectors.transform import selected
from cooperator.runtime.offsets.sinks import file_sink
from cooperator.runtime.offsets.sources import SourceOffsets
from cooperator.runtime.options import Names, OptionError, Options, Problem, option, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FILE_SINKS = ("parquet", "orc", "json", "csv", "text", "avro")
"""Formats whose sink commits a batch by ``_spark_metadata`` in its directory."""

_KAFKA_SERVERS = "kafka.bootstrap.servers"
_SOURCE, _SINK = "source.options.", "sink.options."


def _overrides(value: Any) -> Any:
    """A JSON list of objects, as a tuple of maps."""
    if not isinstance(value, str) or not value:
        return value
    remedy = f'write a JSON list of objects, such as [{{"{_SOURCE}path": "/a"}}, {{"{_SOURCE}path": "/b"}}]'
    try:
        entries = json.loads(value)
    except ValueError:
        raise refuse("is no JSON", remedy) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise refuse("is no list of objects", remedy)
    for name in {name for entry in entries for name in entry}:
        if not _is_passed_on(name):
            raise refuse("overrides something else than options of source and sink", remedy)
    if not all(isinstance(text, str) for entry in entries for text in entry.values()):
        raise refuse("has values that are no strings", remedy)
    return tuple(entries)


def _is_passed_on(name: str) -> bool:
    return name.startswith((_SOURCE, _SINK)) and name not in (_SOURCE, _SINK, f"{_SOURCE}*", f"{_SINK}*")


def _class_names(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(all(part.isidentifier() for part in name.replace(":", ".").split(".")) for name in value):
        raise refuse("is no list of classes", "write module:Class, several with commas")
    if not all(name.count(":") == 1 for name in value):
        raise refuse("names no class", "write module:Class, several with commas")
    return value


class PipelineOptions(KafkaOptions):
    source_format: str = option(
        "source.format", expected="a format of spark.readStream, such as json", fixed=True, min_length=1
    )
    source_schema: str = option(
        "source.schema", "", expected="the columns as DDL (id LONG, name STRING); files need it"
    )
    source_options: dict[str, str] = option(
        "source.options.*", {}, expected="options of the source: what follows the second dot is their name"
    )
    sink_format: str = option(
        "sink.format", expected="a format of writeStream, such as parquet", fixed=True, min_length=1
    )
    sink_options: dict[str, str] = option(
        "sink.options.*", {}, expected="options of the sink: what follows the second dot is their name"
    )
    output_mode: Literal["append", "update", "complete"] = option(
        "sink.output.mode", "append", expected="append, update or complete", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to make directories of, with commas", fixed=True
    )
    unit_overrides: Annotated[tuple[dict[str, str], ...], BeforeValidator(_overrides)] = option(
        "units",
        ({},),
        expected="a JSON list with options of source and sink for each unit (default: one unit)",
        fixed=True,
        min_length=1,
    )
    data_sources: Annotated[Names, AfterValidator(_class_names)] = option(
        "data.sources", (), expected="Python Data Sources to register, as module:Class, with commas"
    )

    @model_validator(mode="before")
    @classmethod
    def _collected(cls, config: Any) -> Any:
        """Options with a prefix, as one map each."""
        if not isinstance(config, Mapping):
            return config
        rest = {name: value for name, value in config.items() if not _is_passed_on(name)}
        for prefix in (_SOURCE, _SINK):
            if f"{prefix}*" in rest:
                return config  # refused as what it is: text where a map is wanted
            rest[f"{prefix}*"] = _below(prefix, config)
        return rest

    @model_validator(mode="after")
    def _directories(self) -> Self:
        paths = [self.of_sink(number).get("path", "") for number in range(len(self.unit_overrides))]
        if self.sink_format.lower() not in FILE_SINKS:
            if self.partition_by:
                raise refuse("is for file sinks", f"leave it out, or use {FILE_SINKS}", "partition.by")
            return self
        if not all(paths):
            raise refuse("needs a directory", f"give {_SINK}path", "sink.format")
        if len({path.rstrip("/") for path in paths}) < len(paths):
            remedy = f"override {_SINK}path for each: rows of two units in one directory are lost"
            raise refuse("write to the same directory", remedy, "units")
        if self.output_mode != "append":
            raise refuse("is not possible for files", "use append", "sink.output.mode")
        return self

    def of_source(self, unit: int) -> dict[str, str]:
        return {**self.source_options, **_below(_SOURCE, self.unit_overrides[unit])}

    def of_sink(self, unit: int) -> dict[str, str]:
        return {**self.sink_options, **_below(_SINK, self.unit_overrides[unit])}

    def with_access(self, spark_format: str, given: dict[str, str]) -> dict[str, str]:
        """The options of a format; of Kafka's with the way into it, unless brokers are named there."""
        is_kafka = spark_format.lower() == "kafka" and _KAFKA_SERVERS not in {name.lower() for name in given}
        return {**of_spark(self), **given} if is_kafka else given


def _below(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


class Pipeline(SparkConnector[PipelineOptions]):
    options: ClassVar[type[Options]] = PipelineOptions

    def delivery(self, options: PipelineOptions) -> Delivered:
        if options.sink_format.lower() not in FILE_SINKS:
            return super().delivery(options)
        note = (
            "Readers of the files must honour _spark_metadata, unit by unit, and the source must give the "
            "same rows again."
        )
        return Delivered(Delivery.EXACTLY_ONCE, note)

    def offsets(self) -> SourceOffsets[PipelineOptions]:
        return RawOffsets(file_sink(_output))

    def units(self, options: PipelineOptions, say: Callable[[str], None]) -> Sequence[str]:
        return [f"unit-{number}" for number in range(len(options.unit_overrides))]

    def runs_remotely(self, options: PipelineOptions) -> bool:
        return not options.data_sources

    def reader(self, spark: "SparkSession", options: PipelineOptions, context: UnitContext) -> "DataFrame":
        for name in options.data_sources:
            spark.dataSource.register(_loaded(name))
        if context.server is None:
            # A sink's format is looked up in the session that is active on this thread, which opens the unit.
            untyped: Any = spark
            untyped._get_j_spark_session_class(untyped._jvm).setActiveSession(untyped._jsparkSession)
        source = spark.readStream.format(options.source_format)
        source = source.options(
            **options.with_access(options.source_format, options.of_source(_number(context)))
        )
        rows = (source.schema(options.source_schema) if options.source_schema else source).load()
        return selected(rows, options.transform_sql) if options.transform_sql else rows

    def writer(
        self, stream: "DataFrame", options: PipelineOptions, context: UnitContext
    ) -> "DataStreamWriter":
        sink = stream.writeStream.format(options.sink_format).outputMode(options.output_mode)
        sink = sink.options(**options.with_access(options.sink_format, options.of_sink(_number(context))))
        return sink.partitionBy(*options.partition_by) if options.partition_by else sink


def _output(options: PipelineOptions, unit: str) -> str | None:
    """The directory of a unit with a file sink."""
    is_file_sink = options.sink_format.lower() in FILE_SINKS
    return options.of_sink(int(unit.removeprefix("unit-"))).get("path") if is_file_sink else None


def _number(context: UnitContext) -> int:
    return int(context.unit.removeprefix("unit-"))


def _loaded(name: str) -> Any:
    module, _, class_name = name.partition(":")
    try:
        return getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError) as error:
        remedy = "install the package that has it on every member"
        raise OptionError([Problem("data.sources", name, f"cannot be loaded: {error}", remedy)]) from None
