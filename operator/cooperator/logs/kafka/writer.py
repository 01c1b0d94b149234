"""One producer for the non-transactional writes of many groups, with one thread that serves all of them."""

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from confluent_kafka import KafkaError, Message, Producer

from cooperator.logs.kafka.connection import Connection
from cooperator.logs.kafka.settings import CLIENT_ID
from cooperator.supervision import close_aside, supervised, turn
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_QUICK_POLL_S: Final = 0.01
_CLOSED_S: Final = 20.0
"""More than the time after which a producer that does not close is abandoned."""

OnDelivery = Callable[[KafkaError | None, Message], None]


class Queue(Protocol):
    """The records of one topic that a ``Writer`` sends. None of this blocks."""

    @property
    def asking(self) -> bool:
        """A request is pending."""

    def tend(self) -> None:
        """Do what is due. The writer calls this several times a second."""

    def note(self, error: KafkaError) -> None:
        """Note a connection error of the producer."""


class Writer:
    """Sends the records of its queues to the broker, and reports each delivery to its queue."""

    def __init__(self, shared: Connection) -> None:
        """Raises KafkaException for unusable settings."""
        self._shared = shared
        self._queues: tuple[Queue, ...] = ()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._producer: Producer | None = shared.access.producer(
            CLIENT_ID,
            self._on_error,
            {
                "message.timeout.ms": 0,  # no time-out
                "max.in.flight.requests.per.connection": 1,  # a retry must not overtake
                "queue.buffering.max.messages": 1_000_000,  # each queue has its own limit
                "linger.ms": 5,
            },
        )
        name = f"writer to {shared.access.bootstrap_servers}"
        self._thread = supervised(self._run, name, self._producer)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._queues

    def add(self, queue: Queue) -> None:
        with self._lock:
            self._queues = (*self._queues, queue)

    def remove(self, queue: Queue) -> None:
        with self._lock:
            self._queues = tuple(each for each in self._queues if each is not queue)

    def produce(self, topic: str, record: Record, on_delivery: OnDelivery) -> None:
        """Queue a record. Raises BufferError when the queue is full or closed, KafkaException when the record
        can never be sent."""
        producer = self._producer
        if producer is None:
            raise BufferError("closed")
        producer.produce(topic, record.value, record.key, on_delivery=on_delivery)

    def purge(self) -> None:
        """Return all unwritten records, of all queues, to their queues."""
        producer = self._producer
        if producer is not None:
            producer.purge()

    def close(self) -> None:
        """Drop unwritten records, and end the producer, or abandon it."""
        self._closing.set()
        self._thread.join(_CLOSED_S)
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            # The library ends a producer when nothing refers to it any more.
            last = [producer]
            del producer
            close_aside(last.clear, f"producer of the {self._thread.name}").wait(_CLOSED_S)

    def _run(self, producer: Producer) -> None:
        while not self._closing.is_set():
            turn()
            try:
                asking = any(queue.asking for queue in self._queues)
                producer.poll(_QUICK_POLL_S if asking else _POLL_S)
            except Exception:
                logger.exception("the %s continues after an error", self._thread.name)
            for queue in self._queues:
                queue.tend()
            self._shared.callbacks.watch()

    def _on_error(self, error: KafkaError) -> None:
        """Handle an error of the producer's connections. Called by the producer while it is polled."""
        for queue in self._queues:
            queue.note(error)
