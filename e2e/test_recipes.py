"""Recipes of ``examples/recipes`` as a user applies them on real nodes, until their rows are in the sink.

Executors as pods are in ``test_executors.py``, autoscaling and adoption in ``tests/controller``.
"""

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow.parquet
import pytest
from confluent_kafka import Producer

from cooperator.connectors.output import read_units
from cooperator.connectors.topics import ensure_topic
from cooperator.local.broker import EmbeddedBroker
from e2e.flows import committed
from e2e.node_installation import NodeNamespace
from e2e.store import SECRET, Store
from tests.controller.test_kubectl import Person
from tests.harness.recipes import FOLDER, Recipe
from tests.harness.secured import add_scram_user, scram_broker
from tests.kubernetes.images import KAFKA
from tests.kubernetes.nodes import Cluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long("tests/crd/test_api_server.py::test_all_examples_can_be_applied_as_they_are"),
]

PASSWORD = 'open "sesame" \\ now'
START = """\
#!/bin/bash
# As Kafka's own script of that name: by the same variables of the environment.
mkdir -p "$LOG_DIR"
exec java $KAFKA_HEAP_OPTS "-Dkafka.logs.dir=$LOG_DIR" $KAFKA_LOG4J_OPTS -cp "/opt/kafka/libs/*" \\
  $KAFKA_OPTS org.apache.kafka.connect.cli.ConnectDistributed "$@"
"""
SMALL = {
    "imagePullPolicy": "Never",
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
    "spark": {"heapMb": 512},
}
"""Changes for nodes that have no registry and few processors."""
COUNTS = {
    "class": "spark",
    "tasksMax": 1,
    "stateReplicas": {"standbys": 1, "acceptableLagBytes": 0},
    "config": {
        "source.format": "text",
        "source.schema": "value STRING",
        "source.options.path": "/files/in",
        "source.sql": "SELECT substring_index(value, ' ', 1) AS word FROM input",
        "transform.sql": "SELECT word, count(*) AS n FROM input GROUP BY word",
        "state.partitions": 2,
        "sink.format": "noop",
        "sink.output.mode": "update",
    },
}


def apply(place: NodeNamespace, recipe: Recipe, changes: dict[str, str]) -> None:
    manifests = recipe.edited(changes)
    for manifest in manifests:
        manifest["metadata"]["namespace"] = place.namespace
        if manifest["kind"] == "Worker":
            manifest["spec"] |= SMALL
    place.cluster.apply(*manifests)


def secret(place: NodeNamespace, name: str, **data: str) -> None:
    metadata = {"name": name, "namespace": place.namespace}
    place.cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})


class Orders:
    """Rows of a topic of two partitions."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic = topic
        self.written: Counter[str] = Counter()
        client: dict[str, Any] = {"bootstrap.servers": servers}
        ensure_topic(client, topic, 2, -1)
        self._producer = Producer(client)

    def write(self, word: str) -> None:
        for number in range(200):
            row = json.dumps({"id": f"{word}-{number}", "city": "Oslo"})
            self._producer.produce(self.topic, row, partition=number % 2)
            self.written[row] += 1
        assert self._producer.flush(30) == 0


@pytest.fixture
def secured(prepared: Cluster, tmp_path: Path) -> Iterator[tuple[EmbeddedBroker, str, Path]]:
    """A broker for TLS and SCRAM, the servers of that listener, and its authority. It outlives the pods."""
    folder = tmp_path / "secured"
    folder.mkdir()
    broker, servers, authority = scram_broker(folder, prepared.plane.host)
    broker.start()
    yield broker, servers, authority
    broker.kill()


def test_secured_kafka(secured: tuple[EmbeddedBroker, str, Path], place: NodeNamespace) -> None:
    broker, servers, authority = secured
    add_scram_user(broker.bootstrap_servers, "ada", PASSWORD)
    secret(place, "kafka-user", username="ada", password=PASSWORD)
    secret(place, "kafka-ca", **{"ca.crt": authority.read_text()})
    orders = Orders(broker.bootstrap_servers, "orders")
    orders.write("first")
    place.operator(worker={"secrets": ["kafka-user", "kafka-ca"]})
    apply(place, Recipe(FOLDER / "secured" / "secured.yaml"), {"kafka-bootstrap.kafka:9093": servers})
    place.settled("secured")

    def arrived() -> bool:
        return committed(broker.bootstrap_servers, "orders-copy") == orders.written

    place.eventually(arrived, 240, "each row, once")
    place.execute("secured-0", "kill", "-9", "--", "-1")
    orders.write("second")
    place.eventually(arrived, 120, "each row, once, after a member's death")


@pytest.fixture
def store(place: NodeNamespace) -> Iterator[Store]:
    store = Store(place.nodes, place.namespace)
    store.give_to(place.namespace)
    yield store
    store.close()


def test_files_in_an_object_store(place: NodeNamespace, store: Store) -> None:
    orders = Orders(place.bootstrap_servers, f"{place.namespace}-orders")
    orders.write("first")
    place.operator(worker={"secrets": [SECRET]})
    apply(place, Recipe(FOLDER / "s3" / "s3.yaml"), {"orders": orders.topic})
    place.settled("store")

    def arrived() -> bool:
        return rows(store, f"{orders.topic}/") == orders.written

    place.eventually(arrived, 240, "each row, once")
    place.execute("store-0", "kill", "-9", "--", "-1")
    orders.write("second")
    place.eventually(arrived, 180, "each row, once, after a member's death")


def test_files_on_a_shared_volume_to_a_topic_and_back(place: NodeNamespace) -> None:
    written: Counter[str] = Counter()
    for claim in ("checkpoints", "shared"):
        shared_volume(place, f"files-{claim}", place.shared / claim)
    source = place.shared / "shared" / "in"
    source.mkdir(mode=0o777)

    def write(word: str) -> None:
        for number in range(20):
            lines = [f"{word} {number} {line}" for line in range(20)]
            # Rename it into place, so that a visible file is complete.
            (place.shared / "new").write_text("".join(f"{line}\n" for line in lines))
            (place.shared / "new").rename(source / f"{word}-{number}.txt")
            written.update(lines)

    write("first")
    place.operator()
    for path in sorted((FOLDER / "files").glob("*.yaml")):
        recipe = Recipe(path)
        apply(place, recipe, {"nfs": place.namespace} if recipe.placeholders else {})
    place.connector("counts", "files", **COUNTS)
    place.settled("files")

    def arrived() -> bool:
        table = read_units(place.shared / "shared" / "archive")
        values = table["value"].to_pylist() if table.num_rows else []
        return Counter(json.loads(value)["line"] for value in values) == written

    def counted() -> bool:
        """By ``kubectl cooperator state``, which any member answers."""
        person = Person(place.cluster, place.namespace)
        rows = json.loads(person.cooperator("state", "counts", "-o", "json"))["rows"]
        counts = {row["key"]["word"]: row["value"]["count"] for row in rows}
        assert counts == Counter(line.partition(" ")[0] for line in written.elements())
        return True

    def task() -> dict[str, Any]:
        statuses = place.get("connectors", "counts")["status"]["taskStatuses"]
        return next(each for each in statuses if each["id"] == 0)

    place.eventually(arrived, 240, "each line, once")
    known = place.eventually(
        lambda: "caught up" in (found := task()).get("learning", "") and found, 180, "the counts are learned"
    )
    assert counted()
    owner, standby = known["member"], known["learning"].split()[2].rstrip(",")
    assert {owner, standby} < {"files-0", "files-1", "files-2"}
    place.execute(owner, "kill", "-9", "--", "-1")
    write("second")
    place.eventually(lambda: task()["member"] == standby, 50, "the standby goes on, without the hold of 60 s")
    place.eventually(arrived, 180, "each line, once, after a member's death")
    place.eventually(counted, 120, "each line is counted once")


def shared_volume(place: NodeNamespace, claim: str, folder: Path) -> None:
    """A volume for the claim, of a storage class named like the namespace."""
    folder.mkdir()
    folder.chmod(0o777)
    reference = {"namespace": place.namespace, "name": claim}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "100Gi"},
        "hostPath": {"path": str(folder)},
        "storageClassName": place.namespace,
        "claimRef": reference,
    }
    metadata = {"name": f"{place.namespace}-{claim}"}
    place.cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})


def test_kafka_connect_workers_as_pods(place: NodeNamespace) -> None:
    script = place.shared / "connect-distributed.sh"
    script.write_text(START)
    script.chmod(0o755)
    place.operator()
    worker, connector = Recipe(FOLDER / "connect" / "connect.yaml").edited(
        {"kafka-bootstrap.kafka:9092": place.bootstrap_servers}
    )
    spec = worker["spec"]
    # These say which Kafka image to take; the nodes' has no scripts.
    del spec["resources"], spec["version"]
    spec["connect"] |= {"command": f"/checkpoints/{script.name}", "heapMb": 192}
    volumes = [{"name": "shared", "persistentVolumeClaim": {"claimName": "checkpoints"}}]
    mounts = [{"name": "shared", "mountPath": "/checkpoints"}]
    template = {"volumes": volumes, "containers": [{"name": "worker", "volumeMounts": mounts}]}
    image = {"image": KAFKA, "imagePullPolicy": "Never"}
    place.worker("pipes", **{**spec, **image, "template": {"spec": template}})
    connector["metadata"]["namespace"] = place.namespace
    place.cluster.apply(connector)
    place.settled("pipes")
    lines = [f"line {number}" for number in range(100)]
    for pod in ("pipes-0", "pipes-1"):
        # The task is in one of them.
        place.execute(pod, "sh", "-c", f"printf '%s\\n' {' '.join(map(repr, lines))} >> /tmp/lines")
    place.eventually(
        lambda: committed(place.bootstrap_servers, "pipe-lines") == Counter(lines), 120, "each line, once"
    )


def rows(store: Store, prefix: str) -> Counter[str]:
    """The rows of all parquet files that any reader finds below the prefix."""
    client = store.client()
    paths = [each["path"] for page in obstore.list(client, prefix) for each in page]
    found: Counter[str] = Counter()
    for path in paths:
        if path.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in path.split("/")):
            table = pyarrow.parquet.read_table(io.BytesIO(bytes(obstore.get(client, path).bytes())))
            found.update(table["value"].to_pylist())
    return found
