"""The ground of the operator's tests: a real API server that accepts, refuses, and can fail as they do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.support import eventually
from tests.kubernetes.api import Api, ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import wait_until_served

pytestmark = pytest.mark.real


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_created_objects_exist(cluster: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.api.post(path, config_map("first", answer="42"))
    assert cluster.api.get(f"{path}/first")["data"] == {"answer": "42"}
    assert cluster.kubectl("get", "-n", namespace, "configmap/first", "-o", "jsonpath={.data.answer}") == "42"


def test_a_rule_of_a_resource_refuses_with_its_message(cluster: ControlPlane, unique: str) -> None:
    group = f"{unique}.cooperator.dev"
    spec = {
        "type": "object",
        "properties": {"topic": {"type": "string", "maxLength": 20}},
        "x-kubernetes-validations": [
            {"rule": "self.topic == oldSelf.topic", "message": "topic: cannot be changed; make another"}
        ],
    }
    cluster.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"probes.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "Probe", "plural": "probes"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    }
                ],
            },
        }
    )
    wait_until_served(cluster)
    path = f"/apis/{group}/v1/namespaces/default/probes"
    probe = {
        "apiVersion": f"{group}/v1",
        "kind": "Probe",
        "metadata": {"name": "a"},
        "spec": {"topic": "one"},
    }
    cluster.api.post(path, probe)
    with pytest.raises(ApiError, match="topic: cannot be changed; make another") as refused:
        cluster.api.patch(f"{path}/a", {"spec": {"topic": "two"}})
    assert refused.value.status == 422


def test_a_manifest_is_applied_as_kubectl_applies_it(cluster: ControlPlane, namespace: str) -> None:
    manifest = {"apiVersion": "v1", **config_map("one", answer="42")}
    manifest["metadata"]["namespace"] = namespace
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    by_kubectl = cluster.api.get(path)
    cluster.apply(manifest)
    assert cluster.api.get(path) == by_kubectl, "the same fields of the same manager"
    with pytest.raises(ApiError, match="dta"):
        cluster.apply({**manifest, "dta": {}})
    other = {**manifest, "data": {"answer": "43"}}
    cluster.api.patch(path, {"data": {"answer": "41"}})
    with pytest.raises(ApiError, match="conflict"):
        cluster.apply(other)


def test_a_service_account_may_do_what_its_role_says_and_nothing_else(
    cluster: ControlPlane, namespace: str
) -> None:
    rbac = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "reader", "namespace": namespace},
    }
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    cluster.apply(
        {**rbac, "apiVersion": "v1", "kind": "ServiceAccount"},
        {**rbac, "kind": "Role", "rules": [rule]},
        {**rbac, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]},
    )
    reader = Api(cluster.kubeconfig_of(namespace, "reader"))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert "items" in eventually(lambda: reader.get(path))
    with pytest.raises(ApiError, match="cannot create resource") as refused:
        reader.post(path, config_map("not-mine"))
    assert refused.value.status == 403


def test_objects_of_a_deleted_owner_are_removed(cluster: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = cluster.api.post(path, config_map("owner"))["metadata"]
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    ]
    cluster.api.post(path, child)
    cluster.api.delete(f"{path}/owner")
    eventually(lambda: not cluster.api.exists(f"{path}/child"), 30)


def test_a_pod_that_may_become_root_is_refused(cluster: ControlPlane, namespace: str) -> None:
    container = {"name": "any", "image": "any"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any"},
        "spec": {"containers": [container]},
    }
    with pytest.raises(ApiError, match=r"violates PodSecurity \"restricted") as refused:
        cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", pod)
    assert refused.value.status == 403


@pytest.fixture(scope="module")
def other() -> Iterator[ControlPlane]:
    """One that its tests may harm, beside the shared one."""
    with ControlPlane.start() as plane:
        yield plane


def test_two_live_side_by_side(cluster: ControlPlane, other: ControlPlane) -> None:
    other.api.post("/api/v1/namespaces/default/configmaps", config_map("only-there"))
    assert not cluster.api.exists("/api/v1/namespaces/default/configmaps/only-there")


def test_an_api_server_that_was_killed_comes_back_with_its_data(other: ControlPlane) -> None:
    other.api.post("/api/v1/namespaces/default/configmaps", config_map("kept"))
    before = other.api_server.pid
    other.restart_api_server()
    assert other.api_server.pid != before
    assert other.api.exists("/api/v1/namespaces/default/configmaps/kept")


def test_a_frozen_api_server_answers_when_it_is_thawed(other: ControlPlane) -> None:
    other.api_server.freeze()
    try:
        with pytest.raises(TimeoutError):
            other.api.text("/readyz", timeout_s=0.5)
        assert not other.is_ready()
    finally:
        other.api_server.thaw()
    eventually(other.is_ready)
