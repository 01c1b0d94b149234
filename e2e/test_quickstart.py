"""The commands of the README and the chart's notes, on a cluster that has no definitions of ours yet."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cooperator.artifacts.bundles import KAFKA_VERSION
from cooperator.connectors.topics import ensure_topic
from e2e.flows import committed
from e2e.node_installation import NodeNamespace
from e2e.release import CRDS, Helm
from e2e.typed import Terminal, blocks, noted
from tests.kubernetes.api import ApiError
from tests.kubernetes.fixtures import wait_until_served
from tests.kubernetes.helm import HelmFailed
from tests.kubernetes.images import KAFKA, OPERATOR, ROOT, WORKER
from tests.kubernetes.nodes import Cluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

HOME = "cooperator"
"""The namespace in the README."""
API = "cooperator.dev/v1alpha1"
PLURALS = ("connectors", "workers")
NAMES = {"connectors": ("copy", "oslo"), "workers": ("lake",)}
MEMBERS = {"lake-0", "lake-1", "lake-2"}
HELD = re.compile(r"\b\d+, \d+s")
"""The column HELD while tasks wait: how many, and for how long yet."""
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGES = {
    OPERATOR: f"registry.example/cooperator-operator:{VERSION}",
    WORKER: f"registry.example/cooperator-worker:{VERSION}",
    KAFKA: f"docker.io/apache/kafka:{KAFKA_VERSION}",
}
"""The README's registry does not exist: nodes have the images under its names."""
QUICK, OWN = blocks((ROOT / "README.md").read_text(), "On Kubernetes")
VALUES = """\
import sys
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
brokers, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": brokers,
    "group.id": "test",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
})
unread = set(consumer.list_topics(topic, 30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in unread])
while unread:
    message = consumer.poll(30)
    if message.error():
        unread.discard(message.partition())
    else:
        print(message.value().decode())
"""
"""A program that prints all committed rows of a topic."""


@pytest.fixture
def home(prepared: Cluster, servers: str, tmp_path: Path) -> Iterator[NodeNamespace]:
    """The README's namespace, and a Service ``kafka`` in it for a Kafka that exists already."""
    for node in prepared.nodes:
        for image, name in IMAGES.items():
            node.tag(image, name)
    home = NodeNamespace(prepared.plane, HOME, servers, tmp_path, prepared)
    host, _, port = servers.rpartition(":")
    metadata = {"name": "kafka", "namespace": HOME}
    kafka = {"kind": "Service", "metadata": metadata, "spec": {"ports": [{"name": "kafka", "port": 9092}]}}
    slice_ = {
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kafka"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host]}],
        "ports": [{"name": "kafka", "port": int(port)}],
    }
    prepared.plane.apply({"apiVersion": "v1", **kafka}, {"apiVersion": "discovery.k8s.io/v1", **slice_})
    yield home
    home.close()
    let_go(home)
    home.eventually(lambda: not prepared.plane.api.exists(f"/api/v1/namespaces/{HOME}"), 120)


def let_go(place: NodeNamespace) -> None:
    """Remove the finalizers of all Workers and Connectors: tests remove their operator first."""
    api = place.cluster.api
    for plural in PLURALS:
        found = place.eventually(lambda where=f"/apis/{API}/{plural}": api.get(where))
        for each in found["items"]:
            where = f"/apis/{API}/namespaces/{each['metadata']['namespace']}/{plural}"
            with suppress(ApiError):
                api.patch(f"{where}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})


@pytest.fixture
def empty(home: NodeNamespace) -> Iterator[NodeNamespace]:
    """A cluster that does not have our resource definitions; they are back afterwards."""
    definitions = Helm(home.cluster, "kube-system")
    definitions.uninstall(CRDS)
    try:
        let_go(home)
        names = [f"{plural}.cooperator.dev" for plural in PLURALS]
        home.cluster.kubectl("delete", "crd", *names, "--wait", "--timeout=60s")
        yield home
    finally:
        with suppress(HelmFailed):
            home.helm.uninstall(CRDS)
        definitions.take_over(CRDS, CRDS)
        wait_until_served(home.cluster)


@pytest.fixture
def user(empty: NodeNamespace, tmp_path: Path) -> Terminal:
    return Terminal(empty.cluster, tmp_path)


class QuickStart:
    """The pipelines of the quick start, and its own Kafka."""

    def __init__(self, place: NodeNamespace) -> None:
        self._place = place

    def rows(self, topic: str) -> Counter[str]:
        """All committed rows."""
        brokers = self._place.get("workers", "lake")["spec"]["bootstrapServers"]
        where = ("exec", "-n", self._place.namespace, "deploy/cooperator", "--")
        return Counter(
            self._place.cluster.kubectl(*where, "python", "-c", VALUES, brokers, topic).splitlines()
        )

    def members(self) -> dict[str, str]:
        """The member of each task."""
        return {
            f"{name}-{task['id']}": task["member"]
            for name in NAMES["connectors"]
            for task in self._place.get("connectors", name)["status"]["taskStatuses"]
        }

    def is_complete(self) -> bool:
        written = self.rows("orders")
        return self.rows("orders-copy") == written and self.rows("orders-oslo") == of_oslo(written)


def restarts(place: NodeNamespace, pod: str) -> int:
    count: int = place.pods()[pod]["status"]["containerStatuses"][0]["restartCount"]
    return count


def uid(place: NodeNamespace, pod: str) -> str:
    """The pod's uid; empty if there is none of that name."""
    found: str = place.pods().get(pod, {}).get("metadata", {}).get("uid", "")
    return found


def of_oslo(rows: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if '"Oslo"' in row})


def are_gone(place: NodeNamespace) -> bool:
    return all(place.is_gone(plural, name) for plural, names in NAMES.items() for name in names)


# Every run checks the chart's objects (tests/charts/test_quickstart.py), and installs it (test_release.py).
@pytest.mark.long(
    "e2e/test_release.py::test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices"
)
def test_the_commands_of_the_readme_and_of_the_notes_show_what_they_promise(
    empty: NodeNamespace, user: Terminal
) -> None:
    [install] = QUICK
    notes = user.type(install)
    assert "FOR TRYING ONLY" in notes
    pods, wait, get, test, watch, kill, delete, describe, uninstall = noted(notes)
    quick = QuickStart(empty)
    with user.watching(pods) as seen:
        user.type(wait)
        assert {line.split()[0] for line in user.type(get).splitlines() if "/" in line} == {
            f"{plural.removesuffix('s')}.cooperator.dev/{name}"
            for plural, names in NAMES.items()
            for name in names
        }
        assert "new rows arrived in orders-oslo, each once" in user.type(test)
        empty.settled()
        assert {line.split()[0] for line in seen.lines} >= MEMBERS

    before = quick.members()
    assert set(before.values()) == MEMBERS
    with user.watching(watch) as seen:
        # A member that is back within a second leaves no hold to be seen; the second death shows it.
        for deaths in (1, 2):
            user.type(kill)
            empty.eventually(lambda count=deaths: restarts(empty, "lake-0") == count, 60)
            empty.settled()
            # Each task was held for its member, however soon that one was back.
            empty.eventually(lambda: quick.members() == before, 60, "each task is where it was")
            if held := any(HELD.search(line) for line in seen.lines):
                break
        assert held, seen.lines

    before_deletion = uid(empty, "lake-1")
    user.type(delete)
    empty.eventually(lambda: uid(empty, "lake-1") not in ("", before_deletion), 60)
    empty.settled()
    assert "Settled" in user.type(describe)
    empty.cluster.kubectl("scale", "-n", HOME, "deploy/cooperator-producer", "--replicas=0")
    empty.eventually(quick.is_complete, 120, "each row has arrived once")
    with pytest.raises(AssertionError, match="cannot be switched off in an upgrade"):
        user.type(
            f"helm upgrade cooperator charts/cooperator --namespace {HOME} --reset-then-reuse-values "
            "--set quickstart.enabled=false"
        )
    user.type(uninstall)
    assert are_gone(empty), "they would be in the way of a second installation"

    *installs, apply, status = OWN
    for command in (*installs, apply):
        user.type(command)
    written = produce_orders(empty)
    empty.eventually(lambda: committed(empty.bootstrap_servers, "orders-copy") == written, 240)
    empty.eventually(lambda: committed(empty.bootstrap_servers, "orders-oslo") == of_oslo(written), 120)
    empty.settled()
    shown = user.type(status)
    assert "Worker cooperator/lake: Ready, 3/3 members, 6/6 tasks run" in shown, shown
    # As docs/kubernetes.md says.
    user.type("kubectl delete connectors.cooperator.dev,workers.cooperator.dev --all --all-namespaces --wait")


def produce_orders(place: NodeNamespace) -> Counter[str]:
    """Rows as the example's first lines describe them; the topic exists afterwards."""
    client: dict[str, Any] = {"bootstrap.servers": place.bootstrap_servers}
    ensure_topic(client, "orders", 4, -1)
    producer = Producer(client)
    cities = ("Oslo", "Lima", "Quito")
    rows = [json.dumps({"id": number, "city": cities[number % 3], "cents": number}) for number in range(300)]
    for row in rows:
        producer.produce("orders", row)
    assert producer.flush(30) == 0
    return Counter(rows)


@pytest.mark.long(
    "e2e/test_release.py::test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices"
)
def test_it_can_be_installed_again_at_once(empty: NodeNamespace, user: Terminal) -> None:
    for _ in range(2):
        notes = noted(user.type(QUICK[0]))
        [test] = [command for command in notes if command.startswith("helm test")]
        assert "new rows arrived in orders-oslo, each once" in user.type(test)
        user.type(notes[-1])
        assert are_gone(empty)
