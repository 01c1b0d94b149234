"""Clients that the groups of one process share, counted by librdkafka's threads, and clients that they do
not."""

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import free_port
from cooperator.logs import KafkaTransport, Logs, LogsConfig, LogUnavailable, ensure_topics, open_logs
from cooperator.logs.kafka import transactor
from cooperator.logs.kafka.topics import count_partitions
from cooperator.logs.transport import Batch
from cooperator.model import TaskId, TaskState, TaskStatus
from cooperator.wire import ConnectorRecord, encode_config
from tests.harness.support import eventually

pytestmark = pytest.mark.real

MS = 20_000
X = TaskId("x", 0)
RUNNING = TaskStatus(X, TaskState.RUNNING, "lake-0")
PASSWORD = "open sesame"
WRONG = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ada",
    "sasl_plain_password": PASSWORD,
}


def clients() -> int:
    """The number of librdkafka's clients in this process: each has one thread of this name."""
    names = []
    for comm in Path("/proc/self/task").glob("*/comm"):
        try:
            names.append(comm.read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return names.count("rdk:main")


@dataclass
class Process:
    """This process and the groups that it opens. ``before`` is the number of clients that existed already."""

    broker: EmbeddedBroker
    before: int
    opened: list[Logs] = field(default_factory=list)

    def own(self) -> int:
        return clients() - self.before

    def config(self, group_id: str) -> LogsConfig:
        return LogsConfig(self.broker.bootstrap_servers, group_id, write_timeout_ms=8_000)

    def open(self, config: LogsConfig, on_outage: Callable[[str], None] | None = None) -> Logs:
        logs = open_logs(config, on_outage)
        self.opened.append(logs)
        return logs

    def in_use(self, group_id: str) -> Logs:
        """Creates the topics of a group, reads all of its logs and writes a status."""
        ensure_topics(self.config(group_id))
        logs = self.open(self.config(group_id))
        writes(logs)
        logs.config.read_to_end(MS)
        logs.leader.read_to_end(MS)
        return logs


def writes(logs: Logs, status: TaskStatus = RUNNING) -> None:
    logs.status.put(status)
    logs.status.flush(MS)
    assert logs.status.read_to_end(MS)[status.task] == status


@pytest.fixture
def process(broker: EmbeddedBroker) -> Iterator[Process]:
    gc.collect()  # Clients of other tests may await collection.
    process = Process(broker, clients())
    yield process
    for logs in process.opened:
        logs.close()


@dataclass
class RecordingFollower:
    """A follower that records what it takes; tests make it wait or fail."""

    taken: list[int] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    waits: threading.Event = field(default_factory=threading.Event)
    failures: int = 0

    def take(self, batch: Batch) -> None:
        if not self.go_on.is_set():
            self.waits.set()
            self.go_on.wait(60)
        if self.failures:
            self.failures -= 1
            raise ValueError("it fails")
        self.taken += [offset for offset, _ in batch]

    def caught_up(self) -> None: ...

    def start_over(self) -> None:
        self.taken.clear()


def test_groups_of_one_process_have_one_reader_one_writer_and_one_admin_client(
    process: Process, unique: str
) -> None:
    first = process.in_use(f"{unique}-0")
    assert process.own() == 3
    threads = threading.active_count()

    others = [process.in_use(f"{unique}-{n}") for n in range(1, 6)]

    assert process.own() == 3
    eventually(lambda: threading.active_count() <= threads, what="no thread is more")
    for logs in (first, *others):
        logs.writer.open()
    assert process.own() == 3 + 6, "a transactional id belongs to one producer"
    for logs in (first, *others):
        logs.writer.close()
    eventually(lambda: process.own() == 3)


def test_closing_a_group_keeps_the_clients_of_others_and_the_last_one_closes_them(
    process: Process, unique: str
) -> None:
    reports: list[str] = []
    threads = set(threading.enumerate())
    ensure_topics(process.config(f"{unique}-b"))
    assert process.own() == 0, "it is unused by now"
    first, other = process.in_use(f"{unique}-a"), process.open(process.config(f"{unique}-b"), reports.append)
    other.writer.open()

    first.close()

    writes(other)
    offset = other.writer.write_config([encode_config(ConnectorRecord("x", {"a": "b"}))])
    assert other.config.read_to(offset, MS).connectors.keys() == {"x"}
    again = process.in_use(f"{unique}-a")
    assert again.status.snapshot() == {X: RUNNING}
    assert process.own() == 3 + 1
    assert reports == []
    again.close()
    other.close()
    eventually(lambda: process.own() == 0)
    eventually(lambda: set(threading.enumerate()) <= threads, what="their threads have ended")


def test_a_dead_cluster_or_a_wrong_password_affects_its_own_group_only(process: Process, unique: str) -> None:
    reports: dict[str, list[str]] = {"good": [], "dead": [], "refused": []}
    good = process.config(f"{unique}-good")
    ensure_topics(good)
    logs = process.open(good, reports["good"].append)
    dead = process.open(
        LogsConfig(f"127.0.0.1:{free_port()}", f"{unique}-dead", write_timeout_ms=500), reports["dead"].append
    )
    refused = process.open(
        LogsConfig(process.broker.bootstrap_servers, f"{unique}-refused", WRONG, write_timeout_ms=500),
        reports["refused"].append,
    )
    eventually(lambda: reports["dead"] and "Connection refused" in reports["dead"][-1], 15)
    eventually(lambda: reports["refused"] and "SASL" in reports["refused"][-1], 15)

    writes(logs)
    for other in (dead, refused):
        with pytest.raises(LogUnavailable):
            other.config.read_to_end(300)
    logs.config.read_to_end(MS)
    with pytest.raises(LogUnavailable):
        ensure_topics(LogsConfig(process.broker.bootstrap_servers, unique, WRONG), timeout_ms=500)
    for other in (dead, refused):
        other.close()

    writes(logs)
    assert reports["good"] == []
    assert reports["dead"][-1] == reports["refused"][-1] == ""
    assert PASSWORD not in f"{reports}"


def test_other_credentials_get_other_clients(process: Process, unique: str) -> None:
    before = process.in_use(unique)
    assert process.own() == 3

    rotated = process.open(LogsConfig(process.broker.bootstrap_servers, unique, WRONG))
    eventually(lambda: process.own() == 3 + 3, what="a reader, a writer, and who looks for its topics")
    before.close()
    eventually(lambda: process.own() == 3)
    rotated.close()

    eventually(lambda: process.own() == 0)


def test_a_topic_is_followed_twice_from_its_beginning(process: Process, unique: str) -> None:
    first = process.in_use(unique)

    second = process.open(process.config(unique))

    assert second.status.read_to_end(MS) == {X: RUNNING}
    writes(first, TaskStatus(TaskId("y", 0), TaskState.RUNNING, "lake-0"))
    assert second.status.read_to_end(MS).keys() == {X, TaskId("y", 0)}
    assert process.own() == 3 + 1, "a consumer has one position in a topic"
    second.close()
    writes(first)
    assert process.own() == 3


def _fill(broker: EmbeddedBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"x" * 800, f"k{number}")
    assert producer.flush(20) == 0


def test_a_slow_follower_delays_no_other_and_misses_nothing(process: Process, unique: str) -> None:
    transport = KafkaTransport(process.broker.bootstrap_servers, unique, {})
    transport.ensure_topic(unique, 1, -1, MS)
    _fill(process.broker, unique, 20_000)
    slow = RecordingFollower()
    topic_reader = transport.topic_reader(unique, slow)
    try:
        assert slow.waits.wait(20)

        writes(process.in_use(f"{unique}-other"))

        assert slow.taken == [], "the slow follower still waits"
        assert topic_reader.subscription.has_room(6 * 2**20, 0), "most of its 20 MB is left with the broker"
        slow.go_on.set()
        topic_reader.read_to_end(MS)
        assert slow.taken == list(range(20_000)), "each record arrives once, in order"
    finally:
        slow.go_on.set()
        topic_reader.close()


def test_a_follower_that_fails_reads_the_same_records_again_and_affects_no_other(
    process: Process, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = KafkaTransport(process.broker.bootstrap_servers, unique, {})
    transport.ensure_topic(unique, 1, -1, MS)
    _fill(process.broker, unique, 10)
    failing = RecordingFollower(failures=2)
    failing.go_on.set()
    topic_reader = transport.topic_reader(unique, failing)
    try:
        writes(process.in_use(f"{unique}-other"))

        topic_reader.read_to_end(MS)
        assert failing.taken == list(range(10))
        assert failing.failures == 0
        _fill(process.broker, unique, 3)
        topic_reader.read_to_end(MS)
        assert failing.taken == list(range(13))
    finally:
        topic_reader.close()
    assert f"the reader of topic {unique} retries after an error" in caplog.text


def test_a_hanging_outage_callback_does_not_delay_the_callbacks_of_others(
    process: Process, unique: str
) -> None:
    hangs, go_on, reports = threading.Event(), threading.Event(), list[str]()

    def on_outage(message: str) -> None:
        hangs.set()
        go_on.wait(60)

    missing = process.open(process.config(f"{unique}-a"), on_outage)
    try:
        assert hangs.wait(10)

        process.open(process.config(f"{unique}-b"), reports.append)

        eventually(lambda: reports and "does not exist" in reports[-1], 10)
        writes(process.in_use(f"{unique}-c"))
    finally:
        go_on.set()
        missing.close()


def test_unwritten_records_of_a_closed_group_are_dropped_and_others_lose_nothing(
    process: Process, unique: str
) -> None:
    closing, staying = process.in_use(f"{unique}-a"), process.in_use(f"{unique}-b")
    late = TaskStatus(X, TaskState.FAILED, "lake-0")
    statuses = {TaskId("x", n): TaskStatus(TaskId("x", n), TaskState.FAILED, "lake-0") for n in range(50)}
    process.broker.kill()
    try:
        closing.status.put(late)
        for status in statuses.values():
            staying.status.put(status)
        closing.status.close(300)
    finally:
        process.broker.start()

    staying.status.flush(30_000)

    assert staying.status.read_to_end(MS) == statuses
    assert process.open(process.config(f"{unique}-a")).status.read_to_end(MS) == {X: RUNNING}


def test_an_admin_client_without_a_controller_is_replaced(
    process: Process, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that met a broker during its start behaves so for minutes."""
    logs = process.in_use(unique)
    logs.writer.open()
    lost: list[AdminClient] = []

    def answers(admin: AdminClient, topic: str, timeout_s: float) -> int | None:
        lost[:] = lost or [admin]
        if admin in lost:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "waiting for controller"))
        return count_partitions(admin, topic, timeout_s)

    monkeypatch.setattr(transactor, "count_partitions", answers)

    def writes_again() -> bool:
        try:
            logs.writer.write_config([encode_config(ConnectorRecord("a", {"x": "1"}))])
        except LogUnavailable as error:
            raise AssertionError(str(error)) from None
        return True

    assert eventually(writes_again, 60)
    assert logs.config.read_to_end(MS).connectors.keys() == {"a"}
