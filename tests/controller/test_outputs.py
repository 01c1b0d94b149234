"""Connectors on Kubernetes that would share a directory, by age and volume."""

from collections.abc import Mapping
from typing import Any

import pytest

from cooperator.controller.outputs import OUTPUTS, Outputs, locate_for, pod_local
from cooperator.controller.store import CONNECTOR, WORKER, Store
from cooperator.crd import Connector, from_object
from tests.controller.workers import worker


class Cluster:
    """A store, told of objects as the watches would tell it."""

    def __init__(self) -> None:
        self.store = Store(lambda name: None)
        self.outputs = Outputs(self.store)
        self._version = 0
        self._bodies: dict[str, dict[str, Any]] = {}

    def worker(self, name: str, namespace: str = "default", **spec: Any) -> None:
        self._put(WORKER, name, namespace, spec, {})

    def connector(
        self, name: str, directory: str, *, age: int = 0, noted: str = "", to: str = "lake", **metadata: Any
    ) -> dict[str, Any]:
        """``age``: the higher, the earlier it was created."""
        config = {"source.format": "rate", "sink.format": "parquet", "sink.options.path": directory}
        spec = {"workerRef": {"name": to}, "class": "spark", "config": config}
        created = f"2026-01-01T00:00:{59 - age:02}Z"
        annotations = {OUTPUTS: noted} if noted else {}
        return self._put(
            CONNECTOR,
            name,
            metadata.pop("namespace", "default"),
            spec,
            {"creationTimestamp": created, "annotations": annotations, **metadata},
        )

    def _put(
        self, kind: str, name: str, namespace: str, spec: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> dict[str, Any]:
        self._version += 1
        body = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{kind}-{name}",
                "generation": self._version,
                "resourceVersion": str(self._version),
                **metadata,
            },
            "spec": dict(spec),
        }
        self.store.put(kind, body)
        self._bodies[f"{namespace}/{name}"] = body
        return body

    def delete(self, name: str) -> None:
        self._version += 1
        body = self._bodies[f"default/{name}"]
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        self.store.put(CONNECTOR, {**body, "metadata": metadata}, deleted=True)

    def see(self, namespace: str = "default") -> tuple[Mapping[str, str], Mapping[str, str]]:
        _, _, bodies = self.store.specs()
        found: list[Connector] = []
        for (where, _), body in bodies.items():
            if where == namespace:
                made = from_object({"apiVersion": "cooperator.dev/v1alpha1", "kind": "Connector", **body})
                assert isinstance(made, Connector)
                found.append(made)
        seen = self.outputs.see(namespace, tuple(found))
        return seen.withheld, seen.notes


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.worker("lake")
    return cluster


def test_the_older_keeps_the_directory_until_it_is_gone(cluster: Cluster) -> None:
    cluster.connector("late", "/out/", age=1)
    cluster.connector("early", "file:/out", age=2)
    withheld, notes = cluster.see()
    assert set(withheld) == {"late"}
    assert "as Connector early does" in withheld["late"]
    assert set(notes) == {"early"}
    cluster.connector("early", "file:/out", age=2, deletionTimestamp="2026-01-01T01:00:00Z")
    assert set(cluster.see()[0]) == {"late"}, "it still runs"
    cluster.delete("early")
    assert cluster.see()[0] == {}


def test_an_older_one_that_is_given_the_directory_later_does_not_take_it(cluster: Cluster) -> None:
    cluster.connector("late", "/out", age=1)
    note = cluster.see()[1]["late"]
    cluster.connector("late", "/out", age=1, noted=note)
    cluster.connector("early", "/elsewhere", age=2, noted="what it has now")
    assert cluster.see()[0] == {}
    cluster.connector("early", "/out", age=2, noted="what it has now")
    assert set(cluster.see()[0]) == {"early"}
    # The next operator knows no more than what is noted.
    cluster.outputs = Outputs(cluster.store)
    assert set(cluster.see()[0]) == {"early"}


def test_a_connector_without_a_worker_blocks_no_other(cluster: Cluster) -> None:
    cluster.connector("stray", "s3a://lake/out", age=2, to="pond")
    cluster.connector("a", "s3a://lake/out", age=1)
    withheld, notes = cluster.see()
    assert (withheld, set(notes)) == ({}, {"a"})
    cluster.connector("a", "s3a://lake/out", age=1, noted=notes["a"])
    cluster.worker("pond")
    assert set(cluster.see()[0]) == {"stray"}


def test_an_unreadable_connector_keeps_its_directories(cluster: Cluster) -> None:
    cluster.connector("early", "/out", age=2)
    cluster.connector("late", "/out", age=1)
    assert set(cluster.see()[0]) == {"late"}
    body = cluster.connector("early", "/out", age=2)
    body["spec"]["tasksMax"] = "many"
    known = cluster.outputs._withheld
    assert set(known) == {("default", "late")}
    cluster._version += 1
    metadata = {**body["metadata"], "generation": 99, "resourceVersion": str(cluster._version)}
    cluster.store.put(CONNECTOR, {**body, "metadata": metadata})
    cluster.outputs.see("default", ())
    assert set(cluster.outputs._withheld) == {("default", "late")}


def test_a_status_makes_nobody_compare_anything_again(cluster: Cluster) -> None:
    body = cluster.connector("a", "/out")
    before = cluster.store.specs()[0]
    metadata = {**body["metadata"], "resourceVersion": "1000"}
    cluster.store.put(CONNECTOR, {**body, "metadata": metadata, "status": {"state": "RUNNING"}})
    assert cluster.store.specs()[0] == before
    metadata = {**metadata, "resourceVersion": "1001", "annotations": {"a": "b"}}
    cluster.store.put(CONNECTOR, {**body, "metadata": metadata})
    assert cluster.store.specs()[0] == before + 1


def test_workers_of_several_namespaces_share_a_store_and_not_a_pods_own_directories(
    cluster: Cluster,
) -> None:
    cluster.worker("pond", namespace="other")
    cluster.connector("a", "s3a://lake/out", age=2)
    cluster.connector("b", "s3a://lake/out/", age=1, to="pond", namespace="other")
    assert "as Connector a of namespace default does" in cluster.see("other")[0]["b"]
    cluster.connector("a", "/out", age=2)
    cluster.connector("b", "/out", age=1, to="pond", namespace="other")
    assert cluster.see("other")[0] == {}, "each has its own"


def template(volume: str, mount: str, more: str = "") -> str:
    return (
        "{template: {spec: {volumes: [" + volume + "], containers: [{name: worker, volumeMounts: ["
        "{name: data, " + mount + "}]" + more + "}]}}}"
    )


PVC = "{name: data, persistentVolumeClaim: {claimName: files}}"
NFS = "{name: data, nfs: {server: nas, path: /export/}}"


@pytest.mark.parametrize(
    ("spec", "directory", "expected"),
    [
        ("{}", "/data/out", "pods of ns/lake: file:/data/out"),
        ("{checkpointVolume: {claimName: files, mountPath: /data}}", "/data/out/", "claim ns/files: /out"),
        ("{checkpointVolume: {claimName: files, mountPath: /dat}}", "/data", "pods of ns/lake: file:/data"),
        (template(PVC, "mountPath: /data"), "file:///data/out", "claim ns/files: /out"),
        (template(PVC, "mountPath: /data, subPath: a/"), "/data/out", "claim ns/files: /a/out"),
        (
            template(PVC, "mountPath: /data, subPathExpr: $(POD_NAME)"),
            "/data/o",
            "pods of ns/lake: file:/data/o",
        ),
        (template(NFS, "mountPath: /data"), "/data/out", "nfs nas: /export/out"),
        (
            template("{name: data, emptyDir: {}}", "mountPath: /data"),
            "/data/o",
            "pods of ns/lake: file:/data/o",
        ),
        ("{}", "s3a://lake/out", "s3://lake/out"),
        ("{spark: {conf: {spark.hadoop.fs.s3a.endpoint: minio}}}", "s3a://lake/out", "minio s3://lake/out"),
        (
            template(PVC, "mountPath: /data", ", env: [{name: AWS_ENDPOINT_URL_S3, value: minio}]"),
            "s3a://lake/out",
            "minio s3://lake/out",
        ),
        (
            template(PVC, "mountPath: /data", ", envFrom: [{secretRef: {name: store}}]"),
            "s3a://lake/out",
            "pods of ns/lake: s3://lake/out",
        ),
        ("{spark: {conf: {spark.hadoop.fs.defaultFS: 'hdfs://names'}}}", "/out", "hdfs://names/out"),
    ],
)
def test_only_some_directories_are_the_same_for_all_workers(spec: str, directory: str, expected: str) -> None:
    assert locate_for(worker(spec), "ns")(directory) == expected


def kept_at(location: str, volume: str) -> str:
    return "{checkpointLocation: " + location + ", " + template(volume, "mountPath: /data")[1:]


@pytest.mark.parametrize(
    ("spec", "are_local"),
    [
        ("{}", True),
        ("{checkpointVolume: {claimName: files}}", False),
        ("{checkpointLocation: /elsewhere}", True),
        ("{checkpointLocation: s3a://bucket/path}", False),
        (kept_at("/data/a", PVC), False),
        (kept_at("/data/a", "{name: data, hostPath: {path: /b}}"), False),
        (kept_at("/data/a", "{name: data, emptyDir: {}}"), True),
        (kept_at("/database", PVC), True),
        ("{spark: {conf: {spark.hadoop.fs.defaultFS: 'hdfs://names'}}}", False),
        ("{runtime: connect}", False),
    ],
)
def test_checkpoints_are_local_unless_they_outlive_a_pod(spec: str, are_local: bool) -> None:
    assert pod_local(worker(spec)).checkpoints is are_local


@pytest.mark.parametrize(
    ("spec", "directory", "is_local"),
    [
        ("{}", "/data/out", True),
        ("{}", "file:///data/out", True),
        ("{}", "s3a://bucket/out", False),
        ("{checkpointVolume: {claimName: files, mountPath: /data}}", "/data/out", False),
        (template(PVC, "mountPath: /data"), "/data/out", False),
        (template(PVC, "mountPath: /data"), "/database/out", True),
        (template("{name: data, emptyDir: {}}", "mountPath: /data"), "/data/out", True),
        ("{spark: {conf: {spark.hadoop.fs.defaultFS: 'hdfs://names'}}}", "/out", False),
    ],
)
def test_directories_are_local_unless_they_outlive_a_pod(spec: str, directory: str, is_local: bool) -> None:
    assert pod_local(worker(spec)).directory(directory) is is_local
