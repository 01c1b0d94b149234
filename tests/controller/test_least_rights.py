"""The documented Kafka rights of operator and members are sufficient and necessary."""

import base64
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from cooperator.logs import LogsConfig, LogUnavailable, TopicMisconfigured, ensure_topics, open_logs
from cooperator.model import TaskId, TaskState
from cooperator.model.status import TaskStatus
from tests.harness.installation import ROOT, Installation
from tests.harness.secured import login_broker
from tests.harness.support import eventually
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.real

KAFKA = {
    "securityProtocol": "SASL_PLAINTEXT",
    "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}},
}
TYPES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}
ROW = re.compile(
    r"^\| (Topic|Group|TransactionalId) \| `GROUP(-?)` \| (prefixed|literal) \| ([A-Za-z, ]+) \|$"
)


def documented(group: str) -> list[AclBinding]:
    found = []
    for line in (ROOT / "docs" / "kubernetes.md").read_text().splitlines():
        if row := ROW.match(line):
            pattern = ResourcePatternType[row[3].upper()]
            for operation in row[4].split(", "):
                name = re.sub(r"(?<!^)([A-Z])", r"_\1", operation).upper()
                found.append(
                    AclBinding(
                        TYPES[row[1]],
                        group + row[2],
                        pattern,
                        "User:ada",
                        "*",
                        AclOperation[name],
                        AclPermissionType.ALLOW,
                    )
                )
    return found


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, AdminClient]]:
    """Bootstrap servers for ada, who may do nothing yet, and who may change that."""
    broker, servers = login_broker(
        tmp_path_factory.mktemp("strict"),
        "sesame",
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    broker.start()
    yield servers, AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    broker.kill()


@pytest.fixture
def installation(
    prepared: ControlPlane, namespace: str, strict: tuple[str, AdminClient], tmp_path: Path
) -> Iterator[Installation]:
    installation = Installation(prepared, namespace, strict[0], tmp_path)
    values = {"username": "ada", "password": "sesame"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": namespace},
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in values.items()},
    }
    installation.cluster.apply(secret)
    yield installation
    installation.close()


def allow(admin: AdminClient, bindings: Sequence[AclBinding]) -> None:
    for done in admin.create_acls(list(bindings)).values():
        done.result(10)


def topics_are_made(config: LogsConfig) -> None:
    ensure_topics(config, timeout_ms=MS)


def a_topic_that_loses_records_is_refused(config: LogsConfig) -> None:
    with pytest.raises(TopicMisconfigured):
        ensure_topics(config, timeout_ms=MS)


def a_log_is_read(config: LogsConfig) -> None:
    with closing(open_logs(config)) as logs:
        logs.leader.read_to_end(MS)


def a_status_is_written(config: LogsConfig) -> None:
    with closing(open_logs(config)) as logs:
        logs.status.put(TaskStatus(TaskId("a", 0), TaskState.RUNNING, "lake-0"))
        logs.status.flush(MS)


def the_lead_is_taken(config: LogsConfig) -> None:
    with closing(open_logs(config)) as logs:
        logs.writer.open()


def the_group_is_joined(config: LogsConfig) -> None:
    settings = {"group.id": config.group_id, "bootstrap.servers": config.bootstrap_servers, "log_level": 0}
    consumer = Consumer({**settings, **config.security})
    assigned: list[object] = []
    try:
        consumer.subscribe([f"{config.group_id}-leader"], on_assign=lambda _, found: assigned.append(found))
        deadline = time.monotonic() + 10
        while not assigned and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and (error := message.error()) is not None:
                raise KafkaException(error)
        assert assigned
    finally:
        consumer.close()


MS = 3_000
PROBES = {
    ("TOPIC", "CREATE"): topics_are_made,
    ("TOPIC", "DESCRIBE_CONFIGS"): a_topic_that_loses_records_is_refused,
    ("TOPIC", "READ"): a_log_is_read,
    ("TOPIC", "WRITE"): a_status_is_written,
    ("GROUP", "READ"): the_group_is_joined,
    ("TRANSACTIONAL_ID", "WRITE"): the_lead_is_taken,
}
"""An operation that fails without the right, for each documented one."""


@pytest.mark.parametrize("right", PROBES)
def test_each_right_of_the_documentation_is_needed(
    strict: tuple[str, AdminClient], unique: str, right: tuple[str, str]
) -> None:
    servers, admin = strict
    if right != ("TOPIC", "CREATE"):
        policy = "delete" if right == ("TOPIC", "DESCRIBE_CONFIGS") else "compact"
        names = [f"{unique}-{kind}" for kind in ("configs", "status", "leader")]
        new = [NewTopic(name, 1, 1, config={"cleanup.policy": policy}) for name in names]
        for made in admin.create_topics(new).values():
            made.result(10)
    needed = {(each.restype.name, each.operation.name): each for each in documented(unique)}
    assert needed.keys() == PROBES.keys()
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "sesame"}
    config = LogsConfig(
        servers, unique, {"security.protocol": "SASL_PLAINTEXT", **login}, write_timeout_ms=MS
    )
    allow(admin, [binding for each, binding in needed.items() if each != right])

    with pytest.raises((LogUnavailable, KafkaException, pytest.fail.Exception)):
        PROBES[right](config)
    allow(admin, [needed[right]])

    def works() -> bool:
        try:
            PROBES[right](config)
        except (LogUnavailable, KafkaException) as refused:
            # A broker answers before it has taken the rule over.
            raise AssertionError(refused) from refused
        return True

    eventually(works, 30)


def test_the_rights_of_the_documentation_are_enough(
    installation: Installation, strict: tuple[str, AdminClient]
) -> None:
    bindings = documented(f"cooperator-{installation.namespace}.lake")
    assert len(bindings) == len(PROBES)
    allow(strict[1], bindings)
    installation.operator()
    installation.worker(replicas=2, kafka=KAFKA)
    installation.connector("a", tasksMax=2)
    installation.runs("a-0", "a-1")
    installation.settled()
    installation.kubelet.crash("lake-1")
    installation.eventually(
        lambda: installation.pods()["lake-1"]["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    installation.runs("a-0", "a-1")


@pytest.mark.parametrize("missing", ["TOPIC", "GROUP", "TRANSACTIONAL_ID"])
def test_without_one_kind_of_them_nothing_runs_and_it_is_said(
    installation: Installation, strict: tuple[str, AdminClient], missing: str
) -> None:
    bindings = documented(f"cooperator-{installation.namespace}.lake")
    allow(strict[1], [each for each in bindings if each.restype is not ResourceType[missing]])
    installation.operator()
    installation.worker(replicas=1, kafka=KAFKA)
    installation.connector("a", tasksMax=1)

    def said() -> str:
        status = installation.get("workers", "lake").get("status", {})
        return str(status.get("conditions")) + installation.operators[0].log.read_text()

    installation.eventually(lambda: "uthoriz" in said(), 90, "the refusal is shown or logged")
    # It is logged before a status is written.
    installation.eventually(lambda: installation.condition("workers", "lake", "Ready")["status"] == "False")
    assert installation.journal.running() == {}
