"""The broker's topics and their clients: what the package ``logs`` runs on here, in simulated time.

Offsets have gaps where Kafka puts a transaction's end marker; a transactional id has one writer at a time. A
call that would block returns at once, with its result or with the error that would have ended it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cooperator.logs import Logs, LogsConfig, LogTimeout, LogUnavailable, WriterFenced
from cooperator.logs.transport import Batch, Follower
from cooperator.wire import Record
from tests.simulation.network import BROKER
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

RETRY_MS = 300


@dataclass
class Topic:
    """``records`` are those that compaction has left, by offset."""

    end: int = 0
    records: list[tuple[int, Record]] = field(default_factory=list)
    topic_readers: list["TopicReader"] = field(default_factory=list)

    def after(self, offset: int) -> Batch:
        """All records from ``offset`` on."""
        return self.records[bisect_left(self.records, offset, key=_offset) :]

    def compact(self, before: int) -> None:
        """Keep, of the records before offset ``before``, the newest of each key, without tombstones that
        every reader has passed (they are kept for longer than any reader is behind). The last record of all
        is in the active segment, which is never compacted."""
        if not self.records:
            return
        before = min(before, self.records[-1][0])
        passed = min((topic_reader.position for topic_reader in self.topic_readers), default=before)
        newest = {record.key: offset for offset, record in self.records if offset < before}
        self.records = [
            (offset, record)
            for offset, record in self.records
            if offset >= before
            or (newest[record.key] == offset and (record.value is not None or offset >= passed))
        ]


def _offset(entry: tuple[int, Record]) -> int:
    return entry[0]


@dataclass
class Topics:
    """All topics, by name; ``writers`` has the permitted writer by transactional id."""

    simulation: "Simulation"
    by_name: dict[str, Topic] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    newest: "Transactor | None" = None
    """The last one to open: no earlier one may write."""
    down: int = 0
    """The number of faults that keep only the topics unreachable for everybody."""

    silent: list[Process] = field(default_factory=list)
    """Processes whose readers hang."""

    def of(self, name: str) -> Topic:
        return self.by_name.setdefault(name, Topic())

    def check(self, process: Process) -> None:
        """Raises LogUnavailable unless ``process`` reaches the broker."""
        if not self.reached_by(process):
            raise LogUnavailable("the broker cannot be reached")

    def reached_by(self, process: Process) -> bool:
        return (
            not self.down
            and self.simulation.port.up
            and self.simulation.network.reaches(process.place, BROKER)
        )

    def append(self, name: str, records: Sequence[Record], marker: bool) -> int:
        topic = self.of(name)
        topic.records += enumerate(records, start=topic.end)
        after = topic.end + len(records)
        topic.end = after + marker
        for topic_reader in topic.topic_readers:
            topic_reader.notice()
        self.simulation.appended(name, records)
        return after


class Transport:
    """One process's clients of the topics, like ``logs.transport.Transport``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        topics = self._process.simulation.topics
        topics.check(self._process)
        topics.of(topic)

    def group_record_bytes(self, timeout_ms: int) -> int | None:
        simulation = self._process.simulation
        if not simulation.topics.reached_by(self._process):
            return None
        return simulation.coordinator.settings.max_record_bytes

    def topic_reader(self, topic: str, follower: Follower) -> "TopicReader":
        return TopicReader(self._process, topic, follower)

    def topic_writer(self, topic: str) -> "TopicWriter":
        return TopicWriter(self._process, topic)

    def transactor(self, transactional_id: str, timeout_ms: int) -> "Transactor":
        return Transactor(self._process, transactional_id)


class TopicReader:
    def __init__(self, process: Process, name: str, follower: Follower) -> None:
        self._process = process
        self._topics = process.simulation.topics
        self._topic = self._topics.of(name)
        self._follower = follower
        self.position = -1
        """Everything before this offset has been read; -1 before the first read."""
        self._due = False
        self._topic.topic_readers.append(self)
        self.notice()

    def notice(self) -> None:
        if not self._due:
            self._due = True
            self._process.after(self._process.simulation.network.delay_ms(), self._look)

    def end(self, timeout_ms: int) -> int:
        self._topics.check(self._process)
        return self._topic.end

    def read_to_end(self, timeout_ms: int) -> None:
        self._topics.check(self._process)
        if self._process.simulation.network.loses() or self._process in self._topics.silent:
            raise LogTimeout("the log could not be read in time")
        self._read()

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self.read_to_end(timeout_ms)

    def close(self) -> None:
        if self in self._topic.topic_readers:
            self._topic.topic_readers.remove(self)

    def _look(self) -> None:
        self._due = False
        if self not in self._topic.topic_readers:
            return
        if self._topics.reached_by(self._process) and self._process not in self._topics.silent:
            self._read()
        else:
            self._due = True
            self._process.after(RETRY_MS, self._look)

    def _read(self) -> None:
        topic = self._topic
        if self.position == topic.end:
            return
        batch = topic.after(self.position)
        self.position = topic.end
        if batch:
            self._follower.take(batch)
        self._follower.caught_up()


class TopicWriter:
    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name
        self._waiting: list[Record] = []
        self._due = False

    def send(self, record: Record) -> None:
        self._waiting.append(record)
        if not self._due:
            self._due = True
            self._process.after(self._process.simulation.network.delay_ms(), self._write)

    def flush(self, timeout_ms: int) -> None:
        """No caller of flush is simulated."""

    def close(self, timeout_ms: int) -> None:
        self._write()

    def _write(self) -> None:
        self._due = False
        topics = self._process.simulation.topics
        if not self._waiting:
            return
        if topics.reached_by(self._process):
            topics.append(self._name, self._waiting, marker=False)
            self._waiting = []
        else:
            self._due = True
            self._process.after(RETRY_MS, self._write)


class Transactor:
    def __init__(self, process: Process, transactional_id: str) -> None:
        self._process = process
        self._topics = process.simulation.topics
        self._id = transactional_id
        self._writer: int | None = None

    def open(self) -> None:
        self._topics.check(self._process)
        self._topics.newest = self
        self._writer = self._topics.writers[self._id] = self._topics.writers.get(self._id, 0) + 1

    def write(self, topic: str, records: Sequence[Record]) -> int:
        if self._writer is None:
            raise WriterFenced(f"writer {self._id} is not open: open it when the lead is taken")
        network = self._process.simulation.network
        if network.loses():
            raise LogUnavailable("the transaction could not be begun")
        self._topics.check(self._process)
        if self._topics.writers[self._id] != self._writer:
            raise WriterFenced(f"writer {self._id}: another writer has taken over")
        if self._topics.newest is not self:
            self._process.simulation.late_writes.append(f"{self._process.name} to {topic}")
        after = self._topics.append(topic, records, marker=True)
        if network.loses():
            raise LogUnavailable("it is not known whether the transaction was committed")
        return after

    def close(self) -> None:
        self._writer = None


class SimulatedLogs(Logs):
    """The real logs over ``Transport``, closed without threads."""

    def __init__(self, process: Process, config: LogsConfig) -> None:
        super().__init__(Transport(process), config)

    def close(self) -> None:
        for part in (self.writer, self.status, self.config, self.leader):
            part.close()
