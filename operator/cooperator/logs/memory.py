"""A fake of Kafka in memory, with the behaviour on which the logs depend.

Offsets have gaps where Kafka puts a transaction's end marker; a transactional id has one writer at a time;
each reader has its own thread; while the broker is stopped nothing moves, and readers report it.
"""

import threading
import time
from collections.abc import Sequence

from cooperator.logs.errors import LogTimeout, LogUnavailable, WriterFenced
from cooperator.logs.outages import OnOutage, Outages
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Batch, Follower
from cooperator.model.text import counted
from cooperator.wire import Record


class MemoryBroker:
    """Topics that exist as long as this object. Thread-safe; ``changed`` is notified of every change."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._up = True
        self._topics: dict[str, list[tuple[int, Record]]] = {}
        self._ends: dict[str, int] = {}
        self._writers: dict[str, int] = {}
        self.group_record_bytes: int | None = None

    def stop(self) -> None:
        """Become unreachable."""
        self._switch(False)

    def start(self) -> None:
        self._switch(True)

    def _switch(self, up: bool) -> None:
        with self.changed:
            self._up = up
            self.changed.notify_all()

    def create(self, topic: str) -> None:
        """Create the topic if it is missing."""
        with self.changed:
            self._topics.setdefault(topic, [])
            self._ends.setdefault(topic, 0)
            self.changed.notify_all()

    def delete(self, topic: str) -> None:
        with self.changed:
            self._topics.pop(topic, None)
            self._ends.pop(topic, None)
            self.changed.notify_all()

    def outage_of(self, topic: str) -> str | None:
        """Return why the topic cannot be used now; None if it can."""
        with self.changed:
            if not self._up:
                return f"topic {topic}: the broker cannot be reached"
            return None if topic in self._topics else f"topic {topic} does not exist"

    def end(self, topic: str) -> int:
        """Return the offset of the next record. Raises LogUnavailable."""
        with self.changed:
            self._check(topic)
            return self._ends[topic]

    def since(self, topic: str, offset: int) -> list[tuple[int, Record]]:
        """Return the records from ``offset`` on. Raises LogUnavailable."""
        with self.changed:
            self._check(topic)
            return [entry for entry in self._topics[topic] if entry[0] >= offset]

    def append(self, topic: str, records: Sequence[Record]) -> int:
        """Append the records; return the offset after the last one. Raises LogUnavailable."""
        with self.changed:
            self._check(topic)
            self._topics[topic] += enumerate(records, start=self._ends[topic])
            self._ends[topic] += len(records)
            self.changed.notify_all()
            return self._ends[topic]

    def init_writer(self, transactional_id: str) -> int:
        """Return the number of a new writer; fence earlier ones with the same id. Raises LogUnavailable."""
        with self.changed:
            if not self._up:
                raise LogUnavailable(f"writer {transactional_id}: the broker cannot be reached")
            self._writers[transactional_id] = self._writers.get(transactional_id, 0) + 1
            return self._writers[transactional_id]

    def commit(self, transactional_id: str, writer: int, topic: str, records: Sequence[Record]) -> int:
        """Commit one transaction: ``append``, then an end marker takes an offset. Raises WriterFenced."""
        with self.changed:
            if self._writers[transactional_id] != writer:
                raise WriterFenced(f"writer {transactional_id}: another writer has taken over")
            after = self.append(topic, records)
            self._ends[topic] += 1
            return after

    def _check(self, topic: str) -> None:
        outage = self.outage_of(topic)
        if outage is not None:
            raise LogUnavailable(outage)


class MemoryTransport:
    """One process's clients of a MemoryBroker; ``on_outage`` is called with the readers' outages."""

    def __init__(self, broker: MemoryBroker, on_outage: OnOutage | None = None) -> None:
        self._broker = broker
        self._outages = Outages(on_outage)

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        self._broker.create(topic)

    def group_record_bytes(self, timeout_ms: int) -> int | None:
        return self._broker.group_record_bytes

    def topic_reader(self, topic: str, follower: Follower) -> "MemoryTopicReader":
        return MemoryTopicReader(self._broker, topic, follower, self._outages)

    def topic_writer(self, topic: str) -> "MemoryTopicWriter":
        return MemoryTopicWriter(self._broker, topic)

    def transactor(self, transactional_id: str, timeout_ms: int) -> "MemoryTransactor":
        return MemoryTransactor(self._broker, transactional_id)


class MemoryTopicReader:
    """A TopicReader of one topic of a MemoryBroker."""

    def __init__(self, broker: MemoryBroker, topic: str, follower: Follower, outages: Outages) -> None:
        self._broker = broker
        self._topic = topic
        self._follower = follower
        self._outages = outages
        self._position = -1  # nothing read yet, not even an empty topic
        self._closed = False
        self._progress = Progress(topic)
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._progress.started(self._thread)
        self._thread.start()

    def read_to_end(self, timeout_ms: int) -> None:
        self._progress.wait({0: self._broker.end(self._topic)}, time.monotonic() + timeout_ms / 1000)

    def end(self, timeout_ms: int) -> int:
        return self._broker.end(self._topic)

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self._progress.wait({0: offset}, time.monotonic() + timeout_ms / 1000)

    def close(self) -> None:
        with self._broker.changed:
            self._closed = True
            self._broker.changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while (step := self._next()) is not None:
            if isinstance(step, str):
                self._outages.report(self._topic, step)
                continue
            batch, end = step
            self._outages.clear(self._topic)
            if end < self._position:
                self._progress.start_over()
                self._follower.start_over()
            if batch:
                self._follower.take(batch)
            self._follower.caught_up()
            self._position = end
            self._progress.reached(0, end)
            self._progress.caught_up()
        self._outages.clear(self._topic)

    def _next(self) -> tuple[Batch, int] | str | None:
        """Wait for records (with the end after them) or a new outage; None when closed."""
        with self._broker.changed:
            while not self._closed:
                reported, outage = self._outages.of(self._topic), self._broker.outage_of(self._topic)
                if outage is None:
                    end = self._broker.end(self._topic)
                    if end != self._position or reported is not None:
                        start = self._position if end >= self._position else 0
                        return self._broker.since(self._topic, start), end
                elif outage != reported:
                    return outage
                self._broker.changed.wait()
            return None


class MemoryTopicWriter:
    """A TopicWriter to one topic of a MemoryBroker."""

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._waiting: list[Record] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"writer of {topic}", daemon=True)
        self._thread.start()

    def send(self, record: Record) -> None:
        with self._broker.changed:
            self._waiting.append(record)
            self._broker.changed.notify_all()

    def flush(self, timeout_ms: int) -> None:
        with self._broker.changed:
            if not self._broker.changed.wait_for(lambda: not self._waiting, timeout_ms / 1000):
                raise LogTimeout(
                    f"topic {self._topic}: {counted(len(self._waiting), 'record')} could not be written"
                )

    def close(self, timeout_ms: int) -> None:
        with self._broker.changed:
            self._broker.changed.wait_for(lambda: not self._waiting, timeout_ms / 1000)
            self._closed = True
            self._broker.changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        with self._broker.changed:
            while not self._closed:
                if self._waiting and self._broker.outage_of(self._topic) is None:
                    self._broker.append(self._topic, self._waiting)
                    self._waiting.clear()
                else:
                    self._broker.changed.wait()


class MemoryTransactor:
    """A Transactor on a MemoryBroker."""

    def __init__(self, broker: MemoryBroker, transactional_id: str) -> None:
        self._broker = broker
        self._id = transactional_id
        self._writer: int | None = None

    def open(self) -> None:
        self._writer = self._broker.init_writer(self._id)

    def write(self, topic: str, records: Sequence[Record]) -> int:
        if self._writer is None:
            raise WriterFenced(f"writer {self._id} is not open: open it when the lead is taken")
        return self._broker.commit(self._id, self._writer, topic, records)

    def close(self) -> None:
        self._writer = None
