"""A unit's transactional log in Kafka, on confluent-kafka.

Rows go to a topic under the transactional id ``<group>-<connector>-<unit>``. The marker is a record of the
compacted topic ``<group>-batches``, under the key ``<connector>/<unit>``, in the same transaction: Kafka
Connect keeps the offsets of exactly-once sources in the same way (KIP-618). It is read up to the end that the
topic had after this writer fenced earlier ones. Reading waits for open transactions of other units in that
topic, which takes no longer than their time limit.
"""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import LogLost, Marker, Row, TransactionAborted
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.topics import (
    TopicMisconfigured,
    end_offsets,
    ensure_topic,
    partition_counts,
    refuse_own_topic,
)
from cooperator.log_lines import LibrdkafkaLog
from cooperator.model.text import counted
from cooperator.supervision import closing_aside

log = logging.getLogger(__name__)

T = TypeVar("T")

MARKER_PARTITIONS = 8
"""It must never change: a key's partition depends on it."""
MARKER_CONFIG: Final = {
    "cleanup.policy": "compact",
    # The topic is read whole when a unit or a task starts, so it is compacted early.
    "segment.bytes": str(4 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.2",
}

_SLICE_S = 1.0
"""The longest that a call into the client waits before cancellation is checked again."""
_ABORT_S = 3.0
_READ_S = 0.1
_MAX_TRANSACTION_MS = 900_000  # the default of transaction.max.timeout.ms of brokers

_LOST = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError._FATAL,
}
"""The client cannot tell a transaction that timed out from one that another producer ended."""
_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._NOENT,  # no leader of a partition is known
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_ENOUGH_REPLICAS,
}


class KafkaLogs:
    """Opens the log of one unit.

    ``client`` holds properties for every client. ``say`` shows what is being waited for; ``cancelled`` ends
    every wait with ``Cancelled``.
    """

    def __init__(
        self,
        group_id: str,
        connector: str,
        unit: str,
        topic: str,
        client: Mapping[str, Any],
        producer: Mapping[str, Any],
        transaction_timeout_ms: int,
        cancelled: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        refuse_own_topic(group_id, "topic", topic)
        # Names of connectors and units have no slash, so that no two units have the same id.
        self._transactional_id = f"{group_id}-units/{connector}/{unit}"
        self._topic = topic
        self._client = dict(client)
        self._producer = dict(producer)
        self._timeout_ms = transaction_timeout_ms
        self._patience = Patience(cancelled, say, str(client["bootstrap.servers"]))
        self._key = f"{connector}/{unit}".encode()
        self._markers = partition_of(f"{group_id}-batches", self._key)

    def open(self, slowdown: int) -> "KafkaLog":
        timeout_ms = min(self._timeout_ms << slowdown, _MAX_TRANSACTION_MS)
        producer = Producer(
            {
                **self._client,
                **self._producer,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "delivery.report.only.error": True,
            },
            logger=LibrdkafkaLog(log),
        )
        ensure_unit_topic(self._client, self._markers.topic, MARKER_CONFIG, self._patience)
        self._patience.until_done(producer.init_transactions)
        return KafkaLog(producer, self._topic, self._markers, self._key, self._patience)

    def marker(self) -> Marker | None:
        partition, group = self._markers, self._transactional_id
        found = latest_values(
            self._client, group, [partition], lambda key: key == self._key, self._patience
        ).get(self._key)
        return Marker.decode(found) if found else None


def partition_of(topic: str, key: bytes) -> TopicPartition:
    """Returns the partition of a topic of units that has the records of this unit, from its beginning."""
    return TopicPartition(topic, zlib.crc32(key) % MARKER_PARTITIONS, OFFSET_BEGINNING)


def ensure_unit_topic(
    client: Mapping[str, Any], topic: str, config: Mapping[str, str], patience: "Patience"
) -> None:
    """Creates a topic of units unless it exists. Raises TopicMisconfigured if it cannot serve."""
    wanted = MARKER_PARTITIONS
    patience.until_done(lambda s: ensure_topic(client, topic, wanted, -1, config, s))

    def count(timeout_s: float) -> int:
        found = partition_counts(client, [topic], timeout_s)[topic]
        if found == 0:  # It was created just now.
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return found

    found = patience.until_done(count)
    if found < wanted:
        # A record would wait for its partition without end.
        raise TopicMisconfigured(
            f"topic {topic} has {counted(found, 'partition')}, and the markers of batches need {wanted}: "
            f"add some (kafka-topics --alter --topic {topic} --partitions {wanted}), then restart the "
            "connector"
        )


def latest_markers(
    client: Mapping[str, Any], group_id: str, connector: str, patience: "Patience"
) -> dict[str, Marker]:
    """Returns the markers of a connector's units, by unit; none if the topic does not exist."""
    topic, prefix = f"{group_id}-batches", f"{connector}/".encode()
    partitions = patience.until_done(lambda s: partition_counts(client, [topic], s)[topic])
    numbers = range(min(partitions, MARKER_PARTITIONS))
    values = latest_values(
        client,
        f"{group_id}-units/{connector}",
        [TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers],
        lambda key: key.startswith(prefix),
        patience,
    )
    return {key[len(prefix) :].decode(): Marker.decode(value) for key, value in values.items()}


def latest_values(
    client: Mapping[str, Any],
    group: str,
    partitions: Sequence[TopicPartition],
    is_wanted: Callable[[bytes], bool],
    patience: "Patience",
) -> dict[bytes, bytes]:
    """Returns the newest committed value of each wanted key of a compacted topic's partitions, read to their
    ends.

    It waits for open transactions below these ends. A partition that does not exist is waited for, too.
    ``group`` names the reader to brokers that check its rights.
    """
    if not partitions:
        return {}
    topic, numbers = partitions[0].topic, [each.partition for each in partitions]
    ends = patience.until_done(lambda timeout_s: end_offsets(client, group, topic, numbers, timeout_s))
    ends = {number: end for number, end in ends.items() if end}
    if not ends:
        return {}
    consumer = Consumer(
        {
            **client,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": "read_committed",
        },
        logger=LibrdkafkaLog(log),
    )
    with closing_aside(consumer, f"consumer of {topic}"):
        consumer.assign([each for each in partitions if each.partition in ends])
        return _read_to(consumer, ends, is_wanted, patience)


def _read_to(
    consumer: Consumer, ends: dict[int, int], is_wanted: Callable[[bytes], bool], patience: "Patience"
) -> dict[bytes, bytes]:
    """``ends``: by partition; emptied meanwhile."""
    found: dict[bytes, bytes] = {}
    while ends:
        for message in patience.until_done(lambda s: consumer.consume(1000, _READ_S)):
            error, number = message.error(), message.partition()
            if error is None:
                key, value = message.key() or b"", message.value()
                if value is not None and is_wanted(key):
                    found[key] = value
                else:
                    found.pop(key, None)
            elif error.code() != KafkaError._PARTITION_EOF or number is None:
                log.info("reading partition %s of %s: %s", number, message.topic(), error)
            elif (message.offset() or 0) >= ends.get(number, 0):
                ends.pop(number, None)
            else:
                log.info(
                    "partition %d of %s: waiting for the end of another unit's open transaction",
                    number,
                    message.topic(),
                )
    return found


class KafkaLog:
    """One transactional producer. It is not thread-safe."""

    def __init__(
        self, producer: Producer, topic: str, markers: TopicPartition, key: bytes, patience: "Patience"
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._markers = markers
        self._key = key
        self._patience = patience
        self._failure: KafkaError | None = None
        self._refused = ""

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        self._failure = None
        count = 0
        try:
            self._producer.begin_transaction()
            for row in rows:
                self._produce(row if isinstance(row, OutputRecord) else OutputRecord(*row))
                count += 1
            self._produce(
                OutputRecord(self._key, marker.encode(), self._markers.topic, self._markers.partition)
            )
            self._patience.until_done(self._producer.commit_transaction)
        except LogLost:
            raise
        except TransactionAborted as error:
            if self._failure is None or self._failure.code() in _PASSING or self._failure.retriable():
                self._abort_for_certain()
                raise
            self._abort_if_possible()
            if self._failure.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise ValueError(self._refused) from error
            raise KafkaException(self._failure) from error
        except BaseException:
            self._abort_if_possible()
            raise
        return count

    def close(self) -> None:
        """Drops whatever is not committed."""
        # A producer with a fatal error raises it in every call; at this point it no longer matters.
        with suppress(KafkaException):
            self._producer.purge(blocking=False)
            self._producer.poll(0)

    def _produce(self, record: OutputRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    record.topic or self._topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=self._on_failure,
                    timestamp=max(record.timestamp_ms, 0),
                    headers=list(record.headers),
                )
                return
            except BufferError:
                self._patience.check()
                self._producer.poll(0.1)
            except KafkaException as error:
                raise _classified(error, record.key, record.value) from error

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if self._failure is None and error is not None:
            self._failure = error
            self._refused = (
                f"the broker refuses a record of {len(message)} bytes with key {message.key()!r}: raise "
                f"max.message.bytes of topic {message.topic()}"
            )

    def _abort_for_certain(self) -> None:
        try:
            self._patience.until_done(self._producer.abort_transaction)
        except Cancelled:
            self._abort_if_possible()
            raise
        except (KafkaException, TransactionAborted) as error:
            raise LogLost(str(error)) from error

    def _abort_if_possible(self) -> None:
        """Ends the transaction even when its result is not needed: readers wait for an open transaction."""
        try:
            self._producer.abort_transaction(_ABORT_S)
        except KafkaException as error:
            log.info("the transaction will end at its time limit: %s", error)


class Patience:
    """Repeats calls until they succeed or the unit is cancelled. ``say`` shows users what is waited for."""

    def __init__(self, cancelled: threading.Event, say: Callable[[str], None], servers: str) -> None:
        self.cancelled = cancelled
        self.say = say
        self._servers = servers

    def check(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled

    def until_done(self, call: Callable[[float], T]) -> T:
        """Repeats ``call(timeout_s)`` after transient errors; raises others."""
        said = False
        while True:
            self.check()
            began = time.monotonic()
            try:
                result = call(_SLICE_S)
            except KafkaException as error:
                classified = _classified(error)
                if not isinstance(classified, _Passing):
                    raise classified from error
                self.say(f"waiting for Kafka at {self._servers}: {classified}")
                said = True
                self.cancelled.wait(max(0.0, began + _SLICE_S - time.monotonic()))
            else:
                if said:
                    self.say("")
                return result


class _Passing(Exception):
    pass


def _classified(error: KafkaException, key: bytes | None = None, value: bytes | None = None) -> Exception:
    """Returns the error in the terms of ``exactly_once``."""
    detail: KafkaError = error.args[0]
    if detail.code() in _LOST:
        return LogLost(detail.str())
    if detail.txn_requires_abort():
        return TransactionAborted(detail.str())
    if detail.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        size = len(key or b"") + len(value or b"")
        return ValueError(
            f"a record of {size} bytes with key {key!r} exceeds option 'message.max.bytes'; raise it, and "
            "max.message.bytes of the topic"
        )
    if detail.retriable() or detail.code() in _PASSING:
        return _Passing(detail.str())
    return error
