"""The documented Kafka rights of operator and members are sufficient and necessary."""

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.installation import ROOT, Installation
from tests.harness.secured import login_broker
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


def test_the_rights_of_the_documentation_are_enough(
    installation: Installation, strict: tuple[str, AdminClient]
) -> None:
    bindings = documented(f"cooperator-{installation.namespace}.lake")
    assert len(bindings) >= 8
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
