"""Behaviour that only a real broker has: topics, transactions, outages."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from subprocess import PIPE
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import free_port
from cooperator.logs import (
    Logs,
    LogsConfig,
    LogUnavailable,
    RecordTooLarge,
    TopicMisconfigured,
    ensure_topics,
    group_record_bytes,
    open_logs,
)
from cooperator.logs.kafka import topic_writer
from cooperator.logs.kafka.topics import ask_partitions
from cooperator.model import TaskId, TaskState, TaskStatus
from cooperator.wire import ConnectorRecord, Record, encode_config
from tests.harness.support import eventually

pytestmark = pytest.mark.real

MS = 20_000
X = encode_config(ConnectorRecord("x", {"a": "b"}))


@pytest.fixture
def config(broker: EmbeddedBroker, unique: str) -> LogsConfig:
    return LogsConfig(broker.bootstrap_servers, unique, write_timeout_ms=8_000)


@pytest.fixture
def logs(config: LogsConfig) -> Iterator[Logs]:
    ensure_topics(config)
    logs = open_logs(config)
    yield logs
    logs.close()


@pytest.fixture
def admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def create(admin: AdminClient, topic: str, partitions: int = 1, policy: str = "compact") -> None:
    admin.create_topics([NewTopic(topic, partitions, 1, config={"cleanup.policy": policy})])[topic].result(10)


def settings_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(10)
    return {name: entry.value for name, entry in described.items()}


def test_missing_topics_are_created_compacted_with_one_partition(
    config: LogsConfig, admin: AdminClient
) -> None:
    ensure_topics(config)

    for kind in ("configs", "status", "leader"):
        topic = f"{config.group_id}-{kind}"
        assert settings_of(admin, topic)["cleanup.policy"] == "compact"
        assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 1


@pytest.mark.parametrize("kind", ["configs", "status", "leader"])
def test_a_topic_without_compaction_is_refused(config: LogsConfig, admin: AdminClient, kind: str) -> None:
    topic = f"{config.group_id}-{kind}"
    create(admin, topic, policy="delete")

    with pytest.raises(
        TopicMisconfigured, match=f"topic {topic} has cleanup.policy=delete, .* --add-config cleanup.policy="
    ):
        ensure_topics(config)


@pytest.mark.parametrize("kind", ["configs", "leader"])
def test_a_topic_with_several_partitions_is_refused(
    config: LogsConfig, admin: AdminClient, kind: str
) -> None:
    create(admin, f"{config.group_id}-{kind}", partitions=2)

    with pytest.raises(TopicMisconfigured, match=f"-{kind} has 2 partitions; .* must have exactly 1"):
        ensure_topics(config)


def test_more_replicas_than_brokers_are_refused(config: LogsConfig) -> None:
    with pytest.raises(TopicMisconfigured, match=r"replication factor 3: .* at most the number of brokers"):
        ensure_topics(config, replication_factor=3)


def test_a_status_topic_with_connects_partitions_is_read_completely(
    config: LogsConfig, admin: AdminClient
) -> None:
    create(admin, f"{config.group_id}-status", partitions=5)
    ensure_topics(config)
    logs = open_logs(config)
    statuses = {TaskId("x", n): TaskStatus(TaskId("x", n), TaskState.RUNNING, "w") for n in range(30)}

    for status in statuses.values():
        logs.status.put(replace(status, state=TaskState.FAILED))
        logs.status.put(status)
    logs.status.flush(MS)

    assert logs.status.read_to_end(MS) == statuses
    logs.close()


def test_a_transaction_that_a_dead_leader_left_open_is_not_seen_and_does_not_hold_up_the_next(
    logs: Logs, config: LogsConfig
) -> None:
    dead = Producer(
        {
            "bootstrap.servers": config.bootstrap_servers,
            "transactional.id": f"{config.group_id}-leader",
            "transaction.timeout.ms": 60_000,
            # The producer lives until it is collected, and would log into other tests.
            "log_level": 0,
        }
    )
    dead.init_transactions(10)
    dead.begin_transaction()
    dead.produce(f"{config.group_id}-configs", X.value, X.key)
    assert dead.flush(10) == 0
    with pytest.raises(LogUnavailable):
        logs.config.read_to_end(1_000)

    started = time.monotonic()
    logs.writer.open()

    assert logs.config.read_to_end(MS).connectors == {}
    assert time.monotonic() - started < 50, "it does not wait for the dead one's transaction to end by itself"
    assert logs.config.read_to(logs.writer.write_config([X]), MS).offset == 3


def test_a_writer_knows_its_topic_before_there_is_a_record(
    config: LogsConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member's first tasks start when their statuses are written."""
    looked_up: list[str] = []
    right = ask_partitions

    def noted(admin: AdminClient, topics: Sequence[str], timeout_s: float) -> Any:
        looked_up.extend(topics)
        return right(admin, topics, timeout_s)

    monkeypatch.setattr(topic_writer, "ask_partitions", noted)
    ensure_topics(config)
    logs = open_logs(config)
    try:
        topic = config.topic_names.status
        eventually(lambda: topic in looked_up, 10)
        logs.status.put(TaskStatus(TaskId("x", 0), TaskState.RUNNING, "lake-0"))
        logs.status.flush(MS)
        assert looked_up.count(topic) == 1
    finally:
        logs.close()


def test_a_record_beyond_the_limit_is_refused_and_the_writer_goes_on(logs: Logs) -> None:
    logs.writer.open()

    with pytest.raises(RecordTooLarge, match="exceeds the limit"):
        logs.writer.write_config([X, Record("connector-y", b'"' + b"y" * 2_000_000 + b'"')])

    assert logs.config.read_to(logs.writer.write_config([X]), MS).connectors.keys() == {"x"}


def test_an_unreachable_broker_is_named_within_ten_seconds(unique: str) -> None:
    reports: list[str] = []
    address = f"127.0.0.1:{free_port()}"

    logs = open_logs(LogsConfig(address, unique, write_timeout_ms=1_000), reports.append)

    eventually(lambda: reports and f"Kafka at {address} cannot be reached: " in reports[-1], 10)
    eventually(lambda: "Connection refused" in reports[-1], 10)
    with pytest.raises(LogUnavailable, match=f"Kafka at {address} cannot be reached"):
        logs.config.read_to_end(500)
    with pytest.raises(LogUnavailable, match=f"writer {unique}-leader cannot be opened"):
        logs.writer.open()
    with pytest.raises(LogUnavailable):
        ensure_topics(LogsConfig(address, unique), timeout_ms=500)
    logs.close()
    assert reports[-1] == ""


def test_wrong_credentials_are_reported_but_not_shown(broker: EmbeddedBroker, unique: str) -> None:
    reports: list[str] = []
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "open sesame",
    }
    config = LogsConfig(broker.bootstrap_servers, unique, security)

    logs = open_logs(config, reports.append)

    eventually(lambda: reports and "cannot be reached: " in reports[-1] and "SASL" in reports[-1], 10)
    assert "sesame" not in f"{config!r} {reports} {logs!r} {vars(logs)}"
    logs.close()


def test_a_flood_of_statuses_in_an_outage_leaves_the_newest_of_each_task(
    broker: EmbeddedBroker, config: LogsConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_writer, "_QUEUE", 100)
    reports: list[str] = []
    ensure_topics(config)
    logs = open_logs(config, reports.append)
    newest = {}
    broker.kill()
    try:
        for n in range(5_000):
            task = TaskId("x", n % 50)
            newest[task] = TaskStatus(task, TaskState.RUNNING, "w", at_ms=n)
            logs.status.put(newest[task])
        eventually(lambda: reports and "cannot be reached" in reports[-1], 15)
    finally:
        broker.start()

    logs.status.flush(30_000)

    assert logs.status.read_to_end(MS) == newest
    eventually(lambda: reports[-1] == "", 15)
    logs.close()


def test_statuses_that_cannot_be_written_are_reported(config: LogsConfig, admin: AdminClient) -> None:
    reports: list[str] = []
    create(admin, f"{config.group_id}-configs")
    create(admin, f"{config.group_id}-leader")
    logs = open_logs(config, reports.append)

    logs.status.put(TaskStatus(TaskId("x", 0), TaskState.RUNNING, "w"))

    topic = f"topic {config.group_id}-status"
    eventually(
        lambda: f"{topic}: records are waiting to be written: {topic} does not exist yet" in reports, 10
    )
    ensure_topics(config)
    logs.status.flush(MS)
    eventually(lambda: reports[-1] == "", 10)
    logs.close()


TERMINAL = """
import faulthandler, logging, sys
from cooperator.logs import LogsConfig, LogUnavailable, open_logs
from cooperator.model import Memory

# Ends it when it hangs; on a busy machine the broker alone may take minutes to be back.
faulthandler.dump_traceback_later(600, exit=True)
logging.basicConfig(level=logging.WARNING)
logs = open_logs(LogsConfig(*sys.argv[1:], write_timeout_ms=8_000))

def until_done(call):
    while True:
        try:
            return call()
        except LogUnavailable:
            continue

until_done(lambda: logs.config.read_to_end(60_000))
until_done(logs.writer.open)
print("open", flush=True)
sys.stdin.readline()
try:
    logs.leader.read_to_end(1_500)
    print("still there", flush=True)
except LogUnavailable:
    print("away", flush=True)
sys.stdin.readline()
until_done(lambda: logs.leader.read_to_end(60_000))
until_done(lambda: logs.writer.write_leader(memory=Memory(term=1)))
print("written", flush=True)
"""


@pytest.mark.timeout(900)
def test_an_outage_writes_nothing_to_the_terminal(broker: EmbeddedBroker, config: LogsConfig) -> None:
    ensure_topics(config)
    # A process of its own: clients that other tests left behind write to the terminal of this one.
    command = [sys.executable, "-c", TERMINAL, config.bootstrap_servers, config.group_id]
    with subprocess.Popen(command, text=True, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "open\n"
        broker.kill()
        try:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "away\n"
        finally:
            broker.start()
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.readline() == "written\n"
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_the_config_topic_of_a_group_that_is_adopted_is_not_created(
    config: LogsConfig, admin: AdminClient
) -> None:
    with pytest.raises(TopicMisconfigured, match=r"-configs does not exist.*spec.connect.topics.config"):
        ensure_topics(replace(config, adopts=True))
    assert not any(topic.startswith(config.group_id) for topic in admin.list_topics(timeout=10).topics)


def test_the_size_of_a_groups_record_is_the_brokers(broker: EmbeddedBroker, unique: str) -> None:
    config = LogsConfig(broker.bootstrap_servers, unique)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": unique, "log_level": 0})
    try:
        consumer.subscribe([unique])
        consumer.poll(1)
        eventually(lambda: group_record_bytes(config) == 1_048_588, 30, "the default of a topic")
    finally:
        consumer.close()
