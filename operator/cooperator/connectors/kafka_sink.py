"""The common parts of connectors that write to Kafka: options, and exactly-once delivery of batches."""

import logging
import threading
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final

from cooperator.connectors.access import KafkaOptions
from cooperator.connectors.base import Cancelled, Delivered, Delivery, UnitContext
from cooperator.connectors.exactly_once import CheckpointBehind, Marker, Replaced, Row, UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.offsets.unit_log import content_of, query_of, reached
from cooperator.connectors.options import OptionError, Problem, option
from cooperator.connectors.stateful import has_state
from cooperator.connectors.topics import client_config
from cooperator.connectors.unit_position import KeptPosition, check_fixed, fixed_options, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


log = logging.getLogger(__name__)

_LOOK_S = 30.0

DELIVERED = Delivered(Delivery.EXACTLY_ONCE, "Consumers of the topic need isolation.level=read_committed.")


TOPIC_MAX_BYTES: Final = 1_048_588
"""The default of ``max.message.bytes``: a record that one topic has taken fits into another one."""
_OVERHEAD: Final = 100
"""Clients compare an upper bound of what a record takes in its batch, which is this much larger at most."""


class KafkaSinkOptions(KafkaOptions):
    replication: int = option(
        "topic.replication.factor",
        -1,
        expected="the replication factor to create the topic with (-1: the broker's default)",
        instance_only=True,
        ge=-1,
    )
    max_record: int = option(
        "message.max.bytes",
        TOPIC_MAX_BYTES,
        expected="the maximum size of a record, in bytes; the default is that of Kafka's topics",
        ge=1_000,
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms", 10_000, expected="1000 to 900000 milliseconds", ge=1_000, le=900_000
    )

    @property
    def most_in_request(self) -> int:
        """The limit (bytes) with which a client sends every record that ``max_record`` allows."""
        return self.max_record + _OVERHEAD


def unit_writer(
    options: KafkaSinkOptions,
    context: UnitContext,
    topic: str,
    kept: KeptPosition,
    has_state: bool = False,
) -> UnitWriter:
    """Claims the unit and returns the writer of its batches, each in one transaction with its marker.

    Then the checkpoint agrees with the sink (``unit_position.settle``). Records without a topic go to
    ``topic``. ``has_state``: the checkpoint has state of the query.
    """
    logs = KafkaLogs(
        group_id=context.group_id,
        connector=context.task.connector,
        unit=context.unit,
        topic=topic,
        client=client_config(options),
        producer={
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": options.most_in_request,
            "partitioner": "murmur2_random",  # Java's: a key keeps its partition with any client
            "queue.buffering.max.kbytes": 32_768,
        },
        transaction_timeout_ms=options.transaction_timeout_ms,
        cancelled=context.cancelled,
        say=context.say,
    )
    writer = UnitWriter(logs, context.owner, context.cancelled, context.fence, fixed_options(options))
    context.closing.callback(writer.close)
    found = _claimed(writer)
    check_fixed(found, options)
    settle(writer, found, context.checkpoint, checked(context), kept, has_state)
    context.counts.rows_out = 0
    return writer


def _claimed(writer: UnitWriter) -> Marker:
    try:
        return writer.claim()
    except Replaced as error:
        if not writer.is_closed:
            raise
        problem = "has state, and the positions of this connector are those of a SELECT without state"
        remedy = (
            "restore the SELECT; or stop the connector and reset its offsets (it then starts over), or "
            "create it under another name"
        )
        raise OptionError([Problem("transform.sql", None, problem, remedy)]) from error


def deliver(
    stream: "DataFrame",
    options: KafkaSinkOptions,
    context: UnitContext,
    topic: str,
    rows: "Callable[[DataFrame], Iterable[Row]]",
    kept: KeptPosition,
) -> "DataStreamWriter":
    """Returns a stream writer that delivers ``rows`` of each batch.

    ``rows`` returns the records of a batch, the same in each call; records without a topic go to ``topic``.
    """
    writer = unit_writer(options, context, topic, kept, has_state(stream))

    def write(batch: "DataFrame", batch_id: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        deliver_batch(writer, kept, context, str(query), batch_id, lambda: rows(batch))

    return stream.writeStream.foreachBatch(write)


def deliver_batch(
    writer: UnitWriter,
    kept: KeptPosition,
    context: UnitContext,
    query: str,
    batch: int,
    rows: Callable[[], Iterable[Row]],
) -> None:
    """Writes a begun batch with its position, and counts the rows that were written now."""
    stated = kept.reached(context.checkpoint, batch, writer.position or "")
    beside = stated.records
    content = content_of(context.checkpoint, batch)
    written = writer.write(query, batch, lambda: chain(rows(), beside), content, stated.position)
    counted = max(0, written - len(beside))
    context.counts.rows_out = (context.counts.rows_out or 0) + counted


def checked(context: UnitContext) -> Callable[[], None]:
    """Returns a function that raises ``Fenced`` once the attempt does not hold the unit."""
    fence = context.fence
    return (lambda: None) if fence is None else fence.check


def is_delivered(options: KafkaSinkOptions, place: UnitPlace, query: str, batch: int) -> bool:
    """Whether the unit's marker covers the batch.

    Raises ``OffsetsError`` when the marker cannot be read within 30 s.
    """
    marker = _marker(options, place, f"has batch {batch} in flight")
    return marker is not None and marker.has(query, batch)


def refuse_behind(options: KafkaSinkOptions, place: UnitPlace) -> None:
    """Raises ``OffsetsError`` if the sink has a batch that the checkpoint lacks, or cannot tell in time."""
    query, (_, newest) = query_of(place.checkpoint), reached(place.checkpoint)
    if query and (marker := _marker(options, place, f"ends with batch {newest}")) is not None:
        try:
            marker.refuse_behind(query, newest)
        except CheckpointBehind as error:
            raise OffsetsError(f"unit {place.unit}: {error}") from None


def _marker(options: KafkaSinkOptions, place: UnitPlace, state: str) -> Marker | None:
    too_late = threading.Event()
    logs = KafkaLogs(
        group_id=place.group_id,
        connector=place.connector,
        unit=place.unit,
        topic="",
        client=client_config(options),
        producer={},
        transaction_timeout_ms=options.transaction_timeout_ms,
        cancelled=too_late,
        say=log.info,
    )
    timer = threading.Timer(_LOOK_S, too_late.set)
    timer.start()
    try:
        return logs.marker()
    except Cancelled:
        raise OffsetsError(
            f"unit {place.unit} {state}, and Kafka at {options.bootstrap_servers} cannot confirm what was "
            "delivered; try again when it is available"
        ) from None
    finally:
        timer.cancel()
