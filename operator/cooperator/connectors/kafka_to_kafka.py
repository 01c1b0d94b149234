"""``kafka-to-kafka``: copies records from topics to topics, exactly once.

A unit is a partition of a source topic. Key, value, headers and timestamp are kept as they are, and on
request the number of the partition, too. A task is one loop of batches over its units (``microbatch``). Rows
and the positions that they reach are committed in one transaction: readers need ``read_committed``. Rows that
``transform.sql`` cannot convert may go to a dead-letter topic, in the same transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from confluent_kafka import KafkaError, KafkaException
from pydantic import AfterValidator, model_validator

from cooperator.connectors.access import of_java
from cooperator.connectors.base import Delivered
from cooperator.connectors.conversion import Conversion, ConversionOptions, converted, ensure_letters
from cooperator.connectors.dead_letters import LETTER_BYTES, Letter, letters
from cooperator.connectors.decoding import EXPECTED, Converter
from cooperator.connectors.kafka_partitions import first_offsets, last_offsets
from cooperator.connectors.kafka_sink import DELIVERED
from cooperator.connectors.kafka_source import (
    consumer_settings,
    partition_lag,
    partition_units,
    reads,
    source_partitions,
)
from cooperator.connectors.microbatch import notes
from cooperator.connectors.microbatch.batches import Batches
from cooperator.connectors.microbatch.collected import CollectedBatches
from cooperator.connectors.microbatch.kafka_task import Opening, TaskSettings, open_kafka_task
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.members import settle_layout
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.plans import Plans
from cooperator.connectors.microbatch.ranges import Limits, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, SparkBatches
from cooperator.connectors.options import OptionError, Options, Problem, is_topic_name, option, refuse
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.parts import in_order
from cooperator.connectors.planned_decoding import Decoding
from cooperator.connectors.position_offsets import KafkaCopyOptions, PositionOffsets, stored_ends
from cooperator.connectors.records import SELECTED, TIMESTAMP_MS, as_records
from cooperator.connectors.references import own_topics
from cooperator.connectors.registry import AvroReader, reader_of
from cooperator.connectors.spark import LOOP_INTERVAL_MS, trigger_interval
from cooperator.connectors.tasks import InstanceContext, RunningTask, TaskConnector, TaskContext
from cooperator.connectors.topics import client_config, ensure_topic, grow_topic, reaching
from cooperator.connectors.units import Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = "{topic}"
COLUMNS = ("headers", "topic", "partition", "offset", "timestamp")
_MAX_OFFSETS = 100_000
"""The maximum number of records in a batch of a task."""
_LOOP = "would be read by this connector again"
_OF_ONE_TOPIC = frozenset(
    {
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
"""Errors by which brokers refuse one topic, and no other."""
_ODD_REMEDY = "create it, or choose other names by option topic, or do not read its source"
_LOOP_REMEDY = "name a topic that topics and topics.regex do not match"


def _pattern(value: str) -> str:
    if not is_topic_name(value.replace(_SOURCE, "t")):
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
    trigger_interval_ms: int = trigger_interval(LOOP_INTERVAL_MS)
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
        if _SOURCE not in self.topic and reads(self, self.topic):
            raise refuse(_LOOP, _LOOP_REMEDY, "topic")
        return self

    def target(self, source: str) -> str:
        """Returns the topic that records of ``source`` go to."""
        return self.topic.replace(_SOURCE, source)


class KafkaToKafka(TaskConnector[KafkaToKafkaOptions]):
    options: ClassVar[type[Options]] = KafkaToKafkaOptions

    def delivery(self, options: KafkaToKafkaOptions) -> Delivered:
        return DELIVERED

    def offsets(self) -> PositionOffsets[KafkaToKafkaOptions]:
        return PositionOffsets()

    def lag(self, options: KafkaToKafkaOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToKafkaOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = source_partitions(options, say)
        wanted: dict[str, int] = {}
        left_out: dict[str, str] = {}
        for topic, count in found.items():
            target = options.target(topic)
            if reads(options, target):
                raise OptionError([Problem("topic", options.topic, f"{target} {_LOOP}", _LOOP_REMEDY)])
            if not is_topic_name(target):
                left_out[target] = "it is not a valid topic name"
            else:
                wanted[target] = max(count, wanted.get(target, 0))
        client = client_config(options)
        with reaching(options):
            for target, count in wanted.items():
                try:
                    ensure_topic(client, target, options.partitions or count, options.replication)
                    if options.keep_partition == "keep":
                        grow_topic(client, target, count)
                except KafkaException as error:
                    if error.args[0].code() not in _OF_ONE_TOPIC:
                        raise
                    left_out[target] = error.args[0].str()
        ensure_letters(options)
        if left_out:
            target, reason = next(iter(left_out.items()))
            more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
            say(f"topic {target}{more} cannot be written, so its source waits: {reason}; {_ODD_REMEDY}")
        return partition_units(
            {topic: found[topic] for topic in found if options.target(topic) not in left_out}
        )

    def open_task(self, options: KafkaToKafkaOptions, context: TaskContext) -> RunningTask:
        if context.server is not None:
            raise context.server.refusal(context.task.connector)
        _refuse_own_topics(options, context)
        most_in_request = options.most_in_request + (LETTER_BYTES if options.dead_letters else 0)
        settings = TaskSettings(
            client=client_config(options),
            java={**of_java(options), "isolation.level": options.isolation_level},
            producer={
                **of_java(options),
                "max.request.size": str(most_in_request),
                "transaction.timeout.ms": str(options.transaction_timeout_ms),
            },
            limits=_limits(options, len(context.units)),
            interval_ms=options.trigger_interval_ms,
            starts_at_latest=options.starting_offsets == "latest",
            fail_on_data_loss=options.fail_on_data_loss,
            earliest=lambda partitions: first_offsets(options, partitions),
            latest=lambda partitions: last_offsets(options, partitions),
        )
        return open_kafka_task(context, settings, lambda opening: _batches(options, context, opening))

    def settle_layout(self, options: KafkaToKafkaOptions, context: InstanceContext, layout: Layout) -> None:
        settle_layout(client_config(options), context, layout)

    def ends(
        self, options: KafkaToKafkaOptions, context: InstanceContext, units: Sequence[str]
    ) -> Mapping[str, str]:
        return stored_ends(client_config(options), context.group_id, context.connector, units)


def _refuse_own_topics(options: KafkaToKafkaOptions, context: TaskContext) -> None:
    """Raises ``OptionError`` if rows would go to a topic of the Worker's own group."""
    targets = {options.target(Partition.of_unit(unit).topic) for unit in context.units}
    own = targets & own_topics(context.group_id)
    if own:
        problem = f"stands for {min(own)}, a topic of the Worker's own group"
        raise OptionError([Problem("topic", options.topic, problem, "use another topic")])


def _limits(options: KafkaToKafkaOptions, units: int) -> Limits:
    return Limits(options.max_offsets, min(_MAX_OFFSETS, options.max_offsets * units))


def _batches(options: KafkaToKafkaOptions, context: TaskContext, opening: Opening) -> Batches:
    source = BatchSource(
        consumer_settings(options),
        pool=str(context.task),
        headers=True,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    topics = sorted({Partition.of_unit(unit).topic for unit in context.units})
    # A SELECT may drop the column topic, so that its rows do not tell where they go.
    is_apart = bool(options.select) and _SOURCE in options.topic and len(topics) > 1

    def in_plan(decoding: Decoding) -> SparkBatches:
        def rows(records: "DataFrame") -> "DataFrame":
            columns = COLUMNS if options.select else (*COLUMNS, TIMESTAMP_MS)
            return converted(decoding.applied(records), options, columns, _finish(options, topics))

        topic_of = options.target if is_apart else None
        return SparkBatches(opening.spark, source, rows, opening.target, topic_of)

    if not options.is_collected:
        return in_plan(Decoding())

    def prepared(decoding: Decoding) -> SparkBatches:
        batches = in_plan(decoding)
        batches.prepare()
        return batches

    avro = reader_of(options)
    units = {Partition.of_unit(unit): _Unit(unit, options, context, opening, avro) for unit in context.units}

    def convert(partition: Partition, raw: "pa.Table") -> list[OutputRecord]:
        return units[partition].records(raw, opening.spark)

    def possible(records: "DataFrame") -> "DataFrame":
        if not options.by_record:
            records = next(iter(units.values())).conversion.relation(records)
        return records.select("value")

    by_row = CollectedBatches(opening.spark, source, possible, opening.target, convert)
    plans = Plans(opening.spark, lambda partition: units[partition].conversion, prepared)
    leaving_out = LeavingOut(
        opening.spark,
        lambda partition: units[partition].conversion,
        lambda range_, found: units[range_.partition].letters(found),
        context.say,
    )
    return PlannedFirst(plans.of, by_row, options.max_offsets, leaving_out, reads_topics_apart=is_apart)


def _finish(options: KafkaToKafkaOptions, topics: Sequence[str]) -> "Callable[[DataFrame], DataFrame]":
    """Returns the last step of a conversion: records as ``SparkBatches`` writes them."""

    def finish(rows: "DataFrame") -> "DataFrame":
        import pyspark.sql.functions as F  # noqa: N812

        target: Any = []
        if _SOURCE not in options.topic or len(topics) == 1:
            target = [F.lit(options.target(topics[0])).alias("topic")]
        elif not options.select:
            target = [F.replace(F.lit(options.topic), F.lit(_SOURCE), F.col("topic")).alias("topic")]
        # A SELECT sees a TIMESTAMP, and returns one.
        time = "timestamp" if options.select else TIMESTAMP_MS
        records = as_records(rows, SELECTED if options.select else (*SELECTED, TIMESTAMP_MS), target)
        columns = {"key": F.col("key"), "value": F.col("value"), "headers": F.col("headers")}
        if options.keep_partition == "keep":
            columns["partition"] = F.col("partition")
        if options.keep_timestamp == "keep":
            columns["timestamp"] = F.col(time).alias("timestamp")
        return records.select(*columns.values(), *(["topic"] if target else []))

    return finish


class _Unit:
    """Converts the records of one unit on the driver."""

    def __init__(
        self,
        unit: str,
        options: KafkaToKafkaOptions,
        context: TaskContext,
        opening: Opening,
        avro: AvroReader | None,
    ) -> None:
        self._options = options
        self._context = context.of_unit(unit)
        self._target = options.target(Partition.of_unit(unit).topic)
        memory = notes.NoteMemory(opening.positions, context.task.connector, unit, opening.patience)
        self._memory = memory
        self._avro = avro
        self._conversion: Conversion | None = None

    @property
    def conversion(self) -> Conversion:
        if self._conversion is None:
            self._conversion = Conversion(
                self._options, self._context, as_records, COLUMNS, self._memory, avro=self._avro
            )
        return self._conversion

    def records(self, raw: "pa.Table", session: "SparkSession") -> list[OutputRecord]:
        """Returns the rows, followed by the records that are left out."""
        options = self._options
        parts, left_out = self.conversion.table(raw, session)
        found = list(_records((row for _, _, row in in_order(parts)), options, self._target))
        return [*found, *self.letters(left_out)]

    def letters(self, left_out: Sequence[Letter]) -> Sequence[OutputRecord]:
        topic = self._options.dead_letters
        return tuple(letters(left_out, topic, self._context)) if topic else ()


def _records(
    rows: Iterable[tuple[Any, ...]], options: KafkaToKafkaOptions, target: str
) -> Iterator[OutputRecord]:
    """Yields the records of rows with the columns of ``as_records``."""
    keep_partition, keep_timestamp = options.keep_partition == "keep", options.keep_timestamp == "keep"
    for key, value, headers, partition, timestamp_ms in rows:
        yield OutputRecord(
            key,
            value,
            topic=target,
            partition=partition if keep_partition and partition is not None else -1,
            timestamp_ms=timestamp_ms if keep_timestamp and timestamp_ms is not None else 0,
            headers=tuple((header["key"], header["value"]) for header in headers or ()),
        )
