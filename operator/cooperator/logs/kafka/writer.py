"""One producer for the non-transactional writes of many groups, with one thread that serves all of them."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Message, Producer

from cooperator.logs.kafka.settings import CLIENT_ID
from cooperator.wire import Record

if TYPE_CHECKING:
    from cooperator.logs.kafka.clients import Shared
    from cooperator.logs.kafka.topic_writer import KafkaTopicWriter

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_QUICK_POLL_S: Final = 0.01

OnDelivery = Callable[[KafkaError | None, Message], None]


class Writer:
    """Sends the records of its topic writers to the broker, and reports each delivery to its topic writer."""

    def __init__(self, shared: "Shared") -> None:
        """Raises KafkaException for unusable settings."""
        self._shared = shared
        self._topic_writers: tuple[KafkaTopicWriter, ...] = ()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._producer: Producer | None = shared.access.producer(
            CLIENT_ID,
            self._on_error,
            {
                "message.timeout.ms": 0,  # no time-out
                "max.in.flight.requests.per.connection": 1,  # a retry must not overtake
                "queue.buffering.max.messages": 1_000_000,  # each topic writer has its own limit
                "linger.ms": 5,
            },
        )
        name = f"writer to {shared.access.bootstrap_servers}"
        self._thread = threading.Thread(target=self._run, args=(self._producer,), name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._topic_writers

    def add(self, topic_writer: "KafkaTopicWriter") -> None:
        with self._lock:
            self._topic_writers = (*self._topic_writers, topic_writer)

    def remove(self, topic_writer: "KafkaTopicWriter") -> None:
        with self._lock:
            self._topic_writers = tuple(each for each in self._topic_writers if each is not topic_writer)

    def produce(self, topic: str, record: Record, on_delivery: OnDelivery) -> None:
        """Queue a record. Raises BufferError when the queue is full or closed, KafkaException when the record
        can never be sent."""
        producer = self._producer
        if producer is None:
            raise BufferError("closed")
        producer.produce(topic, record.value, record.key, on_delivery=on_delivery)

    def purge(self) -> None:
        """Return all unwritten records, of all topic writers, to their topic writers."""
        producer = self._producer
        if producer is not None:
            producer.purge()

    def close(self) -> None:
        """Drop unwritten records, and end the producer."""
        self._closing.set()
        self._thread.join()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _run(self, producer: Producer) -> None:
        while not self._closing.is_set():
            try:
                asking = any(topic_writer.asking for topic_writer in self._topic_writers)
                producer.poll(_QUICK_POLL_S if asking else _POLL_S)
            except Exception:
                logger.exception("the %s continues after an error", self._thread.name)
            for topic_writer in self._topic_writers:
                topic_writer.tend()
            self._shared.callbacks.watch()

    def _on_error(self, error: KafkaError) -> None:
        """Handle an error of the producer's connections. Called by the producer while it is polled."""
        for topic_writer in self._topic_writers:
            topic_writer.note(error)
