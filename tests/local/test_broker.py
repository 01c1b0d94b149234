"""The embedded broker as its users see it: one address, one memory, whatever happens to the process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cooperator.local.broker import BrokerError, EmbeddedBroker
from tests.harness.support import eventually, freeze

pytestmark = pytest.mark.real


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may do anything to; not started."""
    broker = EmbeddedBroker(tmp_path / "broker")
    yield broker
    broker.kill()


def admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def topics(broker: EmbeddedBroker) -> set[str]:
    return set(admin(broker).list_topics(timeout=10).topics)


def create_topic(broker: EmbeddedBroker, topic: str) -> None:
    client = admin(broker)
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=10)


def produce(broker: EmbeddedBroker, topic: str, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(20)
        producer.begin_transaction()
    producer.produce(topic, b"one")
    if "transactional.id" in settings:
        producer.commit_transaction(20)
    assert producer.flush(10) == 0


def running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def test_it_answers_once_started_and_takes_transactions(broker: EmbeddedBroker, unique: str) -> None:
    create_topic(broker, unique)
    produce(broker, unique, **{"transactional.id": unique})

    assert unique in topics(broker)


def test_it_keeps_address_and_data_over_kill_and_stop(own: EmbeddedBroker) -> None:
    own.start()
    address = own.bootstrap_servers
    create_topic(own, "before-kill")

    own.kill()
    assert own.pid is None
    own.start()
    create_topic(own, "before-stop")

    own.stop()
    assert own.pid is None
    reopened = EmbeddedBroker(own.log.parent)
    reopened.start()
    try:
        assert reopened.bootstrap_servers == address
        assert topics(reopened) >= {"before-kill", "before-stop"}
    finally:
        reopened.kill()


def test_starting_a_running_broker_changes_nothing(broker: EmbeddedBroker) -> None:
    pid = broker.pid
    broker.start()
    assert broker.pid == pid is not None


START_AND_WAIT = """
import sys; from pathlib import Path; from cooperator.local.broker import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1]), detached=sys.argv[2] == "detached")
broker.start(); print(broker.pid, flush=True); sys.stdin.read()
"""


def start_and_kill_the_starter(directory: Path, mode: str) -> int:
    """The process id of a broker whose starting process has been killed with -9."""
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(directory), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert running(pid)
        starter.kill()
    return pid


def test_it_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    pid = start_and_kill_the_starter(tmp_path / "broker", "attached")

    eventually(lambda: not running(pid), 10, "the broker ends with its parent")


def test_a_detached_broker_outlives_its_parent_and_is_taken_up_again(tmp_path: Path) -> None:
    pid = start_and_kill_the_starter(tmp_path / "broker", "detached")
    heir = EmbeddedBroker(tmp_path / "broker", detached=True)
    try:
        heir.start()
        assert heir.pid == pid
        create_topic(heir, "alive")
        heir.stop()
        assert not running(pid)
    finally:
        if running(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_stale_pid_file_does_not_endanger_another_process(own: EmbeddedBroker) -> None:
    own.log.parent.mkdir()
    (own.log.parent / "broker.pid").write_text(str(os.getpid()))

    assert own.pid is None
    own.kill()


def test_a_frozen_broker_is_ended_all_the_same(own: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cooperator.local.broker._STOP_GRACE_S", 0.5)
    own.start()
    pid = own.pid
    assert pid is not None
    freeze(pid)

    own.stop()

    assert not running(pid)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} on 127.0.0.1.*in use by another process"):
            EmbeddedBroker(tmp_path, port=port).start()


def test_a_setting_that_kafka_refuses_is_reported_in_its_words(tmp_path: Path) -> None:
    broken = EmbeddedBroker(tmp_path, overrides={"log.retention.hours": "never"})

    with pytest.raises(BrokerError, match=r"never.*log\.retention\.hours"):
        broken.start()
    assert broken.pid is None


def test_a_broker_gets_two_ports_whatever_chance_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("random.sample", lambda ports, k: [*ports][:k])
    brokers = [EmbeddedBroker(tmp_path / str(number)) for number in range(3)]
    assert len({port for each in brokers for port in (each._port, each._controller_port)}) == 6
