"""A broker that asks for name and password: leader and members find them in a Secret."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_scene import Scene
from secured import login_broker
from stock_connectors import plugin_path
from support import at_a_desk
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
def scene(prepared: ControlPlane, namespace: str, secured: str, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(prepared, namespace, secured, tmp_path)
    yield scene
    scene.close()


def login(scene: Scene, password: str) -> None:
    scene.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login", "namespace": scene.namespace},
            "data": {
                name: base64.b64encode(value.encode()).decode()
                for name, value in (("username", "ada"), ("password", password))
            },
        }
    )


def said_everywhere(scene: Scene) -> str:
    """Statuses, pods, logs of the operator and of the members."""
    logs = [path.read_text(errors="replace") for path in scene.directory.glob("*.log")]
    logs += [
        (container.folder / "log").read_text(errors="replace")
        for container in scene.kubelet.containers.values()
    ]
    return "\n".join([str(scene.get("workers", "lake")), str(scene.pods()), *logs])


def test_leader_and_member_prove_who_they_are(scene: Scene) -> None:
    login(scene, PASSWORD)
    scene.operator()
    scene.worker(replicas=1, kafka=KAFKA)
    scene.connector("a", tasksMax=1)
    scene.runs("a-0")
    scene.settled()
    assert scene.condition("workers", "lake", "KafkaReachable")["status"] == "True"
    assert PASSWORD not in said_everywhere(scene)


@at_a_desk("env -u CI pytest tests/controller/test_kafka_security.py")
def test_a_stock_worker_and_its_connectors_prove_who_they_are(scene: Scene) -> None:
    login(scene, PASSWORD)
    scene.operator()
    stock = {"heapMb": 160, "pluginPath": [str(plugin_path())], "config": {"offset.flush.interval.ms": 1_000}}
    scene.worker(replicas=1, kafka=KAFKA, runtime="connect", connect=stock)
    config = {"topic": "numbers", "journal": scene.journal_path}
    scene.connector("a", **{"class": "cooperator.stock.SequenceSource"}, tasksMax=1, config=config)
    scene.runs("a-0", "a-instance", timeout_s=240)

    def delivers() -> "re.Match[str] | None":
        log = (scene.kubelet.container("lake-0").folder / "log").read_text(errors="replace")
        return re.search(r"Committing offsets for [1-9][0-9]* acknowledged messages", log)

    scene.eventually(delivers, 60)
    assert PASSWORD not in said_everywhere(scene)


def test_a_wrong_password_is_said_and_not_shown_until_the_secret_is_mended(scene: Scene) -> None:
    login(scene, WRONG)
    scene.operator()
    scene.worker(replicas=1, kafka=KAFKA)
    scene.connector("a", tasksMax=1)
    refused = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "KafkaReachable"))["status"] == "False" and c
    )
    assert "Authentication failed" in refused["message"]
    assert scene.journal.running() == {}
    login(scene, PASSWORD)
    # Secrets are read when the Worker changes; otherwise every minute.
    scene.worker(replicas=1, kafka=KAFKA, restartNonce="mended")
    scene.runs("a-0")
    scene.eventually(lambda: scene.condition("workers", "lake", "KafkaReachable")["status"] == "True")
    assert WRONG not in said_everywhere(scene)


def test_a_missing_secret_is_said_and_work_begins_when_it_comes(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=1, kafka=KAFKA)
    scene.connector("a", tasksMax=1)
    stalled = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "spec.kafka.sasl.secretRef: there is no Secret 'login'" in stalled["message"]
    assert scene.journal.running() == {}
    login(scene, PASSWORD)
    scene.runs("a-0")
    scene.eventually(lambda: scene.condition("workers", "lake", "Stalled")["status"] == "False")


def test_a_namespace_goes_whole_though_its_secret_went_first(scene: Scene) -> None:
    """Nobody can reach the group any more, so nobody can say that its tasks have stopped; their pods do."""
    scene.grant_everywhere("default")
    login(scene, PASSWORD)
    scene.operator(home="default")
    scene.worker(replicas=2, kafka=KAFKA, drainTimeoutSeconds=5)
    scene.connector("a", tasksMax=2)
    scene.runs("a-0", "a-1")
    scene.settled()
    scene.operators[0].kill()
    scene.cluster.api.delete(f"/api/v1/namespaces/{scene.namespace}/secrets/login")
    scene.operator(home="default")
    stalled = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "Stalled"))["status"] == "True" and c
    )
    assert "there is no Secret 'login'" in stalled["message"]
    assert set(scene.journal.running()) == {"a-0", "a-1"}, "what runs goes on"
    scene.cluster.api.delete(f"/api/v1/namespaces/{scene.namespace}")
    scene.eventually(lambda: scene.is_gone("workers", "lake") and scene.is_gone("connectors", "a"), 180)
    scene.eventually(lambda: scene.pods() == {}, 60)
    assert scene.journal.running() == {}
