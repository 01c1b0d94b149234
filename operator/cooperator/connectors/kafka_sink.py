"""The common parts of connectors that write to Kafka: options, and exactly-once delivery of batches."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cooperator.connectors.access import KafkaOptions
from cooperator.connectors.base import Cancelled, Delivered, Delivery, UnitContext
from cooperator.connectors.exactly_once import CheckpointBehind, Marker, Row, UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.offsets.unit_log import content_of, query_of, reached
from cooperator.connectors.options import option
from cooperator.connectors.topics import client_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


log = logging.getLogger(__name__)

_LOOK_S = 30.0

DELIVERED = Delivered(Delivery.EXACTLY_ONCE, "Consumers of the topic need isolation.level=read_committed.")


class KafkaSinkOptions(KafkaOptions):
    replication: int = option(
        "topic.replication.factor",
        -1,
        expected="the replication factor to create the topic with (-1: the broker's default)",
        instance_only=True,
        ge=-1,
    )
    max_record: int = option(
        "message.max.bytes", 1_000_000, expected="the maximum size of a record, in bytes", ge=1_000
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms", 10_000, expected="1000 to 900000 milliseconds", ge=1_000, le=900_000
    )


def unit_writer(
    options: KafkaOptions, context: UnitContext, topic: str, max_record: int, timeout_ms: int
) -> UnitWriter:
    """Claims the unit and returns the writer of its batches, each in one transaction with its marker.

    Records without a topic go to ``topic``. ``timeout_ms`` is the time limit of a transaction, as long as it
    is enough.
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
            "message.max.bytes": max_record,
            "partitioner": "murmur2_random",  # Java's: a key keeps its partition with any client
            "queue.buffering.max.kbytes": 32_768,
        },
        transaction_timeout_ms=timeout_ms,
        cancelled=context.cancelled,
        say=context.say,
    )
    writer = UnitWriter(logs, context.owner, context.cancelled, context.fence)
    context.closing.callback(writer.close)
    found = writer.claim()
    found.refuse_behind(query_of(context.checkpoint), reached(context.checkpoint)[1])
    context.counts.rows_out = 0
    return writer


def deliver(
    stream: "DataFrame",
    options: KafkaSinkOptions,
    context: UnitContext,
    topic: str,
    rows: "Callable[[DataFrame], Iterable[Row]]",
) -> "DataStreamWriter":
    """Returns a stream writer that delivers ``rows`` of each batch.

    ``rows`` returns the records of a batch, the same in each call; records without a topic go to ``topic``.
    """
    writer = unit_writer(options, context, topic, options.max_record, options.transaction_timeout_ms)

    def write(batch: "DataFrame", batch_id: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        content = content_of(context.checkpoint, batch_id)
        written = writer.write(str(query), batch_id, lambda: rows(batch), content)
        context.counts.rows_out = (context.counts.rows_out or 0) + written

    return stream.writeStream.foreachBatch(write)


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
