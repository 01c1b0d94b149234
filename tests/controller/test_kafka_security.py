"""A broker that asks for name and password: leader and members find them in a Secret."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.installation import Installation
from tests.harness.secured import login_broker
from tests.harness.stock_connectors import plugin_path
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.real

PASSWORD = "open sesame"
WRONG = "open barley"
KAFKA = {
    "securityProtocol": "SASL_PLAINTEXT",
    "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}},
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a listener that knows ada and her password."""
    broker, servers = login_broker(tmp_path_factory.mktemp("secured"), PASSWORD)
    broker.start()
    yield servers
    broker.kill()


@pytest.fixture
def installation(
    prepared: ControlPlane, namespace: str, secured: str, tmp_path: Path
) -> Iterator[Installation]:
    installation = Installation(prepared, namespace, secured, tmp_path)
    yield installation
    installation.close()


def login(installation: Installation, password: str) -> None:
    installation.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login", "namespace": installation.namespace},
            "data": {
                name: base64.b64encode(value.encode()).decode()
                for name, value in (("username", "ada"), ("password", password))
            },
        }
    )


def said_everywhere(installation: Installation) -> str:
    """Statuses, pods, logs of the operator and of the members."""
    logs = [path.read_text(errors="replace") for path in installation.directory.glob("*.log")]
    logs += [
        (container.folder / "log").read_text(errors="replace")
        for container in installation.kubelet.containers.values()
    ]
    return "\n".join([str(installation.get("workers", "lake")), str(installation.pods()), *logs])


def test_a_login_that_is_missing_or_wrong_is_said_and_work_begins_when_it_is_right(
    installation: Installation,
) -> None:
    installation.operator()
    installation.worker(replicas=1, kafka=KAFKA)
    installation.connector("a", tasksMax=1)
    stalled = installation.eventually(
        lambda: (c := installation.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "spec.kafka.sasl.secretRef: there is no Secret 'login'" in stalled["message"]
    assert installation.journal.running() == {}

    # What is missing is looked for again and again.
    login(installation, WRONG)
    refused = installation.eventually(
        lambda: (c := installation.condition("workers", "lake", "KafkaReachable"))["status"] == "False" and c
    )
    assert "Authentication failed" in refused["message"]
    assert installation.journal.running() == {}

    # Leader and member prove who they are. Secrets are read when the Worker changes; otherwise every minute.
    login(installation, PASSWORD)
    installation.worker(replicas=1, kafka=KAFKA, restartNonce="corrected")
    installation.runs("a-0")
    installation.settled()
    assert installation.condition("workers", "lake", "KafkaReachable")["status"] == "True"
    assert installation.condition("workers", "lake", "Stalled")["status"] == "False"
    said = said_everywhere(installation)
    assert WRONG not in said
    assert PASSWORD not in said


@pytest.mark.long("tests/integration/test_oauth.py::test_a_stock_worker_logs_in_and_outlives_its_tokens")
def test_a_stock_worker_and_its_connectors_prove_who_they_are(installation: Installation) -> None:
    login(installation, PASSWORD)
    installation.operator()
    stock = {"heapMb": 160, "pluginPath": [str(plugin_path())], "config": {"offset.flush.interval.ms": 1_000}}
    installation.worker(replicas=1, kafka=KAFKA, runtime="connect", connect=stock)
    config = {"topic": "numbers", "journal": installation.journal_path}
    installation.connector("a", **{"class": "cooperator.stock.SequenceSource"}, tasksMax=1, config=config)
    installation.runs("a-0", "a-instance", timeout_s=240)

    def delivers() -> "re.Match[str] | None":
        log = (installation.kubelet.container("lake-0").folder / "log").read_text(errors="replace")
        return re.search(r"Committing offsets for [1-9][0-9]* acknowledged messages", log)

    installation.eventually(delivers, 60)
    assert PASSWORD not in said_everywhere(installation)


def test_a_namespace_goes_whole_though_its_secret_went_first(installation: Installation) -> None:
    """Nobody can reach the group any more, so nobody can say that its tasks have stopped; their pods do."""
    installation.grant_everywhere("default")
    login(installation, PASSWORD)
    installation.operator(home="default")
    installation.worker(replicas=2, kafka=KAFKA, drainTimeoutMs=5_000)
    installation.connector("a", tasksMax=2)
    installation.runs("a-0", "a-1")
    installation.settled()
    installation.operators[0].kill()
    installation.cluster.api.delete(f"/api/v1/namespaces/{installation.namespace}/secrets/login")
    installation.operator(home="default")
    stalled = installation.eventually(
        lambda: (c := installation.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "there is no Secret 'login'" in stalled["message"]
    assert set(installation.journal.running()) == {"a-0", "a-1"}, "running tasks go on"
    installation.cluster.api.delete(f"/api/v1/namespaces/{installation.namespace}")
    installation.eventually(
        lambda: installation.is_gone("workers", "lake") and installation.is_gone("connectors", "a"), 180
    )
    installation.eventually(lambda: installation.pods() == {}, 60)
    assert installation.journal.running() == {}
