"""One producer for what many groups write outside of transactions: one thread, which goes round to all."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Message, Producer

from cooperator.logs.kafka_settings import CLIENT_ID
from cooperator.wire import Record

if TYPE_CHECKING:
    from cooperator.logs.kafka_clients import Shared
    from cooperator.logs.kafka_outlet import KafkaOutlet

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_QUICK_POLL_S: Final = 0.01

OnDelivery = Callable[[KafkaError | None, Message], None]


class Writer:
    """Takes the records of its outlets to the broker, and tells each what became of its own."""

    def __init__(self, shared: "Shared") -> None:
        """Raises KafkaException for settings of no use."""
        self._shared = shared
        self._outlets: tuple[KafkaOutlet, ...] = ()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._producer: Producer | None = shared.access.producer(
            CLIENT_ID,
            self._on_error,
            {
                "message.timeout.ms": 0,  # for ever
                "max.in.flight.requests.per.connection": 1,  # a retry must not overtake
                "queue.buffering.max.messages": 1_000_000,  # each outlet has a limit of its own
                "linger.ms": 5,
            },
        )
        name = f"writer to {shared.access.bootstrap_servers}"
        self._thread = threading.Thread(target=self._run, args=(self._producer,), name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._outlets

    def add(self, outlet: "KafkaOutlet") -> None:
        with self._lock:
            self._outlets = (*self._outlets, outlet)

    def remove(self, outlet: "KafkaOutlet") -> None:
        with self._lock:
            self._outlets = tuple(each for each in self._outlets if each is not outlet)

    def produce(self, topic: str, record: Record, on_delivery: OnDelivery) -> None:
        """Raises BufferError when it takes nothing now, KafkaException when it never takes this record."""
        producer = self._producer
        if producer is None:
            raise BufferError("closed")
        producer.produce(topic, record.value, record.key, on_delivery=on_delivery)

    def purge(self) -> None:
        """Give everything back that is not written yet, whosever it is: each is told of its own."""
        producer = self._producer
        if producer is not None:
            producer.purge()

    def close(self) -> None:
        """What is not written is dropped. When this returns the producer is gone."""
        self._closing.set()
        self._thread.join()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def _run(self, producer: Producer) -> None:
        while not self._closing.is_set():
            try:
                asking = any(outlet.asking for outlet in self._outlets)
                producer.poll(_QUICK_POLL_S if asking else _POLL_S)
            except Exception:
                logger.exception("the %s goes on after an error", self._thread.name)
            for outlet in self._outlets:
                outlet.tend()
            self._shared.deliveries.watch()

    def _on_error(self, error: KafkaError) -> None:
        """Called by the producer while it is polled; what it says concerns the connections."""
        for outlet in self._outlets:
            outlet.note(error)
