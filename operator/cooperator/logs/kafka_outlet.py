"""Writing records to a Kafka topic some time soon, whatever the broker does meanwhile."""

import logging
import threading
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from cooperator.logs.errors import LogTimeout
from cooperator.logs.kafka_clients import Clients, error_text
from cooperator.logs.kafka_topics import count_partitions
from cooperator.logs.trouble import Troubles
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_RETRY_S: Final = 1.0
_PATIENCE_S: Final = 5.0
_LOOKUP_S: Final = 3.0
_QUEUE: Final = 10_000


class KafkaOutlet:
    """An Outlet on a producer that never gives a record up.

    Records go to the producer in the order sent. When its queue is full, or the broker refuses a record, the
    newest record of each key waits here instead; an older one of the key is not written any more.
    """

    def __init__(self, clients: Clients, topic: str, troubles: Troubles) -> None:
        self._topic = topic
        self._troubles = troubles
        self._source = f"writer of {topic}"
        self._clients = clients
        self._exists = False
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._sent = 0
        self._newest: dict[str, int] = {}
        self._late: dict[str, tuple[int, Record]] = {}
        self._late_until = 0.0
        self._handed = 0
        self._moved_at = 0.0
        self._detail = "the broker does not answer"
        self._producer = clients.producer(
            self._on_error,
            {
                "message.timeout.ms": 0,  # for ever
                "max.in.flight.requests.per.connection": 1,  # a retry must not overtake
                "queue.buffering.max.messages": _QUEUE,
                "linger.ms": 5,
            },
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._source, daemon=True)
        self._thread.start()

    def send(self, record: Record) -> None:
        with self._lock:
            self._sent += 1
            number = self._newest[record.key] = self._sent
            if not self._exists or record.key in self._late or not self._hand_over(number, record):
                self._late[record.key] = (number, record)

    def flush(self, timeout_ms: int) -> None:
        with self._idle:
            if not self._idle.wait_for(lambda: not self._handed and not self._late, timeout_ms / 1000):
                waiting = self._handed + len(self._late)
                raise LogTimeout(
                    f"topic {self._topic}: {waiting} records are not written yet: {self._detail}"
                )

    def close(self, timeout_ms: int) -> None:
        try:
            self.flush(timeout_ms)
        except LogTimeout as error:
            logger.warning("closing all the same: %s", error)
        self._closing.set()
        self._thread.join()
        self._producer.purge()
        self._troubles.clear(self._source)

    def _hand_over(self, number: int, record: Record) -> bool:
        """Whether the producer took the record. Called with the lock."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            self._delivered(number, record, error)

        try:
            self._producer.produce(self._topic, record.value, record.key, on_delivery=delivered)
        except BufferError:
            return False
        except KafkaException as error:
            logger.error("topic %s: record %s is lost: %s", self._topic, record.key, error_text(error))
            return True
        if not self._handed:
            self._moved_at = time.monotonic()
        self._handed += 1
        return True

    def _delivered(self, number: int, record: Record, error: KafkaError | None) -> None:
        """Called by the producer while it is polled, in the order of writing."""
        with self._idle:
            self._handed -= 1
            if error is None:
                self._moved_at = time.monotonic()
            else:
                self._detail = error_text(error)
                self._late_until = time.monotonic() + _RETRY_S
                if self._newest[record.key] == number:
                    self._late[record.key] = (number, record)
            if not self._handed and not self._late:
                self._idle.notify_all()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._producer.poll(_POLL_S)
                if self._late:
                    self._check_exists()
                    self._hand_over_late()
                self._watch()
            except Exception:
                logger.exception("the %s goes on after an error", self._source)
                self._closing.wait(_RETRY_S)

    def _check_exists(self) -> None:
        """A producer that writes to a missing topic makes the broker create it, and not compacted."""
        if self._exists:
            return
        try:
            self._exists = count_partitions(self._clients.admin(), self._topic, _LOOKUP_S) is not None
            if not self._exists:
                self._detail = "the topic does not exist (yet)"
        except KafkaException as error:
            self._detail = error_text(error)
        if not self._exists:
            self._closing.wait(_RETRY_S)

    def _hand_over_late(self) -> None:
        with self._idle:
            if not self._exists or time.monotonic() < self._late_until:
                return
            for key, (number, record) in tuple(self._late.items()):
                if not self._hand_over(number, record):
                    return
                del self._late[key]
            if not self._handed:
                self._idle.notify_all()

    def _watch(self) -> None:
        with self._lock:
            stuck = (self._handed or self._late) and time.monotonic() - self._moved_at > _PATIENCE_S
        if stuck:
            self._troubles.report(
                self._source, f"topic {self._topic}: records wait to be written: {self._detail}"
            )
        else:
            self._troubles.clear(self._source)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)
