"""``kafka-to-kafka``: records of topics become records of topics, exactly once.

A unit is a partition of a source topic. Key, value and headers are kept as they are, so is the
timestamp, and the number of the partition where that is wanted. Each batch is one transaction of the
unit's producer with the batch's marker (see ``exactly_once``): readers need ``read_committed``. Rows that
``transform.sql`` cannot convert may go to a dead-letter topic, in the same transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, model_validator

from cooperator.runtime.connectors.base import Delivered, UnitContext
from cooperator.runtime.connectors.dead_letters import DeadLetterOptions, convert, letters
from cooperator.runtime.connectors.exactly_once import Record, Row
from cooperator.runtime.connectors.kafka_offsets import KafkaOffsets
from cooperator.runtime.connectors.kafka_sink import DELIVERED, KafkaSinkOptions, deliver, is_delivered
from cooperator.runtime.connectors.kafka_source import (
    KafkaSourceOptions,
    partition_units,
    read_partition,
    reads,
    source_partitions,
)
from cooperator.runtime.connectors.records import as_records
from cooperator.runtime.connectors.spark import SparkConnector, local_rows
from cooperator.runtime.connectors.topics import client_config, ensure_topic, grow_topic, reaching
from cooperator.runtime.connectors.transform import selected
from cooperator.runtime.offsets.sinks import Sink
from cooperator.runtime.offsets.sources import SourceOffsets
from cooperator.runtime.options import OptionError, Options, Problem, is_topic_name, option, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SOURCE = "{topic}"
_LOOP = "would be read again by this connector"
_LOOP_REMEDY = "name a topic that topics and topics.regex leave out"


def _pattern(value: str) -> str:
    if not is_topic_name(value.replace(_SOURCE, "t")):
        raise refuse(
            "is no topic name",
            "use letters, digits, dots, underscores and dashes, and {topic} for the source topic's name",
        )
    return value


class KafkaToKafkaOptions(KafkaSourceOptions, KafkaSinkOptions, DeadLetterOptions):
    topic: Annotated[str, AfterValidator(_pattern)] = option(
        "topic",
        expected="the topic to write to; {topic} stands for the source topic's name, as in copy.{topic}",
        fixed=True,
    )
    max_offsets: int = option(
        "max.offsets.per.trigger",
        10_000,
        expected="the number of records that make a batch (it has to fit into memory)",
        ge=1,
    )
    partitions: int | None = option(
        "topic.partitions",
        None,
        expected="the number of partitions to create a topic with (default: as its source has)",
        instance_only=True,
        ge=1,
    )
    keep_partition: Literal["keep", "key"] = option(
        "record.partition", "key", expected="keep (the source's number) or key (by the hash of the key)"
    )
    keep_timestamp: Literal["keep", "now"] = option(
        "record.timestamp", "keep", expected="keep (the source's) or now (the time of writing)"
    )

    @model_validator(mode="after")
    def _no_loop(self) -> Self:
        if _SOURCE not in self.topic and reads(self, self.topic):
            raise refuse(_LOOP, _LOOP_REMEDY, "topic")
        if self.dead_letters and reads(self, self.dead_letters):
            raise refuse(_LOOP, _LOOP_REMEDY, "errors.deadletterqueue.topic.name")
        return self

    def target(self, source: str) -> str:
        """The topic that records of ``source`` go to."""
        return self.topic.replace(_SOURCE, source)


class KafkaToKafka(SparkConnector[KafkaToKafkaOptions]):
    options: ClassVar[type[Options]] = KafkaToKafkaOptions

    def delivery(self, options: KafkaToKafkaOptions) -> Delivered:
        return DELIVERED

    def offsets(self) -> SourceOffsets[KafkaToKafkaOptions]:
        return KafkaOffsets(Sink(is_delivered))

    def units(self, options: KafkaToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = source_partitions(options, say)
        wanted: dict[str, int] = {}
        for topic, count in found.items():
            target = options.target(topic)
            if reads(options, target) or not is_topic_name(target):
                problem = _LOOP if reads(options, target) else "is no topic name"
                raise OptionError([Problem("topic", options.topic, f"{target} {problem}", _LOOP_REMEDY)])
            wanted[target] = max(count, wanted.get(target, 0))
        client = client_config(options)
        with reaching(options):
            for target, count in wanted.items():
                ensure_topic(client, target, options.partitions or count, options.replication)
                if options.keep_partition == "keep":
                    grow_topic(client, target, count)
            if options.dead_letters:
                ensure_topic(client, options.dead_letters, 1, options.replication)
        return partition_units(found)

    def reader(
        self, spark: "SparkSession", options: KafkaToKafkaOptions, context: UnitContext
    ) -> "DataFrame":
        records = read_partition(spark, options, context, headers=True)
        columns = records.select("key", "value", "headers", "topic", "partition", "offset", "timestamp")
        return columns if options.tolerance == "all" else _converted(columns, options)

    def writer(
        self, stream: "DataFrame", options: KafkaToKafkaOptions, context: UnitContext
    ) -> "DataStreamWriter":
        source = context.unit.rpartition("-")[0]
        if options.tolerance == "all":
            _converted(stream, options)  # what is wrong with the SELECT as a whole is told now

        def tolerant(batch: "DataFrame") -> list[Row]:
            good, bad = convert(
                batch.toArrow(), batch.sparkSession, lambda part: _converted(part, options), context
            )
            rows: list[Row] = []
            for table in good:
                columns = [column.to_pylist() for column in table.columns]
                rows += _records(zip(*columns, strict=True), options)
            return [*rows, *(letters(bad, options.dead_letters, context) if options.dead_letters else ())]

        def strict(batch: "DataFrame") -> Iterator[Row]:
            return _records(local_rows(batch), options)

        rows = tolerant if options.tolerance == "all" else strict
        return deliver(stream, options, context, options.target(source), rows)


def _converted(columns: "DataFrame", options: KafkaToKafkaOptions) -> "DataFrame":
    return as_records(selected(columns, options.transform_sql) if options.transform_sql else columns)


def _records(rows: Iterable[tuple[Any, ...]], options: KafkaToKafkaOptions) -> Iterator[Row]:
    """Rows with the columns of ``as_records``."""
    keep_partition, keep_timestamp = options.keep_partition == "keep", options.keep_timestamp == "keep"
    for key, value, headers, partition, timestamp_ms in rows:
        yield Record(
            key,
            value,
            partition=partition if keep_partition and partition is not None else -1,
            timestamp_ms=timestamp_ms if keep_timestamp and timestamp_ms is not None else 0,
            headers=tuple((header["key"], header["value"]) for header in headers or ()),
        )
