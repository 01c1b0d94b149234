"""The chart's quick start on an empty cluster: one command, rows that arrive once, a hold, nothing left."""

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from e2e.node_installation import NodeNamespace
from e2e.release import CRDS, Helm
from tests.harness.support import slow
from tests.kubernetes.api import ApiError
from tests.kubernetes.fixtures import wait_until_served
from tests.kubernetes.helm import HelmFailed
from tests.kubernetes.images import KAFKA

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

API = "cooperator.dev/v1alpha1"
PLURALS = ("connectors", "workers")
# Of the test cluster, whose nodes are small and have no registry.
SMALL: dict[str, Any] = {
    "imagePullPolicy": "Never",
    "replicas": 2,
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
    "spark": {"heapMb": 512},
}
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
def empty(place: NodeNamespace) -> Iterator[NodeNamespace]:
    """A namespace of a cluster that does not have our resource definitions; they are back afterwards."""
    definitions, api = Helm(place.cluster, "kube-system"), place.cluster.api
    definitions.uninstall(CRDS)
    try:
        for plural in PLURALS:
            found = place.eventually(lambda where=f"/apis/{API}/{plural}": api.get(where))
            for each in found["items"]:
                # Earlier tests removed their operator first, so nobody else takes these away.
                where = f"/apis/{API}/namespaces/{each['metadata']['namespace']}/{plural}"
                with suppress(ApiError):
                    api.patch(f"{where}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
        names = [f"{plural}.cooperator.dev" for plural in PLURALS]
        place.cluster.kubectl("delete", "crd", *names, "--wait", "--timeout=60s")
        yield place
    finally:
        # As docs/kubernetes.md says for the definitions of a quick start.
        definitions.take_over(CRDS, CRDS)
        wait_until_served(place.cluster)


class QuickStart:
    def __init__(self, place: NodeNamespace) -> None:
        self.place = place
        repository, _, tag = KAFKA.rpartition(":")
        kafka = {"image": repository, "tag": tag, "pullPolicy": "Never"}
        if subnet := getattr(place.cluster, "service_subnet", ""):
            # These nodes have no DNS.
            kafka["clusterIP"] = str(ipaddress.ip_network(subnet)[51_000])
        self._values = {name: value for name, value in place.values.items() if name != "bootstrapServers"}
        producer = {"rowsPerSecond": 50}
        self._values["quickstart"] = {"enabled": True, "kafka": kafka, "producer": producer, "worker": SMALL}

    def install(self) -> str:
        return self.place.helm.install("cooperator", "cooperator", **self._values)

    def rows(self, topic: str) -> Counter[str]:
        """All committed rows."""
        brokers = self.place.get("workers", "lake")["spec"]["bootstrapServers"]
        where = ("exec", "-n", self.place.namespace, "deploy/cooperator", "--")
        return Counter(
            self.place.cluster.kubectl(*where, "python", "-c", VALUES, brokers, topic).splitlines()
        )

    def members(self) -> dict[str, str]:
        """The member of each task."""
        return {
            f"{name}-{task['id']}": task["member"]
            for name in ("copy", "oslo")
            for task in self.place.get("connectors", name)["status"]["taskStatuses"]
        }

    def is_complete(self) -> bool:
        written = self.rows("orders")
        oslo = Counter({row: count for row, count in written.items() if '"Oslo"' in row})
        return self.rows("orders-copy") == written and self.rows("orders-oslo") == oslo


def test_one_command_makes_pipelines_that_survive_a_death_and_leaves_nothing(empty: NodeNamespace) -> None:
    quick = QuickStart(empty)
    assert "FOR TRYING ONLY" in quick.install()
    assert "new rows arrived in orders-oslo, each once" in empty.helm.test("cooperator")

    empty.settled()
    before = quick.members()
    assert set(before.values()) == {"lake-0", "lake-1"}
    empty.execute("lake-0", "kill", "-9", "--", "-1")
    empty.eventually(
        lambda: empty.pods()["lake-0"]["status"]["containerStatuses"][0]["restartCount"] == 1, 60
    )
    empty.settled()
    # Each task was held for its member, however soon that one was back.
    empty.eventually(lambda: quick.members() == before, 60, "each task is where it was")
    empty.cluster.kubectl("scale", "-n", empty.namespace, "deploy/cooperator-producer", "--replicas=0")
    empty.eventually(quick.is_complete, 120, "each row has arrived once")

    with pytest.raises(HelmFailed, match="cannot be switched off in an upgrade"):
        empty.helm.upgrade("cooperator", "cooperator", quickstart={"enabled": False})
    empty.helm.uninstall("cooperator")
    for plural, name in (("connectors", "copy"), ("connectors", "oslo"), ("workers", "lake")):
        assert empty.is_gone(plural, name), "it would be in the way of a second installation"


@slow("env -u CI pytest e2e/test_quickstart.py")
def test_it_can_be_installed_again_at_once(empty: NodeNamespace) -> None:
    quick = QuickStart(empty)
    for _ in range(2):
        quick.install()
        assert "new rows arrived in orders-oslo, each once" in empty.helm.test("cooperator")
        empty.helm.uninstall("cooperator")
