"""Members whose Spark makes its executors as pods: rows flow through them, and they end with their driver."""

from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer

from cooperator.connectors.output import read_units
from cooperator.connectors.topics import ensure_topic
from e2e.node_installation import NodeNamespace
from tests.harness.recipes import FOLDER, Recipe
from tests.kubernetes.images import WORKER

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.long("tests/controller/test_executors.py::test_an_executor_is_like_its_member_and_no_member"),
]

SMALL = {
    "spark.executor.instances": 1,
    "spark.executor.cores": 1,
    "spark.executor.memory": "512m",
    "spark.kubernetes.executor.request.cores": "100m",
}


def apply_recipe(place: NodeNamespace) -> None:
    """Apply the recipe with less of what the test cluster has little of."""
    changes = {"kafka-bootstrap.kafka:9092": place.bootstrap_servers, "lake-checkpoints": "checkpoints"}
    *rights, worker = Recipe(FOLDER / "executors" / "executors.yaml").edited(changes)
    for manifest in rights:
        manifest["metadata"]["namespace"] = place.namespace
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = place.namespace
    place.cluster.apply(*rights)
    spec = worker["spec"]
    del spec["resources"]
    spec["spark"]["heapMb"] = 512
    spec["spark"]["conf"] |= SMALL
    place.worker("wide", **{**spec, "replicas": 1, "imagePullPolicy": "Never"})


class Rows:
    """The produced rows and those in the sink, through one member and its executor."""

    def __init__(self, place: NodeNamespace) -> None:
        self._place = place
        self._topic = f"rows-{place.namespace}"
        self._client: Any = {"bootstrap.servers": place.bootstrap_servers}
        self._produced = Counter[str]()
        ensure_topic(self._client, self._topic, 2, -1)

    def flow(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Wait until the first rows have arrived; returns the driver's pod and its executor's."""
        self.produce("first")
        self._place.operator(worker={"serviceAccounts": ["wide"]})
        apply_recipe(self._place)
        sql = "SELECT value FROM input"
        config = {"topics": self._topic, "path": "/checkpoints/out", "sql": sql, "format": "json"}
        self._place.connector("archive", "wide", **{"class": "kafka-to-files"}, tasksMax=2, config=config)
        self.all_arrive()
        driver = self.driver()
        return driver, self.executor_of(driver)

    def produce(self, word: str) -> None:
        producer = Producer(self._client)
        rows = [f"{word} {number}" for number in range(100)]
        for number, row in enumerate(rows):
            producer.produce(self._topic, row, partition=number % 2)
        assert producer.flush(30) == 0
        self._produced.update(rows)

    def all_arrive(self) -> None:
        """Wait until each row has arrived once, by what the sink has committed."""

        def arrived() -> bool:
            table = read_units(self._place.shared / "out")
            found = Counter(table["value"].to_pylist() if table.num_rows else ())
            assert found <= self._produced, "no row arrives twice"
            return found == self._produced

        self._place.eventually(arrived, 300)

    def driver(self) -> dict[str, Any]:
        return self._place.pods()["wide-0"]

    def executors(self) -> dict[str, dict[str, Any]]:
        """Executor pods by uid."""
        path = f"/api/v1/namespaces/{self._place.namespace}/pods?labelSelector=spark-role%3Dexecutor"
        return {pod["metadata"]["uid"]: pod for pod in self._place.cluster.api.get(path)["items"]}

    def executor_of(self, driver: dict[str, Any], *before: dict[str, Any]) -> dict[str, Any]:
        """The only executor, owned by the driver's pod, once it has worked; those of ``before`` are gone."""

        def found() -> dict[str, Any]:
            there = self.executors()
            assert not there.keys() & {pod["metadata"]["uid"] for pod in before}
            (pod,) = there.values()
            assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [
                driver["metadata"]["uid"]
            ]
            log = self._place.cluster.kubectl("logs", "-n", self._place.namespace, pod["metadata"]["name"])
            assert "Finished task" in log
            return pod

        pod: dict[str, Any] = self._place.eventually(found)
        return pod


def test_rows_pass_an_executor_pod_that_ends_with_the_pod_of_its_driver(
    place: NodeNamespace,
) -> None:
    rows = Rows(place)
    driver, executor = rows.flow()
    assert_like_the_member_without_its_rights(driver, executor)

    # The pod is killed during its hand-over, so Spark has no time to remove anything.
    place.delete_pod("wide-0", gracePeriodSeconds=1)
    rows.produce("second")
    place.eventually(
        lambda: executor["metadata"]["uid"] not in rows.executors(), 60, "it goes with its owner"
    )
    rows.produce("third")
    rows.all_arrive()
    assert rows.driver()["metadata"]["uid"] != driver["metadata"]["uid"]
    rows.executor_of(rows.driver(), executor)


def test_an_incarnation_in_the_same_pod_removes_the_executor_of_its_predecessor(
    place: NodeNamespace,
) -> None:
    rows = Rows(place)
    driver, executor = rows.flow()

    place.execute("wide-0", "kill", "-9", "--", "-1")
    rows.produce("second")
    rows.all_arrive()
    rows.executor_of(driver, executor)
    assert rows.driver()["metadata"]["uid"] == driver["metadata"]["uid"]


def assert_like_the_member_without_its_rights(driver: dict[str, Any], executor: dict[str, Any]) -> None:
    member, container = driver["spec"]["containers"][0], executor["spec"]["containers"][0]
    assert container["image"] == member["image"] == WORKER
    assert container["securityContext"] == member["securityContext"]
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert token in [mount["mountPath"] for mount in member["volumeMounts"]]
    assert token not in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "/checkpoints" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert not [name for name in executor["metadata"]["labels"] if name == "cooperator.dev/worker"]
