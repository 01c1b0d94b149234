"""The transactional log of a unit on a real broker: fencing, retries, messages."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Marker, Replaced, Row, UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.topics import TopicMisconfigured, ensure_topic, grow_topic
from cooperator.crd import Worker, parse
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import INSTANCE, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.engine import Engine
from tests.harness.support import eventually
from tests.runtime.heard import Heard

NOWHERE = "127.0.0.1:1"


class Unit:
    """A unit's log, opened by several attempts."""

    def __init__(self, servers: str, name: str) -> None:
        self.client = {"bootstrap.servers": servers}
        self.name = name
        self.producer: dict[str, Any] = {}
        self.timeout_ms = 10_000
        self.cancelled = threading.Event()
        self.said: list[str] = []

    def writer(self, owner: str) -> UnitWriter:
        logs = KafkaLogs(
            group_id=self.name,
            connector="lines",
            unit="bucket-0-of-1",
            topic=self.name,
            client=self.client,
            producer=self.producer,
            transaction_timeout_ms=self.timeout_ms,
            cancelled=self.cancelled,
            say=self.said.append,
        )
        return UnitWriter(logs, owner, self.cancelled)

    def reader(self, isolation: str) -> Consumer:
        config = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer({**self.client, **config})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        return consumer

    def values(self) -> list[bytes]:
        """All committed values; an open transaction hides later ones."""
        consumer = self.reader("read_committed")
        values: list[bytes] = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            values.append(message.value() or b"")
        consumer.close()
        return values


@pytest.fixture
def unit(broker: EmbeddedBroker, unique: str) -> Unit:
    unit = Unit(broker.bootstrap_servers, unique)
    ensure_topic(unit.client, unique, 1, -1)
    return unit


def rows(batch: int) -> list[Row]:
    return [(b"key", f"{batch}/{number}".encode()) for number in range(3)]


def put(writer: UnitWriter, batch: int) -> int:
    return writer.write("query", batch, lambda: rows(batch))


def values(*batches: int) -> list[bytes]:
    return [value or b"" for batch in batches for _, value in rows(batch)]


@pytest.mark.real
def test_a_successor_goes_on_after_the_last_batch_and_the_one_before_is_out(unit: Unit) -> None:
    first, second = unit.writer("a"), unit.writer("b")
    assert first.claim() == Marker("a")
    assert [put(first, 0), put(first, 1)] == [3, 3]
    assert second.claim() == Marker("b", "query", 1)
    with pytest.raises(Replaced, match="b writes this unit now"):
        put(first, 2)
    assert [put(second, 1), put(second, 2)] == [0, 3]
    assert unit.values() == values(0, 1, 2)


@pytest.mark.real
def test_a_transaction_of_a_writer_that_is_gone_ends_with_the_claim_of_the_next(unit: Unit) -> None:
    first, second = unit.writer("a"), unit.writer("b")
    first.claim()

    def interrupted() -> Iterator[Row]:
        yield from rows(0)
        second.claim()
        assert put(second, 0) == 3

    with pytest.raises(Replaced):
        first.write("query", 0, interrupted)
    assert unit.values() == values(0)


@pytest.mark.real
@pytest.mark.timeout(120)
def test_a_transaction_that_the_broker_aborted_is_retried_by_its_owner(unit: Unit) -> None:
    """The client reports that it was fenced; the marker shows that it was not."""
    unit.timeout_ms = 1_000
    unit.producer = {"linger.ms": 0}
    writer = unit.writer("a")
    writer.claim()
    tries = 0

    def slow() -> Iterator[Row]:
        nonlocal tries
        tries += 1
        yield from rows(0)
        if tries == 1:
            wait_for_abort(unit)

    assert writer.write("query", 0, slow) == 3
    assert tries == 2
    assert put(writer, 1) == 3
    assert unit.values() == values(0, 1)


def wait_for_abort(unit: Unit) -> None:
    """The broker looks for expired transactions every 10 s. Readers of committed records stop before an open
    one, so it has ended when they reach the end."""
    written = unit.reader("read_uncommitted")
    eventually(lambda: (message := written.poll(1)) is not None and message.error() is None)
    committed = unit.reader("read_committed")

    def past_the_rows() -> bool:
        message = committed.poll(1)
        return message is not None and message.error() is not None and (message.offset() or 0) > len(rows(0))

    eventually(past_the_rows, 60, "the broker aborts the transaction")
    written.close()
    committed.close()


@pytest.mark.real
def test_a_record_that_is_too_large_is_named_with_the_remedy_and_blocks_no_reader(unit: Unit) -> None:
    unit.producer = {"message.max.bytes": 2_000}
    writer = unit.writer("a")
    writer.claim()
    with pytest.raises(ValueError, match=r"record of 3004 bytes with key b'path'.*raise it"):
        writer.write("query", 0, lambda: [*rows(0), (b"path", b"x" * 3_000)])
    assert put(writer, 0) == 3
    assert unit.values() == values(0)


@pytest.mark.real
def test_a_record_that_is_too_large_for_its_topic_is_reported_with_the_topic_and_blocks_no_reader(
    broker: EmbeddedBroker, unique: str
) -> None:
    unit = Unit(broker.bootstrap_servers, unique)
    ensure_topic(unit.client, unique, 1, -1, {"max.message.bytes": "2000"})
    writer = unit.writer("a")
    writer.claim()
    with pytest.raises(ValueError, match=rf"with key b'k': raise max.message.bytes of topic {unique}"):
        writer.write("q", 0, lambda: [(b"k", bytes(3_000))])
    assert put(writer, 1) == 3
    assert unit.values() == values(1)


def test_an_unreachable_broker_of_the_log_is_reported_and_the_wait_can_be_cancelled() -> None:
    unit = Unit(NOWHERE, "nowhere")
    outcome: list[Exception] = []

    def claim() -> None:
        try:
            unit.writer("a").claim()
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=claim)
    thread.start()
    eventually(lambda: unit.said, 10)
    assert unit.said[0].startswith(f"waiting for Kafka at {NOWHERE}: ")
    unit.cancelled.set()
    thread.join(10)
    assert isinstance(outcome[0], Cancelled)


def test_an_instance_reports_an_unreachable_broker_within_seconds(
    settings: RuntimeSettings, heard: Heard
) -> None:
    from cooperator.connectors import find

    def no_session(cancelled: threading.Event) -> Any:
        raise AssertionError("an instance needs no Spark")

    runtime = Engine(settings, heard, find, no_session)
    instance = TaskId("sinks", INSTANCE)
    config = {"connector.class": "kafka-to-files", "path": "/out", "topics": "lines"}
    runtime.start(TaskSpec(instance, {**config, "bootstrap.servers": NOWHERE}), 1)
    # It takes a second or two; without a report it would wait for a minute and more.
    eventually(lambda: NOWHERE in heard.waits_of(instance), 30)
    runtime.stop(instance, 1)
    heard.wait(instance, ("started", 1), ("stopped", 1))
    assert "sinks" not in heard.configs
    assert runtime.close(10)


@pytest.mark.real
def test_too_few_partitions_of_the_markers_are_an_error_at_once(unit: Unit, unique: str) -> None:
    ensure_topic(unit.client, f"{unique}-batches", 1, -1, {"cleanup.policy": "compact"})
    with pytest.raises(
        TopicMisconfigured, match=rf"-batches has 1 partition, .* --topic {unique}-batches --partitions 8\)"
    ):
        unit.writer("first").claim()
    grow_topic(unit.client, f"{unique}-batches", 8)
    unit.writer("first").claim()


def test_markers_that_would_expire_are_refused_with_the_remedy(unit: Unit, unique: str) -> None:
    ensure_topic(unit.client, f"{unique}-batches", 8, -1, {"cleanup.policy": "delete"})
    with pytest.raises(
        TopicMisconfigured, match=r"has cleanup\.policy=delete.*--add-config cleanup\.policy=compact"
    ):
        unit.writer("one").claim()


def test_no_two_units_share_a_transactional_id_or_a_default_group() -> None:
    def transactional_id(group: str, connector: str, unit: str) -> str:
        logs = KafkaLogs(
            group, connector, unit, "t", {"bootstrap.servers": NOWHERE}, {}, 1, threading.Event(), print
        )
        return logs._transactional_id

    names = ["a", "a-b", "b", "b-c", "a-units", "units", "a.b", "c"]
    ids = {transactional_id(g, c, u) for g in names for c in names for u in names}
    assert len(ids) == len(names) ** 3
    labels = [name for name in names if "." not in name]
    groups = {worker(namespace, name).group_id for namespace in labels for name in labels}
    assert len(groups) == len(labels) ** 2


def worker(namespace: str, name: str) -> Worker:
    manifest = {"apiVersion": "cooperator.dev/v1alpha1", "kind": "Worker", "spec": {"runtime": "spark"}}
    [found] = parse(json.dumps({**manifest, "metadata": {"namespace": namespace, "name": name}}), "a test")
    assert isinstance(found, Worker)
    return found
