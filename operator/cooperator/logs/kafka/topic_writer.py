"""Writes records to a Kafka topic as soon as possible, through broker outages."""

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from cooperator.logs.errors import LogTimeout
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import error_text, result_of
from cooperator.logs.kafka.topics import ask_partitions
from cooperator.logs.outages import Outages
from cooperator.model.text import counted
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_PATIENCE_S: Final = 5.0
_LOOKUP_S: Final = 3.0
_QUEUE: Final = 10_000
_IN_HAND: Final = 1_000

# Another topic writer has closed and purged the shared producer.
_GIVEN_BACK: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class _Sent(NamedTuple):
    number: int
    record: Record


class KafkaTopicWriter:
    """A TopicWriter on a producer that never gives up a record; its ``Writer`` owns the producer.

    Records go to the producer in the order sent, with a limit that leaves room for other topic writers.
    Records that are not with the producer (the limit is reached, the topic does not exist yet, the broker has
    refused them) wait here, in order; when too many wait, only the newest record of each key is kept.
    """

    def __init__(self, clients: Clients, topic: str, outages: Outages) -> None:
        """Raises KafkaException for unusable settings."""
        self._clients = clients
        self._topic = topic
        self._outages = outages
        self._source = f"writer of {topic}"
        self._changed = threading.Condition()
        self._waiting: deque[_Sent] = deque()
        self._most_waiting = _QUEUE
        self._newest: dict[str, int] = {}
        self._last_number = 0
        self._handed = 0
        self._exists = False
        self._is_new = True
        """The topic is looked up once before there is a record, so that the first one need not wait."""
        self._asked: tuple[Future[Any], AdminClient] | None = None
        self._not_before = 0.0
        self._tended_from = 0.0
        self._moved_at = time.monotonic()
        self._detail = "the broker does not answer"
        self._reported = ""
        self._closed = False
        self._released = threading.Lock()
        self._shared = clients.acquire()
        self._executor = self._shared.callbacks.executor()
        try:
            self._writer = self._shared.attach(self)
        except BaseException:
            clients.release(self._shared)
            raise

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
                raise LogTimeout(
                    f"topic {self._topic}: {counted(count, 'record')} still unwritten: {self._detail}"
                )

    def close(self, timeout_ms: int) -> None:
        if not self._released.acquire(blocking=False):
            return
        try:
            self.flush(timeout_ms)
        except LogTimeout as error:
            logger.warning("closing anyway: %s", error)
        with self._changed:
            self._closed = True
            self._waiting.clear()
            unwritten = self._handed > 0
        self._shared.detach(self)
        if unwritten:
            # These records must not be written after those of a later writer of the same keys.
            self._writer.purge()
        self._asked = None
        self._executor.close()
        self._outages.clear(self._source)
        self._clients.release(self._shared)

    # --- called with the lock held --------------------------------------------------------------------

    def _is_idle(self) -> bool:
        return not self._handed and not self._waiting

    def _thin_out(self) -> None:
        """Keep only the newest record of each key; the next limit is high enough to amortize the cost."""
        self._waiting = deque(sent for sent in self._waiting if sent.number == self._newest[sent.record.key])
        self._most_waiting = 2 * len(self._waiting) + _QUEUE

    def _hand_over(self) -> None:
        """Pass waiting records to the producer, as many as it takes now."""
        if not self._exists or self._closed or time.monotonic() < self._not_before:
            return
        while self._waiting and self._handed < _IN_HAND:
            sent = self._waiting[0]

            def delivered(error: KafkaError | None, _message: Message, sent: _Sent = sent) -> None:
                self._delivered(sent, error)

            try:
                self._writer.produce(self._topic, sent.record, delivered)
                self._handed += 1
            except BufferError:
                return
            except KafkaException as error:
                logger.error("topic %s: lost %s: %s", self._topic, sent.record.key, error_text(error))
            self._waiting.popleft()

    # --- a Queue, on the writer's thread --------------------------------------------------------------

    @property
    def asking(self) -> bool:
        return self._asked is not None

    def tend(self) -> None:
        if time.monotonic() < self._tended_from:
            return
        try:
            is_asked = self._waiting or self._is_new or self._asked is not None
            if not self._exists and is_asked and not self._closed:
                self._look_up()
            with self._changed:
                self._hand_over()
            self._watch()
        except Exception:
            logger.exception("the %s continues after an error", self._source)
            self._tended_from = time.monotonic() + _RETRY_S

    def note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)

    def _look_up(self) -> None:
        """Check that the topic exists: writing to a missing topic makes the broker create it, uncompacted."""
        if self._asked is None:
            if time.monotonic() >= self._not_before:
                admin = self._shared.admin()
                self._is_new = False
                self._asked = (ask_partitions(admin, [self._topic], _LOOKUP_S)[self._topic], admin)
            return
        answer, _ = self._asked
        if not answer.done():
            return
        self._asked = None
        try:
            result_of(answer)
            self._exists = True
        except KafkaException as error:
            missing = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            self._detail = f"topic {self._topic} does not exist yet" if missing else error_text(error)
            self._not_before = time.monotonic() + _RETRY_S

    def _delivered(self, sent: _Sent, error: KafkaError | None) -> None:
        """Handle a delivery report. Called by the producer while it is polled, in the order of writing."""
        with self._changed:
            self._handed -= 1
            if error is None:
                self._moved_at = time.monotonic()
            else:
                if error.code() not in _GIVEN_BACK:
                    self._detail = error_text(error)
                    self._not_before = time.monotonic() + _RETRY_S
                if self._newest[sent.record.key] == sent.number and not self._closed:
                    self._waiting.append(sent)
            if self._is_idle():
                self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            stuck = not self._is_idle() and time.monotonic() - self._moved_at > _PATIENCE_S
        outage = f"topic {self._topic}: records are waiting to be written: {self._detail}" if stuck else ""
        if outage == self._reported:
            return
        self._reported = outage
        if outage:
            self._executor.put(lambda: self._outages.report(self._source, outage))
        else:
            self._executor.put(lambda: self._outages.clear(self._source))
