"""``kafka-to-kafka``: copies records from topics to topics, exactly once.

A unit is a partition of a source topic. Key, value, headers and timestamp are kept as they are, and on
request the number of the partition, too. Each batch is one transaction of the unit's producer with the
batch's marker (see ``exactly_once``): readers need ``read_committed``. Rows that ``transform.sql`` cannot
convert may go to a dead-letter topic, in the same transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, model_validator

from cooperator.connectors.base import Delivered, UnitContext
from cooperator.connectors.conversion import Conversion, ConversionOptions, ensure_letters
from cooperator.connectors.dead_letters import LETTER_BYTES, letters
from cooperator.connectors.decoding import EXPECTED, Converter
from cooperator.connectors.exactly_once import OutputRecord, Row
from cooperator.connectors.kafka_offsets import KafkaOffsets
from cooperator.connectors.kafka_sink import DELIVERED, deliver, is_delivered
from cooperator.connectors.kafka_source import (
    partition_lag,
    partition_units,
    reads,
    source_partitions,
)
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import SourceOffsets
from cooperator.connectors.options import OptionError, Options, Problem, is_topic_name, option, refuse
from cooperator.connectors.parts import in_order
from cooperator.connectors.position_offsets import KafkaCopyOptions
from cooperator.connectors.records import as_records
from cooperator.connectors.spark import SparkConnector, local_rows
from cooperator.connectors.topics import client_config, ensure_topic, grow_topic, reaching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SOURCE = "{topic}"
COLUMNS = ("headers", "topic", "partition", "offset", "timestamp")
_LOOP = "would be read by this connector again"
_LOOP_REMEDY = "name a topic that topics and topics.regex do not match"


def _pattern(value: str) -> str:
    if not is_topic_name(value.replace(SOURCE, "t")):
        raise refuse(
            "is not a valid topic name",
            "use letters, digits, dots, underscores and dashes, and {topic} for the source topic's name",
        )
    return value


class KafkaToKafkaOptions(ConversionOptions, KafkaCopyOptions):
    topic: Annotated[str, AfterValidator(_pattern)] = option(
        "topic",
        expected="the topic to write to; {topic} stands for the source topic's name, as in copy.{topic}",
        fixed=True,
    )
    max_offsets: int = option(
        "max.offsets.per.trigger",
        10_000,
        expected="the maximum number of records in a batch, which has to fit into memory",
        ge=1,
    )
    key_converter: Converter = option("key.converter", "bytes", expected=EXPECTED.format("key"))
    value_converter: Converter = option("value.converter", "bytes", expected=EXPECTED.format("value"))
    partitions: int | None = option(
        "topic.partitions",
        None,
        expected="the number of partitions of a created topic (default: that of its source)",
        instance_only=True,
        ge=1,
    )
    keep_partition: Literal["keep", "key"] = option(
        "record.partition", "key", expected="keep (the source's partition) or key (by hash of the key)"
    )
    keep_timestamp: Literal["keep", "now"] = option(
        "record.timestamp", "keep", expected="keep (the source's timestamp) or now (the time of writing)"
    )

    @model_validator(mode="after")
    def _no_loop(self) -> Self:
        if SOURCE not in self.topic and reads(self, self.topic):
            raise refuse(_LOOP, _LOOP_REMEDY, "topic")
        return self

    def target(self, source: str) -> str:
        """Returns the topic that records of ``source`` go to."""
        return self.topic.replace(SOURCE, source)


class KafkaToKafka(SparkConnector[KafkaToKafkaOptions]):
    options: ClassVar[type[Options]] = KafkaToKafkaOptions

    def delivery(self, options: KafkaToKafkaOptions) -> Delivered:
        return DELIVERED

    def offsets(self) -> SourceOffsets[KafkaToKafkaOptions]:
        return KafkaOffsets(Sink(is_delivered))

    def lag(self, options: KafkaToKafkaOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        return copied_units(options, say)

    def reader(
        self, spark: "SparkSession", options: KafkaToKafkaOptions, context: UnitContext
    ) -> "DataFrame":
        return Conversion(options, context, as_records, COLUMNS).stream(spark)

    def writer(
        self, stream: "DataFrame", options: KafkaToKafkaOptions, context: UnitContext
    ) -> "DataStreamWriter":
        conversion = Conversion(options, context, as_records, COLUMNS)

        def by_batch(batch: "DataFrame") -> list[Row]:
            parts, left_out = conversion.batch(batch)
            return [
                *_records((row for _, row in in_order(parts)), options),
                *(letters(left_out, options.dead_letters, context) if options.dead_letters else ()),
            ]

        def as_it_is(batch: "DataFrame") -> Iterator[Row]:
            return _records(local_rows(batch), options)

        rows = by_batch if conversion.by_batch else as_it_is
        target = options.target(context.unit.rpartition("-")[0])
        return deliver(stream, options, context, target, rows, LETTER_BYTES if options.dead_letters else 0)


def copied_units(options: KafkaToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
    """Returns the source's partitions, and creates or grows their targets."""
    found = source_partitions(options, say)
    wanted: dict[str, int] = {}
    for topic, count in found.items():
        target = options.target(topic)
        if reads(options, target) or not is_topic_name(target):
            problem = _LOOP if reads(options, target) else "is not a valid topic name"
            raise OptionError([Problem("topic", options.topic, f"{target} {problem}", _LOOP_REMEDY)])
        wanted[target] = max(count, wanted.get(target, 0))
    client = client_config(options)
    with reaching(options):
        for target, count in wanted.items():
            ensure_topic(client, target, options.partitions or count, options.replication)
            if options.keep_partition == "keep":
                grow_topic(client, target, count)
    ensure_letters(options)
    return partition_units(found)


def _records(rows: Iterable[tuple[Any, ...]], options: KafkaToKafkaOptions) -> Iterator[Row]:
    """Yields the records of rows with the columns of ``as_records``."""
    keep_partition, keep_timestamp = options.keep_partition == "keep", options.keep_timestamp == "keep"
    for key, value, headers, partition, timestamp_ms in rows:
        yield OutputRecord(
            key,
            value,
            partition=partition if keep_partition and partition is not None else -1,
            timestamp_ms=timestamp_ms if keep_timestamp and timestamp_ms is not None else 0,
            headers=tuple((header["key"], header["value"]) for header in headers or ()),
        )
