"""A unit's transactional log in Kafka, by confluent-kafka.

Rows go to a topic under the transactional id ``<group>-<connector>-<unit>``. The marker is the metadata
of an offset that a consumer group of the same name commits for partition 0 of the topic in the same
transaction (KIP-98). The broker forgets offsets of idle groups after ``offsets.retention.minutes``
(7 days by default): a unit that is killed between its commit and Spark's must be back by then.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from cooperator.runtime.connectors.base import Cancelled
from cooperator.runtime.connectors.exactly_once import LogLost, Marker, Row, TransactionAborted

log = logging.getLogger(__name__)

T = TypeVar("T")

_SLICE_S = 1.0
"""No call into the client waits longer before it looks whether it is still wanted."""
_ABORT_S = 3.0
_MAX_TRANSACTION_MS = 900_000  # transaction.max.timeout.ms of brokers, by default

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
"""A transaction that timed out and one that another producer ended look the same to the client."""
_PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
}


class KafkaLogs:
    """Opens one unit's log. ``client``: properties that every client gets. ``say`` is told what is being
    waited for; ``cancelled`` ends every wait with ``Cancelled``."""

    def __init__(
        self,
        name: str,
        topic: str,
        client: Mapping[str, Any],
        producer: Mapping[str, Any],
        transaction_timeout_ms: int,
        cancelled: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._name = name
        self._topic = topic
        self._client = dict(client)
        self._producer = dict(producer)
        self._timeout_ms = transaction_timeout_ms
        self._patience = Patience(cancelled, say, str(client["bootstrap.servers"]))

    def open(self, slowdown: int) -> "KafkaLog":
        timeout_ms = min(self._timeout_ms << slowdown, _MAX_TRANSACTION_MS)
        unit_log = KafkaLog(
            self._name,
            self._topic,
            self._client,
            {**self._producer, "transaction.timeout.ms": timeout_ms},
            self._patience,
        )
        unit_log.fence()
        return unit_log

    def marker(self) -> Marker | None:
        wanted = ConsumerGroupTopicPartitions(self._name, [TopicPartition(self._topic, 0)])
        admin = AdminClient(self._client, logger=log)

        def read(timeout_s: float) -> TopicPartition:
            futures = admin.list_consumer_group_offsets(
                [wanted], require_stable=True, request_timeout=timeout_s
            )
            partition: TopicPartition = futures[self._name].result().topic_partitions[0]
            if partition.error is not None:
                raise KafkaException(partition.error)
            return partition

        metadata: str | None = self._patience.until_done(read).metadata
        return Marker.decode(metadata) if metadata else None


class KafkaLog:
    """One transactional producer. Not for several threads."""

    def __init__(
        self,
        name: str,
        topic: str,
        client: Mapping[str, Any],
        producer: Mapping[str, Any],
        patience: "Patience",
    ) -> None:
        self._topic = topic
        self._patience = patience
        self._delivery: KafkaError | None = None
        self._producer = Producer(
            {
                **client,
                **producer,
                "transactional.id": name,
                "delivery.report.only.error": True,
                "on_delivery": self._on_failed_delivery,
            },
            logger=log,
        )
        # The client wants a group's metadata as a consumer of that group has it, and no other way to it.
        consumer = Consumer({**client, "group.id": name}, logger=log)
        self._group = consumer.consumer_group_metadata()
        consumer.close()

    def fence(self) -> None:
        self._patience.until_done(self._producer.init_transactions)

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        self._delivery = None
        count = 0
        try:
            self._producer.begin_transaction()
            for key, value in rows:
                self._produce(key, value)
                count += 1
            position = TopicPartition(self._topic, 0, marker.batch + 1, metadata=marker.encode())
            self._patience.until_done(
                lambda s: self._producer.send_offsets_to_transaction([position], self._group, s)
            )
            self._patience.until_done(self._producer.commit_transaction)
        except LogLost:
            raise
        except Exception as error:
            passing = self._is_passing(error)
            self._abort(wait=passing)
            if passing:
                raise TransactionAborted(str(error)) from error
            if self._delivery is not None:
                raise KafkaException(self._delivery) from error
            raise
        return count

    def close(self) -> None:
        """What is not committed is dropped."""
        self._producer.purge(blocking=False)
        self._producer.poll(0)

    def _produce(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value=value, key=key)
                return
            except BufferError:
                self._patience.check()
                self._producer.poll(0.1)
            except KafkaException as error:
                raise _classified(error, key, value) from error

    def _abort(self, *, wait: bool) -> None:
        """Readers are kept waiting by an open transaction, so even one that is given up is ended in time,
        if the broker answers."""
        try:
            if wait:
                self._patience.until_done(self._producer.abort_transaction)
            else:
                self._producer.abort_transaction(_ABORT_S)
        except (KafkaException, TransactionAborted) as error:
            if wait:
                raise LogLost(str(error)) from error
            log.info("transaction not aborted: %s", error)

    def _is_passing(self, error: Exception) -> bool:
        if isinstance(error, TransactionAborted):
            return self._delivery is None or self._delivery.code() in _PASSING or self._delivery.retriable()
        return False

    def _on_failed_delivery(self, error: KafkaError | None, message: object) -> None:
        if error is not None and self._delivery is None:
            self._delivery = error


class Patience:
    """Repeats calls until they are done, as long as somebody wants it."""

    def __init__(self, cancelled: threading.Event, say: Callable[[str], None], servers: str) -> None:
        self._cancelled = cancelled
        self._say = say
        self._servers = servers

    def check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def until_done(self, call: Callable[[float], T]) -> T:
        """``call(timeout_s)`` is repeated after passing errors; others are raised."""
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
                self._say(f"waiting for Kafka at {self._servers}: {classified}")
                said = True
                self._cancelled.wait(max(0.0, began + _SLICE_S - time.monotonic()))
            else:
                if said:
                    self._say("")
                return result


class _Passing(Exception):
    pass


def _classified(error: KafkaException, key: bytes | None = None, value: bytes | None = None) -> Exception:
    """The error in the terms of ``exactly_once``."""
    detail: KafkaError = error.args[0]
    if detail.code() in _LOST:
        return LogLost(detail.str())
    if detail.txn_requires_abort():
        return TransactionAborted(detail.str())
    if detail.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        size = len(key or b"") + len(value or b"")
        return ValueError(
            f"a record of {size} bytes with key {key!r} is larger than option 'message.max.bytes' allows; "
            "raise it, and max.message.bytes of the topic"
        )
    if detail.retriable() or detail.code() in _PASSING:
        return _Passing(detail.str())
    return error
