"""The broker's topics and their clients: what the logs room runs on here, in simulated time.

Offsets have gaps where Kafka puts a transaction's end marker; a transactional id has one writer at a time.
A call that would block is over at once: it has its result, or the trouble that would have ended it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cooperator.logs import Logs, LogsConfig, LogTimeout, LogUnavailable, WriterFenced
from cooperator.logs.transport import Batch, Follower
from cooperator.wire import Record
from simulation.network import BROKER
from simulation.process import Process

if TYPE_CHECKING:
    from simulation.world import World

RETRY_MS = 300


@dataclass
class Topic:
    """``records``: by offset, those that compaction has left."""

    end: int = 0
    records: list[tuple[int, Record]] = field(default_factory=list)
    tails: list["Tail"] = field(default_factory=list)

    def after(self, offset: int) -> Batch:
        """All records from ``offset`` on."""
        return self.records[bisect_left(self.records, offset, key=_offset) :]

    def compact(self, before: int) -> None:
        """Of the records before offset ``before`` keep the newest of each key, and of those no tombstone that
        every reader has passed (they are kept for longer than anybody is behind). The last record of all is
        in the active segment, which is never compacted."""
        if not self.records:
            return
        before = min(before, self.records[-1][0])
        passed = min((tail.position for tail in self.tails), default=before)
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
    """All topics, by name; ``writers``: by transactional id, who may write."""

    world: "World"
    by_name: dict[str, Topic] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    newest: "Transactor | None" = None
    """Who has opened last: nobody who did before may write."""
    down: int = 0
    """How many faults keep the topics, and only them, out of everybody's reach."""

    def of(self, name: str) -> Topic:
        return self.by_name.setdefault(name, Topic())

    def check(self, process: Process) -> None:
        """Raise LogUnavailable unless ``process`` reaches the broker."""
        if not self.reached_by(process):
            raise LogUnavailable("the broker cannot be reached")

    def reached_by(self, process: Process) -> bool:
        return not self.down and self.world.port.up and self.world.network.reaches(process.place, BROKER)

    def append(self, name: str, records: Sequence[Record], marker: bool) -> int:
        topic = self.of(name)
        topic.records += enumerate(records, start=topic.end)
        after = topic.end + len(records)
        topic.end = after + marker
        for tail in topic.tails:
            tail.notice()
        self.world.appended(name, records)
        return after


class Transport:
    """One process's clients of the topics; as ``logs.transport.Transport``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        topics = self._process.world.topics
        topics.check(self._process)
        topics.of(topic)

    def tail(self, topic: str, follower: Follower) -> "Tail":
        return Tail(self._process, topic, follower)

    def outlet(self, topic: str) -> "Outlet":
        return Outlet(self._process, topic)

    def transactor(self, transactional_id: str, timeout_ms: int) -> "Transactor":
        return Transactor(self._process, transactional_id)


class Tail:
    def __init__(self, process: Process, name: str, follower: Follower) -> None:
        self._process = process
        self._topics = process.world.topics
        self._topic = self._topics.of(name)
        self._follower = follower
        self.position = -1
        """Everything before this offset has been read; -1: nothing was looked for yet."""
        self._due = False
        self._topic.tails.append(self)
        self.notice()

    def notice(self) -> None:
        if not self._due:
            self._due = True
            self._process.after(self._process.world.network.delay_ms(), self._look)

    def read_to_end(self, timeout_ms: int) -> None:
        self._topics.check(self._process)
        if self._process.world.network.loses():
            raise LogTimeout("the log could not be read in time")
        self._read()

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self.read_to_end(timeout_ms)

    def close(self) -> None:
        if self in self._topic.tails:
            self._topic.tails.remove(self)

    def _look(self) -> None:
        self._due = False
        if self not in self._topic.tails:
            return
        if self._topics.reached_by(self._process):
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


class Outlet:
    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name
        self._waiting: list[Record] = []
        self._due = False

    def send(self, record: Record) -> None:
        self._waiting.append(record)
        if not self._due:
            self._due = True
            self._process.after(self._process.world.network.delay_ms(), self._write)

    def flush(self, timeout_ms: int) -> None:
        """Nobody who flushes is simulated."""

    def close(self, timeout_ms: int) -> None:
        self._write()

    def _write(self) -> None:
        self._due = False
        topics = self._process.world.topics
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
        self._topics = process.world.topics
        self._id = transactional_id
        self._writer: int | None = None

    def open(self) -> None:
        self._topics.check(self._process)
        self._topics.newest = self
        self._writer = self._topics.writers[self._id] = self._topics.writers.get(self._id, 0) + 1

    def write(self, topic: str, records: Sequence[Record]) -> int:
        if self._writer is None:
            raise WriterFenced(f"writer {self._id} is not open: open it when the lead is taken")
        network = self._process.world.network
        if network.loses():
            raise LogUnavailable("the transaction could not be begun")
        self._topics.check(self._process)
        if self._topics.writers[self._id] != self._writer:
            raise WriterFenced(f"writer {self._id}: another one has taken over")
        if self._topics.newest is not self:
            self._process.world.late_writes.append(f"{self._process.name} to {topic}")
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
