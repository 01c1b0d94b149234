"""A consumer that no longer receives records of a partition, and one that has none to receive."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import KafkaTransport
from cooperator.logs.kafka import reader, settings
from cooperator.logs.silence import Silence
from cooperator.logs.transport import Batch, TopicReader
from cooperator.supervision import ThreadSupervisor, threads
from cooperator.wire import Record
from tests.harness.support import eventually

MS = 20_000


# --- checks of a partition ------------------------------------------------------------------------------


def looks(silence: Silence, position: int, end: int, count: int) -> list[str]:
    """The results of ``count`` checks of a partition; a lost one begins anew."""
    seen = []
    for _ in range(count):
        if not silence.is_quiet(position):
            seen.append("not asked")
        elif silence.is_lost(position, end):
            silence.begin_anew()
            seen.append("lost")
        else:
            seen.append("asked")
    return seen


def test_a_partition_is_lost_when_its_reader_stays_before_its_end() -> None:
    assert looks(Silence(), 3, 5, 3) == ["not asked", "asked", "lost"]


def test_a_partition_that_is_at_its_end_is_never_lost() -> None:
    assert looks(Silence(), 5, 5, 50) == ["not asked"] + ["asked"] * 49


def test_a_partition_that_moves_is_not_checked() -> None:
    silence = Silence()
    assert [silence.is_quiet(position) for position in range(5)] == [False] * 5
    assert silence.is_quiet(4)
    assert not silence.is_lost(5, 9), "the partition moved while the request was under way"


def test_a_reader_that_catches_up_between_checks_or_was_disturbed_is_not_lost() -> None:
    silence = Silence()
    assert looks(silence, 3, 5, 2) == ["not asked", "asked"]
    assert looks(silence, 5, 5, 2) == ["not asked", "asked"]
    assert looks(silence, 5, 6, 1) == ["asked"]
    silence.disturb()
    assert looks(silence, 5, 6, 2) == ["asked", "lost"]


def test_replacing_the_consumer_in_vain_is_retried_ever_more_rarely_until_records_come() -> None:
    silence = Silence()
    tries = [n for n, seen in enumerate(looks(silence, 0, 1, 400)) if seen == "lost"]
    assert tries == [2, 6, 12, 22, 40, 74, 108, 142, 176, 210, 244, 278, 312, 346, 380]
    assert looks(silence, 1, 2, 7) == looks(Silence(), 1, 2, 7)


# --- with a broker --------------------------------------------------------------------------------------


class DeafenableConsumer(Consumer):
    """A consumer that silently stops fetching once it is deaf."""

    made: "list[DeafenableConsumer]"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.deaf = False
        self.made.append(self)

    def poll(self, timeout: float = -1) -> Message | None:
        if self.deaf:
            self.pause(self.assignment())
        return super().poll(timeout)


class HangingConsumer(DeafenableConsumer):
    """Its close does not return until the test ends."""

    let_go: threading.Event

    def close(self) -> None:
        self.let_go.wait(120)
        super().close()


class CountingAdmin(AdminClient):
    """An admin client that counts its requests for end offsets; its broker refuses them for a while."""

    looks: list[int]
    refusing: threading.Event

    def list_offsets(self, places: dict[Any, Any], **settings: Any) -> dict[Any, Any]:
        self.looks.append(len(places))
        if not self.refusing.is_set():
            return super().list_offsets(places, **settings)
        refused: Future[Any] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return dict.fromkeys(places, refused)


@dataclass
class SilentReader:
    """A broker, and the followed topics of one group."""

    broker: EmbeddedBroker
    group: str
    consumers: list[DeafenableConsumer]
    looks: list[int]
    refusing: threading.Event
    reports: list[str] = field(default_factory=list)
    topic_readers: list[TopicReader] = field(default_factory=list)

    def follow(self, topic: str, partitions: int = 1) -> "RecordingFollower":
        transport = KafkaTransport(self.broker.bootstrap_servers, self.group, {}, self.reports.append)
        transport.ensure_topic(self.name(topic), partitions, -1, MS)
        notebook = RecordingFollower()
        topic_reader = transport.topic_reader(self.name(topic), notebook)
        self.topic_readers.append(topic_reader)
        topic_reader.read_to_end(MS)
        return notebook

    def name(self, topic: str) -> str:
        return f"{self.group}-{topic}"

    def write(self, topic: str, value: str, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0})
        producer.produce(self.name(topic), value.encode(), "k", partition=partition)
        assert producer.flush(10) == 0

    def looks_again(self, times: int) -> None:
        before = len(self.looks)
        eventually(lambda: len(self.looks) >= before + times, what=f"{times} looks")


@dataclass
class RecordingFollower:
    """A follower that keeps the values that it takes; it takes none while it is busy."""

    taken: list[str] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.free.set()

    def take(self, batch: Batch) -> None:
        assert self.free.wait(60)
        self.taken += [_text(record) for _, record in batch]

    def caught_up(self) -> None: ...

    def start_over(self) -> None:
        self.taken.clear()


def _text(record: Record) -> str:
    return (record.value or b"").decode()


@pytest.fixture
def silent(broker: EmbeddedBroker, unique: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentReader]:
    """Quiet partitions are checked twice a second."""
    monkeypatch.setattr(reader, "_QUIET_S", 0.5)
    monkeypatch.setattr(settings, "Consumer", DeafenableConsumer)
    monkeypatch.setattr(settings, "AdminClient", CountingAdmin)
    DeafenableConsumer.made, CountingAdmin.looks, CountingAdmin.refusing = [], [], threading.Event()
    silent = SilentReader(
        broker, unique, DeafenableConsumer.made, CountingAdmin.looks, CountingAdmin.refusing
    )
    yield silent
    for topic_reader in silent.topic_readers:
        topic_reader.close()


@pytest.mark.real
def test_a_consumer_that_stops_receiving_is_replaced_and_no_record_is_missed(
    silent: SilentReader, caplog: pytest.LogCaptureFixture
) -> None:
    configs, status = silent.follow("configs"), silent.follow("status")
    silent.write("configs", "first")
    eventually(lambda: configs.taken == ["first"])

    silent.consumers[0].deaf = True
    silent.looks_again(2)
    silent.write("configs", "second")

    eventually(lambda: configs.taken == ["first", "second"], 15)
    silent.write("status", "running")
    eventually(lambda: status.taken == ["running"], 15)
    assert len(silent.consumers) == 2
    reports = (
        f"topic {silent.name('configs')}, partition 0: no record after offset 1, although the broker has 2"
    )
    assert reports in caplog.text
    assert "status" not in caplog.text, "the follower missed nothing"
    assert silent.reports == []


@pytest.mark.real
def test_consumers_whose_close_hangs_are_replaced_and_no_record_is_missed(
    silent: SilentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = ThreadSupervisor(close_s=0.5)
    ended = threading.Event()
    supervisor.on_exhausted = ended.set
    monkeypatch.setattr(threads, "of_process", supervisor)
    HangingConsumer.let_go = threading.Event()
    monkeypatch.setattr(settings, "Consumer", HangingConsumer)
    configs, status = silent.follow("configs"), silent.follow("status")
    try:
        for number in range(2):
            silent.consumers[-1].deaf = True
            silent.looks_again(2)
            silent.write("configs", f"config {number}")
            eventually(lambda number=number: len(configs.taken) == number + 1, 30)  # type: ignore[misc]
            silent.write("status", f"status {number}")
            eventually(lambda number=number: len(status.taken) == number + 1, 30)  # type: ignore[misc]
        assert configs.taken == ["config 0", "config 1"]
        assert status.taken == ["status 0", "status 1"]
        assert len(silent.consumers) == 3
        assert ended.wait(30), "two consumers were abandoned"
        assert "is the second client within 10 minutes that does not close" in supervisor.trouble()
        for topic_reader in silent.topic_readers:
            topic_reader.close()
    finally:
        HangingConsumer.let_go.set()


@pytest.mark.real
def test_quiet_topics_are_checked_together_and_keep_their_consumer(
    silent: SilentReader, caplog: pytest.LogCaptureFixture
) -> None:
    silent.follow("empty")
    committed, open_ = silent.follow("committed"), silent.follow("open")
    producer = Producer(
        {
            "bootstrap.servers": silent.broker.bootstrap_servers,
            "transactional.id": silent.group,
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(10)
    for topic in ("committed", "open"):
        producer.begin_transaction()
        producer.produce(silent.name(topic), b"whole", "k")
        producer.commit_transaction(10)
    producer.begin_transaction()
    producer.produce(silent.name("open"), b"half", "k")
    assert producer.flush(10) == 0
    eventually(lambda: committed.taken == open_.taken == ["whole"])

    silent.looks_again(6)

    assert silent.looks[-3:] == [3, 3, 3], "one request covers all of them"
    assert len(silent.consumers) == 1
    assert open_.taken == ["whole"]
    assert silent.reports == []
    producer.abort_transaction(10)
    silent.looks_again(6)
    assert len(silent.consumers) == 1, "aborted records are skipped"
    assert caplog.text == ""


@pytest.mark.real
def test_a_check_that_fails_proves_nothing(silent: SilentReader, caplog: pytest.LogCaptureFixture) -> None:
    notebook = silent.follow("configs")
    silent.looks_again(1)
    silent.refusing.set()
    silent.looks_again(3)
    silent.write("configs", "heard")
    eventually(lambda: notebook.taken == ["heard"])

    silent.consumers[0].deaf = True
    silent.looks_again(1)
    silent.write("configs", "unheard")
    silent.looks_again(3)
    assert len(silent.consumers) == 1, "no end offset was known"
    assert caplog.text == ""
    assert silent.reports == []
    silent.refusing.clear()
    eventually(lambda: notebook.taken == ["heard", "unheard"], 15)


@pytest.mark.real
def test_a_busy_follower_is_not_mistaken_for_a_silent_consumer(
    silent: SilentReader, caplog: pytest.LogCaptureFixture
) -> None:
    silent.follow("status")
    busy = silent.follow("configs")
    silent.looks_again(1)
    busy.free.clear()
    try:
        silent.write("configs", "first")
        silent.write("configs", "second")
        silent.looks_again(5)
        assert set(silent.looks[-3:]) == {1}, "only the other topic is checked"
    finally:
        busy.free.set()
    eventually(lambda: busy.taken == ["first", "second"])
    assert len(silent.consumers) == 1
    assert caplog.text == ""


@pytest.mark.real
def test_an_outage_of_the_broker_replaces_no_consumer(silent: SilentReader) -> None:
    notebook = silent.follow("configs")
    silent.looks_again(1)
    silent.broker.kill()
    try:
        eventually(lambda: silent.reports and "cannot be reached" in silent.reports[-1])
        assert len(silent.consumers) == 1
    finally:
        silent.broker.start()

    silent.write("configs", "again")

    eventually(lambda: notebook.taken == ["again"])
    eventually(lambda: silent.reports[-1] == "")
    silent.looks_again(2)


@pytest.mark.real
def test_a_partition_that_is_added_is_read(silent: SilentReader) -> None:
    notebook = silent.follow("status")
    admin = AdminClient({"bootstrap.servers": silent.broker.bootstrap_servers, "log_level": 0})
    topic = silent.name("status")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)

    silent.write("status", "in a new one", partition=2)

    eventually(lambda: notebook.taken == ["in a new one"], 15)
    silent.write("status", "in the old one")
    eventually(lambda: notebook.taken == ["in a new one", "in the old one"])
    assert len(silent.consumers) == 1
