"""What connectors that write to Kafka share: options, and exactly-once delivery of a unit's batches."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cooperator.runtime.connectors.access import KafkaOptions
from cooperator.runtime.connectors.base import Cancelled, Delivered, Delivery, UnitContext
from cooperator.runtime.connectors.exactly_once import Row, UnitWriter
from cooperator.runtime.connectors.kafka_log import KafkaLogs
from cooperator.runtime.connectors.topics import client_config
from cooperator.runtime.offsets.entries import OffsetsError
from cooperator.runtime.offsets.sources import UnitPlace
from cooperator.runtime.options import option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


log = logging.getLogger(__name__)

_LOOK_S = 30.0

DELIVERED = Delivered(Delivery.EXACTLY_ONCE, "Readers of the topic need isolation.level=read_committed.")


class KafkaSinkOptions(KafkaOptions):
    replication: int = option(
        "topic.replication.factor",
        -1,
        expected="the replication factor to create the topic with (-1: the broker's default)",
        instance_only=True,
        ge=-1,
    )
    max_record: int = option(
        "message.max.bytes", 1_000_000, expected="the size of the largest record, in bytes", ge=1_000
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms", 10_000, expected="1000 to 900000 milliseconds", ge=1_000, le=900_000
    )


def unit_writer(
    options: KafkaOptions, context: UnitContext, topic: str, max_record: int, timeout_ms: int
) -> UnitWriter:
    """Writes the unit's batches, each in one transaction with its marker; the unit is claimed. Records that
    name no topic go to ``topic``. ``timeout_ms``: of a transaction, as long as that is enough."""
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
            "partitioner": "murmur2_random",  # Java's: a key keeps its partition whoever writes
            "queue.buffering.max.kbytes": 32_768,
        },
        transaction_timeout_ms=timeout_ms,
        cancelled=context.cancelled,
        say=context.say,
    )
    writer = UnitWriter(logs, context.owner, context.cancelled, context.fence)
    context.closing.callback(writer.close)
    writer.claim()
    context.counts.rows_out = 0
    return writer


def deliver(
    stream: "DataFrame",
    options: KafkaSinkOptions,
    context: UnitContext,
    topic: str,
    rows: "Callable[[DataFrame], Iterable[Row]]",
) -> "DataStreamWriter":
    """``rows``: the records of a batch, the same in each call; those that name no topic go to ``topic``."""
    writer = unit_writer(options, context, topic, options.max_record, options.transaction_timeout_ms)

    def write(batch: "DataFrame", batch_id: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        written = writer.write(str(query), batch_id, lambda: rows(batch))
        context.counts.rows_out = (context.counts.rows_out or 0) + written

    return stream.writeStream.foreachBatch(write)


def is_delivered(options: KafkaSinkOptions, place: UnitPlace, query: str, batch: int) -> bool:
    """Whether the unit's marker covers the batch; OffsetsError when it cannot be read in half a minute."""
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
        marker = logs.marker()
    except Cancelled:
        raise OffsetsError(
            f"unit {place.unit} has batch {batch} in flight, and Kafka at {options.bootstrap_servers} does "
            "not tell whether it was delivered; try again when it is there"
        ) from None
    finally:
        timer.cancel()
    return marker is not None and marker.covers(query, batch)
