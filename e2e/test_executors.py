"""Members whose Spark makes its executors as pods: rows go through these, and they go with their driver."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from cooperator.runtime.connectors.topics import ensure_topic
from cooperator.runtime.output import read_units
from e2e_scene import RealPlace
from tests.kubernetes.images import WORKER

_REMEDY = "three lives of a driver and its executor: env -u CI pytest e2e/test_executors.py"
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.skipif("CI" in os.environ, reason=_REMEDY),
]

EXAMPLE = Path(__file__).parent.parent / "examples" / "kubernetes" / "executors.yaml"
SMALL = {
    "spark.executor.instances": 1,
    "spark.executor.cores": 1,
    "spark.executor.memory": "512m",
    "spark.kubernetes.executor.request.cores": "100m",
}


def apply_example(place: RealPlace) -> None:
    """As it is, less what it is that nobody here has: that much room, a name server, a registry."""
    *rights, worker = yaml.safe_load_all(EXAMPLE.read_text())
    for manifest in rights:
        manifest["metadata"]["namespace"] = place.namespace
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = place.namespace
    place.cluster.apply(*rights)
    spec = worker["spec"]
    del spec["bootstrapServers"], spec["resources"]
    spec["checkpointVolume"]["claimName"] = "checkpoints"
    spec["spark"]["heapMb"] = 512
    spec["spark"]["conf"] |= SMALL
    api = place.cluster.api.get("/api/v1/namespaces/default/services/kubernetes")["spec"]["clusterIP"]
    spec["template"] = {"spec": {"hostAliases": [{"ip": api, "hostnames": ["kubernetes.default.svc"]}]}}
    place.worker("wide", **{**spec, "replicas": 1, "imagePullPolicy": "Never"})


def executors(place: RealPlace) -> dict[str, dict[str, Any]]:
    """By their uids."""
    path = f"/api/v1/namespaces/{place.namespace}/pods?labelSelector=spark-role%3Dexecutor"
    return {pod["metadata"]["uid"]: pod for pod in place.cluster.api.get(path)["items"]}


def works(place: RealPlace, executor: dict[str, Any]) -> bool:
    said = place.cluster.kubectl("logs", "-n", place.namespace, executor["metadata"]["name"])
    return "Finished task" in said


def test_rows_go_through_executors_in_pods_and_these_go_with_the_life_of_their_driver(
    place: RealPlace,
) -> None:
    topic, wanted = f"rows-{place.namespace}", Counter[str]()
    client: Any = {"bootstrap.servers": place.bootstrap_servers}
    ensure_topic(client, topic, 2, -1)

    def produce(word: str) -> None:
        producer = Producer(client)
        for number in range(100):
            producer.produce(topic, f"{word} {number}", partition=number % 2)
        assert producer.flush(30) == 0
        wanted.update(f"{word} {number}" for number in range(100))

    def delivered() -> bool:
        """Every row, once, by what the sink has committed."""
        table = read_units(place.shared / "out")
        found = Counter(table["value"].to_pylist() if table.num_rows else ())
        assert found <= wanted, "nothing twice"
        return found == wanted

    def executor_of(uid: str, *before: str) -> dict[str, Any]:
        """The only one, once it has worked; the driver's pod has the ``uid``."""
        found = executors(place)
        assert not found.keys() & set(before), "those of before have gone"
        (pod,) = found.values()
        assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [uid]
        assert works(place, pod)
        return pod

    produce("first")
    place.operator()
    apply_example(place)
    sql = "SELECT value FROM input"
    config = {"topics": topic, "path": "/checkpoints/out", "sql": sql, "format": "json"}
    place.connector("archive", "wide", **{"class": "kafka-to-files"}, tasksMax=2, config=config)
    place.eventually(delivered, 300)
    driver = place.pods()["wide-0"]
    first = place.eventually(lambda: executor_of(driver["metadata"]["uid"]))
    assert_like_the_member_without_its_rights(driver, first)

    place.execute("wide-0", "kill", "-9", "--", "-1")
    produce("second")
    place.eventually(delivered, 300)
    assert place.pods()["wide-0"]["metadata"]["uid"] == driver["metadata"]["uid"], "a new life in its pod"
    second = place.eventually(lambda: executor_of(driver["metadata"]["uid"], first["metadata"]["uid"]))

    # It is killed while it hands over, so that Spark has no time to remove anything.
    place.delete_pod("wide-0", gracePeriodSeconds=1)
    produce("third")
    place.eventually(
        lambda: second["metadata"]["uid"] not in executors(place), 60, "they go with their owner"
    )
    place.eventually(delivered, 300)
    successor = place.pods()["wide-0"]["metadata"]["uid"]
    assert successor != driver["metadata"]["uid"]
    place.eventually(lambda: executor_of(successor))


def assert_like_the_member_without_its_rights(driver: dict[str, Any], executor: dict[str, Any]) -> None:
    member, container = driver["spec"]["containers"][0], executor["spec"]["containers"][0]
    assert container["image"] == member["image"] == WORKER
    assert container["securityContext"] == member["securityContext"]
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert token in [mount["mountPath"] for mount in member["volumeMounts"]]
    assert token not in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "/checkpoints" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert not [name for name in executor["metadata"]["labels"] if name == "cooperator.dev/worker"]
