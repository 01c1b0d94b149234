"""Our merge of pods is the API server's own."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from cooperator.controller.manifests.pods import Defaults, template
from cooperator.crd.pod_merge import ATOMIC, KEYS, KUBERNETES_VERSION, identity, merged
from tests.controller.workers import worker
from tests.crd.pod_parts import templates
from tests.kubernetes.api import ApiError
from tests.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

CORE = "#/definitions/io.k8s.api.core.v1"


def test_the_tables_are_those_of_the_servers_document(cluster: ControlPlane) -> None:
    version = json.loads(cluster.api.text("/version"))
    assert f"{version['major']}.{version['minor']}" == KUBERNETES_VERSION
    known = json.loads(cluster.api.text("/openapi/v2", timeout_s=60))["definitions"]
    keys: dict[str, tuple[str, ...]] = {}
    atomic: set[str] = set()

    def walk(reference: str, path: str, above: frozenset[str]) -> None:
        name = reference.rpartition("/")[2]
        if known[name].get("x-kubernetes-map-type") == "atomic":
            atomic.add(path)
        elif name not in above:
            for field, part in known[name].get("properties", {}).items():
                visit(part, f"{path}.{field}" if path else field, above | {name})

    def visit(part: dict[str, Any], path: str, above: frozenset[str]) -> None:
        if part.get("x-kubernetes-map-type") == "atomic":
            atomic.add(path)
        elif "$ref" in part:
            walk(part["$ref"], path, above)
        elif part.get("x-kubernetes-list-type") in ("map", "set"):
            keys[path] = tuple(part.get("x-kubernetes-list-map-keys", ()))
            visit(part["items"], path, above)

    walk(f"{CORE}.PodSpec", "", frozenset())
    assert keys == KEYS
    assert atomic == ATOMIC


def base() -> dict[str, Any]:
    """Our pod of a Worker that uses much, as far as a stored template may have it."""
    made = template(
        worker(
            "{zoneLabel: zone, checkpointVolume: {claimName: c}, imagePullSecrets: [pull], "
            "kafka: {securityProtocol: SSL, tls: {certificateSecretRef: {name: s}}}}"
        ),
        Defaults("registry.example/cooperator:1.0", "kafka:9092", leader_ca=True),
    )
    spec: dict[str, Any] = json.loads(json.dumps(made["spec"]))
    return spec


def in_order(value: Any, path: str = "") -> Any:
    """The value with the entries of lists that have keys in the order of these."""
    if isinstance(value, dict):
        return {name: in_order(part, f"{path}.{name}" if path else name) for name, part in value.items()}
    if isinstance(value, list):
        entries = [in_order(entry, path) for entry in value]
        return sorted(entries, key=lambda e: str(identity(e, path))) if path in KEYS else entries
    return value


class StoredTemplate:
    """Our pod as a PodTemplate of the server, over which it lays others without storing them."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._api = cluster.api
        self._path = f"/api/v1/namespaces/{namespace}/podtemplates"
        self._spec = base()
        self._apply("ours", self._spec, "")

    def _object(self, spec: dict[str, Any], name: str = "member") -> dict[str, Any]:
        body = {"metadata": {"name": name}, "template": {"spec": spec}}
        return {"apiVersion": "v1", "kind": "PodTemplate", **body}

    def _apply(self, manager: str, spec: dict[str, Any], dry_run: str = "&dryRun=All") -> dict[str, Any]:
        path = f"{self._path}/member?fieldManager={manager}&force=true{dry_run}"
        return self._api._json("PATCH", path, self._object(spec), "application/apply-patch+yaml")

    def by_us(self, theirs: dict[str, Any]) -> Any:
        made = self._object(merged(self._spec, theirs), "merged")
        return self._seen(lambda: self._api.post(f"{self._path}?dryRun=All", made))

    def by_server_side_apply(self, theirs: dict[str, Any]) -> Any:
        return self._seen(lambda: self._apply("theirs", theirs))

    def by_strategic_merge(self, theirs: dict[str, Any]) -> Any:
        path, kind = f"{self._path}/member?dryRun=All", "application/strategic-merge-patch+json"
        return self._seen(lambda: self._api._json("PATCH", path, {"template": {"spec": theirs}}, kind))

    def _seen(self, ask: Any) -> Any:
        try:
            return in_order(ask()["template"]["spec"])
        except ApiError as error:
            return error.status


def is_told_apart_by_first_keys(theirs: dict[str, Any]) -> bool:
    """Whether a strategic merge patch, which compares the first key only, means the same entries: of ports
    and topologySpreadConstraints it would merge two, which server-side apply corrected (KEP-555)."""
    spreads = [e for spec in (base(), theirs) for e in spec.get("topologySpreadConstraints", ())]
    found = {identity(e, "topologySpreadConstraints") for e in spreads}
    if len({key for key, _ in found}) < len(found) or any("labelSelector" in e for e in spreads[1:]):
        return False
    for kind in ("containers", "initContainers"):
        for container in theirs.get(kind, ()):
            ports = {identity(e, "containers.ports") for e in container.get("ports", ())}
            ports |= {(8084, "TCP")} if container["name"] == "worker" else set()
            if len({number for number, _ in ports}) < len(ports):
                return False
    return True


def test_merged_templates_are_those_of_the_server(cluster: ControlPlane, namespace: str) -> None:
    stored = StoredTemplate(cluster, namespace)
    seen = {"accepted": 0, "strategic": 0}

    @seed(20260101)
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(templates())
    def check(theirs: dict[str, Any]) -> None:
        ours = stored.by_us(theirs)
        assert ours == stored.by_server_side_apply(theirs)
        if is_told_apart_by_first_keys(theirs):
            assert ours == stored.by_strategic_merge(theirs)
            seen["strategic"] += 1
        seen["accepted"] += isinstance(ours, dict)

    check()
    assert seen["accepted"] > 30, "nearly all random templates are refused"
    assert seen["strategic"] > 30


def test_two_mounts_of_one_volume_are_both_there(cluster: ControlPlane, namespace: str) -> None:
    mounts = [{"name": "tmp", "mountPath": path, "subPath": path[1:]} for path in ("/x", "/y")]
    theirs = {"containers": [{"name": "worker", "volumeMounts": mounts}]}
    spec = StoredTemplate(cluster, namespace).by_us(theirs)
    [container] = spec["containers"]
    found = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert (found["/x"], found["/y"], found["/tmp"]) == ("tmp", "tmp", "tmp")
