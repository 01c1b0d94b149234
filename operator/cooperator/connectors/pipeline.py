"""``spark``: copies any stream that Spark can read to any sink that it can write.

The formats are Spark's own or Python Data Sources (``data.sources`` names the classes to register). There is
one unit, or one for each entry of ``units``, each with a checkpoint of its own. Spark's file sinks are
exactly once, by their ``_spark_metadata``; all other sinks are at least once: after a crash the newest batch
may be written again.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from cooperator.connectors.access import KafkaOptions, of_spark
from cooperator.connectors.base import Delivered, Delivery, UnitContext
from cooperator.connectors.offsets.sinks import file_sink
from cooperator.connectors.offsets.sources import SourceOffsets
from cooperator.connectors.options import (
    RELATIVE,
    Names,
    OptionError,
    Options,
    Problem,
    anchored,
    is_full_path,
    option,
    refuse,
)
from cooperator.connectors.outputs import Output, normal
from cooperator.connectors.query import SparkQuery
from cooperator.connectors.raw_offsets import RawOffsets
from cooperator.connectors.references import contains_reference, own_topics
from cooperator.connectors.spark import SparkConnector, partitioned
from cooperator.connectors.transform import selected
from cooperator.model.text import did_you_mean, otherwise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FILE_SINKS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
"""Formats whose sink commits a batch by ``_spark_metadata`` in its directory."""

_FORMATS = (*FILE_SINKS, "kafka", "rate", "rate-micro-batch", "socket", "console", "noop", "memory", "delta")
_NOT_FOUND = "DATA_SOURCE_NOT_FOUND"
_NO_SCHEMA = "Schema must be specified when creating a streaming source"
_FILES = (*FILE_SINKS, "binaryfile", "delta", "libsvm", "image")
"""Formats whose option ``path`` is a directory; in others it may be anything, such as the name of a table."""
_PATHS = (
    *("sourcearchivedir", "badrecordspath", "avroschemaurl", "rowvalidationxsdpath"),
    *("schemalocation", "schematrackinglocation"),
    *("kafka.ssl.truststore.location", "kafka.ssl.keystore.location"),
)
"""Other options that are paths, in lower case."""
_CHECKPOINT = "checkpointlocation"
_TOPICS = ("subscribe", "subscribepattern", "assign")
"""Options of Spark's Kafka source, of which it requires one, in lower case."""

_KAFKA_SERVERS = "kafka.bootstrap.servers"
_KAFKA_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_SOURCE, _SINK = "source.options.", "sink.options."


def _overrides(value: Any) -> Any:
    """Parses a JSON list of objects into a tuple of maps."""
    if not isinstance(value, str) or not value:
        return value
    remedy = f'write a JSON list of objects, such as [{{"{_SOURCE}path": "/a"}}, {{"{_SOURCE}path": "/b"}}]'
    try:
        entries = json.loads(value)
    except (ValueError, RecursionError):
        raise refuse("is not valid JSON", remedy) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise refuse("is not a list of objects", remedy)
    for name in {name for entry in entries for name in entry}:
        if not _is_passed_on(name):
            raise refuse("overrides options other than those of source and sink", remedy)
    if not all(isinstance(text, str) for entry in entries for text in entry.values()):
        raise refuse("has values that are not strings", remedy)
    return tuple(entries)


def _is_passed_on(name: str) -> bool:
    return name.startswith((_SOURCE, _SINK)) and name not in (_SOURCE, _SINK, f"{_SOURCE}*", f"{_SINK}*")


def _class_names(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(all(part.isidentifier() for part in name.replace(":", ".").split(".")) for name in value):
        raise refuse("is not a list of classes", "write module:Class, several separated by commas")
    if not all(name.count(":") == 1 for name in value):
        raise refuse("names no class", "write module:Class, several separated by commas")
    return value


def _format(value: str) -> str:
    if "." in value and not contains_reference(value):
        # A class has names that no check of paths and topics knows.
        remedy = "write a format's short name, or register a Python Data Source by data.sources"
        raise refuse("is the name of a class", remedy)
    return value


Format = Annotated[str, AfterValidator(_format)]


class PipelineOptions(KafkaOptions):
    source_format: Format = option(
        "source.format", expected="a format of spark.readStream, such as json", fixed=True, min_length=1
    )
    source_schema: str = option(
        "source.schema", "", expected="the columns as DDL (id LONG, name STRING); required for files"
    )
    source_options: dict[str, str] = option(
        "source.options.*",
        {},
        expected="options of the source; the part after the prefix is the option's name",
    )
    sink_format: Format = option(
        "sink.format", expected="a format of writeStream, such as parquet", fixed=True, min_length=1
    )
    sink_options: dict[str, str] = option(
        "sink.options.*", {}, expected="options of the sink; the part after the prefix is the option's name"
    )
    output_mode: Literal["append", "update", "complete"] = option(
        "sink.output.mode", "append", expected="append, update or complete", fixed=True
    )
    partition_by: Names = option(
        "partition.by", (), expected="columns to partition directories by, separated by commas", fixed=True
    )
    unit_overrides: Annotated[tuple[dict[str, str], ...], BeforeValidator(_overrides)] = option(
        "units",
        ({},),
        expected="a JSON list with options of source and sink for each unit (default: one unit)",
        fixed=True,
        min_length=1,
    )
    data_sources: Annotated[Names, AfterValidator(_class_names)] = option(
        "data.sources", (), expected="Python Data Sources to register, as module:Class, separated by commas"
    )

    @model_validator(mode="before")
    @classmethod
    def _collected(cls, config: Any) -> Any:
        """Collects the options with a prefix into one map each."""
        if not isinstance(config, Mapping):
            return config
        rest = {name: value for name, value in config.items() if not _is_passed_on(name)}
        for prefix in (_SOURCE, _SINK):
            if f"{prefix}*" in rest:
                return config  # refused later: text where a map is expected
            rest[f"{prefix}*"] = _below(prefix, config)
        return rest

    @classmethod
    def anchored(cls, config: Mapping[str, str], base: Path) -> dict[str, str]:
        def whole(options: Mapping[str, str]) -> dict[str, str]:
            return {
                name: anchored(value, base) if _is_path(name, config) else value
                for name, value in options.items()
            }

        found = {**super().anchored(config, base), **whole(config)}
        if "units" in config:
            try:
                overrides = _overrides(config["units"])
            except PydanticCustomError:
                return found  # The check of the configuration reports the problem.
            changed = [whole(each) for each in overrides] if isinstance(overrides, tuple) else []
            if changed and changed != list(overrides):
                found["units"] = json.dumps(changed)
        return found

    @model_validator(mode="after")
    def _full_paths(self) -> Self:
        formats = {"source.format": self.source_format, "sink.format": self.sink_format}
        of_all = {**_prefixed(_SOURCE, self.source_options), **_prefixed(_SINK, self.sink_options)}
        of_units = [(name, value, "units") for each in self.unit_overrides for name, value in each.items()]
        for name, value, blamed in [*((name, value, name) for name, value in of_all.items()), *of_units]:
            if name.rpartition(".")[2].lower() == _CHECKPOINT:
                raise refuse(
                    f"has {_CHECKPOINT}, which the Worker sets",
                    "remove it, and set spec.checkpointLocation of the Worker",
                    blamed,
                )
            if (
                _is_path(name, formats)
                and value
                and not is_full_path(value)
                and not contains_reference(value)
            ):
                problem, remedy = RELATIVE
                raise refuse(problem, f"{remedy}: members run in different directories", blamed)
        return self

    @model_validator(mode="after")
    def _topics(self) -> Self:
        if self.source_format.lower() != "kafka":
            return self
        for number in range(len(self.unit_overrides)):
            given = [
                name for name, value in self.of_source(number).items() if name.lower() in _TOPICS and value
            ]
            if len(given) != 1:
                found = f"names topics by {' and '.join(sorted(given))}" if given else "names no topic"
                remedy = f"set {_SOURCE}subscribe, or {_SOURCE}subscribePattern, or {_SOURCE}assign"
                raise refuse(
                    found,
                    f"{remedy}, for each unit",
                    "units" if self.unit_overrides[number] else f"{_SOURCE}subscribe",
                )
        return self

    @model_validator(mode="after")
    def _one_access(self) -> Self:
        """Refuses security settings among Kafka's own options that would change the connector's access."""
        sides = ((_SOURCE, self.source_format, self.of_source), (_SINK, self.sink_format, self.of_sink))
        for prefix, spark_format, of_unit in sides:
            for number in range(len(self.unit_overrides) if spark_format.lower() == "kafka" else 0):
                given = {name.lower(): name for name in of_unit(number)}
                changed = [given[name] for name in given if name.startswith(_KAFKA_SECURITY)]
                if changed and _KAFKA_SERVERS not in given:
                    blamed = prefix + changed[0]
                    remedy = f"use the connector's option, or set {prefix}{_KAFKA_SERVERS}, too"
                    raise refuse(
                        "would change the connector's own access to Kafka",
                        remedy,
                        blamed if changed[0] in (self.source_options | self.sink_options) else "units",
                    )
        return self

    @model_validator(mode="after")
    def _directories(self) -> Self:
        paths = [self.of_sink(number).get("path", "") for number in range(len(self.unit_overrides))]
        if self.sink_format.lower() not in FILE_SINKS:
            if self.partition_by:
                raise refuse("only applies to file sinks", f"remove it, or use {FILE_SINKS}", "partition.by")
            return self
        if not all(paths):
            raise refuse("requires a directory", f"set {_SINK}path", "sink.format")
        if len({normal(path) for path in paths}) < len(paths):
            remedy = f"override {_SINK}path for each unit: rows of two units in one directory are lost"
            raise refuse("write to the same directory", remedy, "units")
        if self.output_mode != "append":
            raise refuse("is not possible for files", "use append", "sink.output.mode")
        return self

    def of_source(self, unit: int) -> dict[str, str]:
        return {**self.source_options, **_below(_SOURCE, self.unit_overrides[unit])}

    def of_sink(self, unit: int) -> dict[str, str]:
        return {**self.sink_options, **_below(_SINK, self.unit_overrides[unit])}

    def with_access(self, spark_format: str, given: dict[str, str]) -> dict[str, str]:
        """Returns a format's options; for Kafka with the access options, unless ``given`` names brokers."""
        is_kafka = spark_format.lower() == "kafka" and _KAFKA_SERVERS not in {name.lower() for name in given}
        return {**of_spark(self), **given} if is_kafka else given


def _is_path(name: str, formats: Mapping[str, str]) -> bool:
    """Whether an option of source or sink is a path, by its name and the format."""
    if not _is_passed_on(name):
        return False
    side, prefix = ("source", _SOURCE) if name.startswith(_SOURCE) else ("sink", _SINK)
    option_name = name.removeprefix(prefix).lower()
    return option_name in _PATHS or (
        option_name == "path" and formats.get(f"{side}.format", "").lower() in _FILES
    )


def _prefixed(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in options.items()}


def _below(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


class Pipeline(SparkConnector[PipelineOptions]):
    options: ClassVar[type[Options]] = PipelineOptions

    def delivery(self, options: PipelineOptions) -> Delivered:
        if options.sink_format.lower() not in FILE_SINKS:
            return super().delivery(options)
        note = (
            "Readers of the files must honour _spark_metadata, unit by unit, and the source must be "
            "replayable."
        )
        return Delivered(Delivery.EXACTLY_ONCE, note)

    def outputs(self, options: PipelineOptions) -> Sequence[Output]:
        units = (f"unit-{number}" for number in range(len(options.unit_overrides)))
        return [Output(path) for unit in units if (path := _output(options, unit)) is not None]

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
            spark.dataSource.register(_loaded(name))
        source = spark.readStream.format(options.source_format)
        given = _without_topics_of(context.group_id, options.of_source(_number(context)))
        source = source.options(**options.with_access(options.source_format, given))
        rows = (source.schema(options.source_schema) if options.source_schema else source).load()
        if options.source_format.lower() == "kafka":
            # A pattern of Java's can be written so that it escapes what is put around it.
            rows = rows.where(~rows["topic"].isin(*sorted(own_topics(context.group_id))))
        return selected(rows, options.transform_sql) if options.transform_sql else rows

    def writer(
        self, stream: "DataFrame", options: PipelineOptions, context: UnitContext
    ) -> "DataStreamWriter":
        if options.sink_format.lower() == "kafka" and "topic" in stream.columns:
            stream = _refusing_topics_of(context.group_id, stream)
        sink = stream.writeStream.format(options.sink_format).outputMode(options.output_mode)
        sink = sink.options(**options.with_access(options.sink_format, options.of_sink(_number(context))))
        return partitioned(sink, stream, options.partition_by)


def _remedy(spark_format: str) -> str:
    more = "add its package to spec.spark.packages, or its class to data.sources"
    return otherwise(did_you_mean(spark_format, _FORMATS), more)


def _output(options: PipelineOptions, unit: str) -> str | None:
    """Returns the directory of a unit with a file sink; None for other sinks."""
    is_file_sink = options.sink_format.lower() in FILE_SINKS
    return options.of_sink(int(unit.removeprefix("unit-"))).get("path") if is_file_sink else None


def _number(context: UnitContext) -> int:
    return int(context.unit.removeprefix("unit-"))


def _without_topics_of(group_id: str, options: dict[str, str]) -> dict[str, str]:
    """Adds a lookahead to a Java pattern for Kafka's consumer, so that it never matches the group's own
    topics."""
    own = "|".join(sorted(own_topics(group_id))).replace(".", "[.]")
    return {
        name: f"(?!(?:{own})$)(?:{value})" if name.lower() == "subscribepattern" else value
        for name, value in options.items()
    }


def _refusing_topics_of(group_id: str, rows: "DataFrame") -> "DataFrame":
    """Makes a batch fail if its column ``topic`` names one of the group's own topics."""
    from pyspark.sql import functions as f

    refused = f.raise_error(f.concat(f.lit("a topic of the Worker's own group: "), f.col("topic")))
    is_own = f.col("topic").isin(*sorted(own_topics(group_id)))
    return rows.withColumn("topic", f.when(is_own, refused.cast("string")).otherwise(f.col("topic")))


def _loaded(name: str) -> Any:
    module, _, class_name = name.partition(":")
    try:
        return getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError) as error:
        remedy = "install its package on every member"
        raise OptionError([Problem("data.sources", name, f"cannot be loaded: {error}", remedy)]) from None
