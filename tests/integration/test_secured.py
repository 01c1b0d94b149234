"""Connectors on a secured Kafka use their Worker's access or their own.

The tests check the contents of the sinks, and that no password or key is outside of its own file.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cooperator.connectors.topics import ensure_topic
from cooperator.leader.service import LeaderService
from cooperator.model import Desired, DesiredConnector
from tests.harness.member_group import MemberGroup
from tests.harness.searched import pages, processes
from tests.harness.secured import PASSWORDS, SecuredBroker, secured_broker
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PATIENCE_S = 300
RECORDS = 40
WRONG = "open-barley-instead"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = secured_broker(tmp_path_factory.mktemp("secured"))
    made.broker.start()
    yield made
    made.broker.kill()


@pytest.fixture
def group(secured: SecuredBroker, unique: str, tmp_path: Path) -> Iterator[MemberGroup]:
    group = MemberGroup(secured.plain, tmp_path / "stage", unique)
    group.directory.mkdir()
    yield group
    group.close()


def secret(folder: Path, name: str, text: str) -> str:
    """A file with a secret, as Kubernetes mounts a Secret: outside of the searched directory."""
    file = folder / name
    file.write_text(text)
    return str(file)


def produced(secured: SecuredBroker, topic: str) -> Counter[str]:
    client = {"bootstrap.servers": secured.plain}
    ensure_topic(client, topic, 2, -1)
    producer = Producer(client)
    values = [f"record {number}" for number in range(RECORDS)]
    for value in values:
        producer.produce(topic, value, value)
    assert producer.flush(60) == 0
    return Counter(values)


def everything(secured: SecuredBroker, only: str = "") -> dict[str, list[bytes]]:
    """The raw committed contents of each topic."""
    client = {"bootstrap.servers": secured.plain}
    topics = AdminClient(client).list_topics(timeout=30).topics
    settings = {"group.id": "looks", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**client, **settings, "fetch.wait.max.ms": 20})
    found: dict[str, list[bytes]] = {}
    for topic, metadata in topics.items():
        for partition in metadata.partitions if only in ("", topic) else ():
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (message := consumer.poll(30)) is not None and message.error() is None:
                found.setdefault(topic, []).append((message.key() or b"") + (message.value() or b""))
            assert message is not None, topic
    consumer.close()
    return found


def copied(secured: SecuredBroker, topic: str) -> Counter[str]:
    values = everything(secured, topic).get(topic, [])
    return Counter(value.decode()[: len(value) // 2] for value in values)


def state_of(leader: LeaderService, task: str) -> tuple[str, str]:
    tasks = {each["name"]: each for each in leader.status().get("tasks", ())}
    return (tasks[task]["state"], tasks[task]["trace"]) if task in tasks else ("", "")


def assert_no_secret_anywhere(secured: SecuredBroker, group: MemberGroup, leader: LeaderService) -> None:
    key_line = secured.client.key.read_text().splitlines()[1]
    forms = {*PASSWORDS.values(), WRONG, key_line}
    forms |= {form.replace("\\", "\\\\").replace('"', '\\"') for form in forms}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    said = {"status": json.dumps(leader.status()).encode()}
    said |= {topic: b"\n".join(records) for topic, records in everything(secured).items()}
    said |= {str(path): path.read_bytes() for path in group.directory.rglob("*") if path.is_file()}
    said |= processes()
    for member in group.members:
        said |= pages(group.directory / f"{member.identity}.log")
    for what in ("jvm.log", "/offsets/0", "layout.json", "/metrics", "/story"):
        assert any(name.endswith(what) for name in said), f"{what} is searched"
    for name, text in said.items():
        assert not any(form.encode() in text for form in forms), name


def test_connectors_use_their_workers_access_or_their_own(
    secured: SecuredBroker, group: MemberGroup, tmp_path: Path
) -> None:
    source = f"{group.group_id}-from"
    wanted = produced(secured, source)
    targets = {name: f"{group.group_id}-{name}" for name in ("inherits", "told", "generic", "shown")}
    for topic in targets.values():
        ensure_topic({"bootstrap.servers": secured.plain}, topic, 2, -1)
    copy = {"connector.class": "kafka-to-kafka", "topics": source, "trigger.interval.ms": "500"}
    eve = secret(tmp_path, "eve", WRONG)
    settings = {"sasl.username": "eve", "sasl.password": f"${{file:{eve}}}"}
    certificate = {
        "bootstrap.servers": secured.shown,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority),
        "ssl.certificate.location": str(secured.client.certificate),
        "ssl.key.location": str(secured.client.key),
    }
    generic = {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.subscribe": source,
        "source.options.startingOffsets": "earliest",
        "sink.format": "kafka",
        "sink.options.topic": targets["generic"],
        "transform.sql": "SELECT key, value FROM input",
    }
    connectors = {
        "inherits": {**copy, "topic": targets["inherits"]},
        "told": {**copy, **settings, "topic": targets["told"]},
        "generic": generic,
        "shown": {**copy, **certificate, "topic": targets["shown"]},
    }
    leader = group.leader(connectors, ("s-0",))
    group.member(
        "s-0",
        runtime="spark",
        heap_mb="512",
        bootstrap_servers=secured.login,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username_file=secret(tmp_path, "name", "ada"),
        sasl_password_file=secret(tmp_path, "password", PASSWORDS["ada"]),
        ssl_ca_file=str(secured.authority),
    )
    for name in ("inherits", "generic", "shown"):
        eventually(lambda n=name: copied(secured, targets[n]) == wanted, PATIENCE_S, f"{name} copies all")

    # A connector with another user name gets that user's rights.
    def refused() -> bool:
        instance = next(task for task in leader.status()["tasks"] if task["name"] == "told")
        assert "Authentication failed" in instance["progress"] + instance["trace"], instance
        return True

    eventually(refused, PATIENCE_S, "the wrong password is said")
    assert copied(secured, targets["told"]) == Counter()
    Path(eve).write_text(PASSWORDS["eve"])
    restarted = {**connectors, "told": {**connectors["told"], "units.refresh.interval.ms": "1000"}}
    leader.set_desired(Desired(2, {name: DesiredConnector(config) for name, config in restarted.items()}))
    eventually(lambda: copied(secured, targets["told"]) == wanted, PATIENCE_S, "told copies all")
    eventually(lambda: state_of(leader, "told-0")[0] == "RUNNING", PATIENCE_S)
    assert_no_secret_anywhere(secured, group, leader)
