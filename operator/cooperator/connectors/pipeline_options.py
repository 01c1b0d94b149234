"""Options of the class ``spark``: formats of source and sink with their own options, SQL, and state."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from cooperator.connectors.access import KafkaOptions, of_spark
from cooperator.connectors.formats import (
    FILE_SINKS,
    Side,
    checked_format,
    checked_options,
    defaults,
    is_path,
)
from cooperator.connectors.options import Names, anchored, option, refuse
from cooperator.connectors.output_paths import normal
from cooperator.connectors.transform import Columns, Select

_TOPICS = ("subscribe", "subscribePattern", "assign")
"""Options of Spark's Kafka source, of which it requires one."""

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


def _declared_names(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.fullmatch(r"[\w.-]+", name) for name in value):
        remedy = "write names of the entry points of cooperator.data_sources, separated by commas"
        raise refuse("is not a list of declared names", remedy)
    return value


Format = Annotated[str, AfterValidator(checked_format)]


class PipelineOptions(KafkaOptions):
    source_format: Format = option(
        "source.format", expected="a format of spark.readStream, such as json", fixed=True, min_length=1
    )
    source_schema: Columns = option(
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
    source_sql: Select = option(
        "source.sql",
        "",
        expected="a SELECT from the view input (the source's columns); its rows are the view input of "
        "transform.sql",
    )
    watermark_column: str = option(
        "watermark.column", "", expected="the column of the view input with the time of an event"
    )
    watermark_delay_ms: int | None = option(
        "watermark.delay.ms",
        None,
        expected="how late a row may be, in milliseconds; state of windows that are older is dropped",
        ge=0,
    )
    deduplicate_by: Names = option(
        "deduplicate.by",
        (),
        expected="columns of the view input, separated by commas: of rows that have the same values within "
        "the watermark's delay, one is kept",
        fixed=True,
    )
    state_partitions: int | None = option(
        "state.partitions",
        None,
        expected="the number of partitions of a query's state (default: spark.sql.shuffle.partitions)",
        fixed=True,
        ge=1,
        le=1_000,
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
    data_sources: Annotated[Names, AfterValidator(_declared_names)] = option(
        "data.sources",
        (),
        expected="names of declared Python Data Sources to register, separated by commas",
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
                name: anchored(value, base) if _is_passed_on(name) and is_path(name, config) else value
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
    def _known_options(self) -> Self:
        for number in range(len(self.unit_overrides)):
            self.of_source(number)
            self.of_sink(number)
        return self

    @model_validator(mode="after")
    def _topics(self) -> Self:
        if self.source_format != "kafka":
            return self
        for number in range(len(self.unit_overrides)):
            given = [name for name, value in self.of_source(number).items() if name in _TOPICS and value]
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
            for number in range(len(self.unit_overrides) if spark_format == "kafka" else 0):
                given = of_unit(number)
                changed = [name for name in given if name.startswith(_KAFKA_SECURITY)]
                if changed and _KAFKA_SERVERS not in given:
                    side: Side = "source" if prefix == _SOURCE else "sink"
                    [blamed] = [
                        blamed for name, _, blamed in self._given(side, number) if name.lower() == changed[0]
                    ]
                    remedy = f"use the connector's option, or set {prefix}{_KAFKA_SERVERS}, too"
                    raise refuse("would change the connector's own access to Kafka", remedy, blamed)
        return self

    @model_validator(mode="after")
    def _directories(self) -> Self:
        paths = [self.of_sink(number).get("path", "") for number in range(len(self.unit_overrides))]
        if self.sink_format not in FILE_SINKS:
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

    @model_validator(mode="after")
    def _watermark(self) -> Self:
        if bool(self.watermark_column) != (self.watermark_delay_ms is not None):
            given, other = ("column", "delay.ms") if self.watermark_column else ("delay.ms", "column")
            raise refuse(f"requires watermark.{other}", f"set watermark.{other}, too", f"watermark.{given}")
        if self.deduplicate_by and not self.watermark_column:
            remedy = "set watermark.column and watermark.delay.ms, which bound how long a row is remembered"
            raise refuse("requires a watermark", remedy, "deduplicate.by")
        return self

    def of_source(self, unit: int) -> dict[str, str]:
        """Returns the options that Spark's reader is given, under Spark's own names."""
        return self._options("source", self.source_format, unit)

    def of_sink(self, unit: int) -> dict[str, str]:
        return self._options("sink", self.sink_format, unit)

    def _options(self, side: Side, format_name: str, unit: int) -> dict[str, str]:
        given = checked_options(format_name, side, self._given(side, unit))
        return {**defaults(format_name, side), **given}

    def _given(self, side: Side, unit: int) -> list[tuple[str, str, str]]:
        """Returns (name, value, option at fault): those of a unit replace others of the same spelling."""
        prefix, of_all = (_SOURCE, self.source_options) if side == "source" else (_SINK, self.sink_options)
        own = _below(prefix, self.unit_overrides[unit])
        lower = {name.lower() for name in own}
        common = [(name, value, prefix + name) for name, value in of_all.items() if name.lower() not in lower]
        return [*common, *((name, value, "units") for name, value in own.items())]

    def with_access(self, spark_format: str, given: dict[str, str]) -> dict[str, str]:
        """Returns a format's options; for Kafka with the access options, unless ``given`` names brokers."""
        is_kafka = spark_format == "kafka" and _KAFKA_SERVERS not in given
        return {**of_spark(self), **given} if is_kafka else given


def _below(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
