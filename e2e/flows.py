"""Rows that flow through a Worker's connectors, from one topic to another, with a check for exactly-once."""

import threading
import uuid
from collections import Counter
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from cooperator.connectors.topics import ensure_topic
from e2e.node_installation import NodeNamespace
from tests.harness.support import eventually

_PAUSE_S = 0.1


class Flow:
    """Produces continuously on another thread, until ``complete`` or the end of the block."""

    def __init__(self, place: NodeNamespace, name: str = "copy", partitions: int = 4) -> None:
        self.name = name
        self.source, self.sink = (f"{place.namespace}-{name}-{end}" for end in ("in", "out"))
        self._place = place
        self._client: Any = {"bootstrap.servers": place.bootstrap_servers}
        self._producer = Producer({**self._client, "log_level": 0})
        self._written: Counter[str] = Counter()
        self._writing = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        ensure_topic(self._client, self.source, partitions, -1)

    def connector(self, worker: str = "lake", tasks: int = 2) -> None:
        """Apply the connector that carries the rows, exactly once."""
        config = {"topics": self.source, "topic": self.sink}
        self._place.connector(self.name, worker, **{"class": "kafka-to-kafka"}, tasksMax=tasks, config=config)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def goes_on(self, timeout_s: float = 90) -> None:
        """Wait until a row has arrived that was written after this call."""
        mark = f"mark {uuid.uuid4().hex}"
        self._write(mark)
        eventually(lambda: mark in self._arrived(), timeout_s, f"a new row of {self.name} arrives")

    def complete(self, timeout_s: float = 120) -> None:
        """Stop writing and wait until every written row has arrived exactly once."""
        self._end()

        def exact() -> bool:
            arrived = self._arrived()
            more, less = arrived - self._written, self._written - arrived
            assert not more, f"{len(more)} rows have arrived twice"
            assert not less, f"{len(less)} of {self._written.total()} rows have not arrived"
            return True

        eventually(exact, timeout_s)

    def _end(self) -> None:
        self._ending.set()
        self._thread.join(30)

    def _produce(self) -> None:
        number = 0
        while not self._ending.wait(_PAUSE_S):
            self._write(*(f"row {number + each}" for each in range(10)))
            number += 10

    def _write(self, *rows: str) -> None:
        with self._writing:
            for row in rows:
                self._producer.produce(self.source, row)
            assert self._producer.flush(30) == 0
            self._written.update(rows)

    def _arrived(self) -> Counter[str]:
        return committed(self._place.bootstrap_servers, self.sink)


def committed(servers: str, topic: str) -> Counter[str]:
    """Every committed value of the topic with its number of occurrences."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = (consumer.list_topics(topic, 30).topics[topic].partitions or {}).keys()
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    found: Counter[str] = Counter()
    unread = set(partitions)
    while unread:
        message = consumer.poll(30)
        assert message is not None, f"{topic}: no message for 30 s"
        error = message.error()
        if error is None:
            found[(message.value() or b"").decode()] += 1
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(message.partition())
    consumer.close()
    return found
