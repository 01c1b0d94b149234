"""Writing records to a Kafka topic some time soon, whatever the broker does meanwhile."""

import logging
import threading
import time
from collections import deque
from typing import Final, NamedTuple

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


class _Sent(NamedTuple):
    number: int
    record: Record


class KafkaOutlet:
    """An Outlet on a producer that never gives a record up.

    Records go to the producer in the order sent. What it does not take (its queue is full, the topic does
    not exist yet, the broker has refused it) waits here, in order; when too many wait, only the newest
    record of each key is kept.
    """

    def __init__(self, clients: Clients, topic: str, troubles: Troubles) -> None:
        self._clients = clients
        self._topic = topic
        self._troubles = troubles
        self._source = f"writer of {topic}"
        self._changed = threading.Condition()
        self._waiting: deque[_Sent] = deque()
        self._most_waiting = _QUEUE
        self._newest: dict[str, int] = {}
        self._last_number = 0
        self._handed = 0
        self._exists = False
        self._not_before = 0.0
        self._moved_at = time.monotonic()
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
        with self._changed:
            if self._is_idle():
                self._moved_at = time.monotonic()
            self._last_number += 1
            self._newest[record.key] = self._last_number
            self._waiting.append(_Sent(self._last_number, record))
            if len(self._waiting) > self._most_waiting:
                self._thin_out()
            self._hand_over()

    def flush(self, timeout_ms: int) -> None:
        with self._changed:
            if not self._changed.wait_for(self._is_idle, timeout_ms / 1000):
                count = self._handed + len(self._waiting)
                raise LogTimeout(f"topic {self._topic}: {count} records are not written yet: {self._detail}")

    def close(self, timeout_ms: int) -> None:
        try:
            self.flush(timeout_ms)
        except LogTimeout as error:
            logger.warning("closing all the same: %s", error)
        self._closing.set()
        self._thread.join()
        self._producer.purge()
        self._troubles.clear(self._source)

    # --- with the lock --------------------------------------------------------------------------------

    def _is_idle(self) -> bool:
        return not self._handed and not self._waiting

    def _thin_out(self) -> None:
        """Keep the newest of each key. The next time comes late enough to be worth the walk."""
        self._waiting = deque(sent for sent in self._waiting if sent.number == self._newest[sent.record.key])
        self._most_waiting = 2 * len(self._waiting) + _QUEUE

    def _hand_over(self) -> None:
        """Give the producer what it takes now."""
        if not self._exists or time.monotonic() < self._not_before:
            return
        while self._waiting:
            sent = self._waiting[0]

            def delivered(error: KafkaError | None, _message: Message, sent: _Sent = sent) -> None:
                self._delivered(sent, error)

            try:
                self._producer.produce(self._topic, sent.record.value, sent.record.key, on_delivery=delivered)
                self._handed += 1
            except BufferError:
                return
            except KafkaException as error:
                logger.error("topic %s: %s is lost: %s", self._topic, sent.record.key, error_text(error))
            self._waiting.popleft()

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._producer.poll(_POLL_S)
                if not self._exists and self._waiting:
                    self._look_up()
                with self._changed:
                    self._hand_over()
                self._watch()
            except Exception:
                logger.exception("the %s goes on after an error", self._source)
                self._closing.wait(_RETRY_S)

    def _look_up(self) -> None:
        """A producer that writes to a missing topic makes the broker create it, and not compacted."""
        try:
            self._exists = count_partitions(self._clients.admin(), self._topic, _LOOKUP_S) is not None
            if self._exists:
                return
            self._detail = f"topic {self._topic} does not exist (yet)"
        except KafkaException as error:
            self._detail = error_text(error)
        self._closing.wait(_RETRY_S)

    def _delivered(self, sent: _Sent, error: KafkaError | None) -> None:
        """Called by the producer while it is polled, in the order of writing."""
        with self._changed:
            self._handed -= 1
            if error is None:
                self._moved_at = time.monotonic()
            else:
                self._detail = error_text(error)
                self._not_before = time.monotonic() + _RETRY_S
                if self._newest[sent.record.key] == sent.number:
                    self._waiting.append(sent)
            if self._is_idle():
                self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            stuck = not self._is_idle() and time.monotonic() - self._moved_at > _PATIENCE_S
        if stuck:
            self._troubles.report(
                self._source, f"topic {self._topic}: records wait to be written: {self._detail}"
            )
        else:
            self._troubles.clear(self._source)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)
