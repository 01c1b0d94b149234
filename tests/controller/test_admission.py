"""The chart's admission policy refuses exactly the Workers whose pods the operator would refuse."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from cooperator.controller.manifests.admission import rules
from cooperator.controller.manifests.allowed import Allowance, not_allowed
from cooperator.crd import ResourceError
from tests.charts.rendered import OPERATOR, Release
from tests.controller.test_allowed import MISTYPED, REFUSED, SPECS, UNMERGEABLE, USEFUL, volume, worker
from tests.harness.support import eventually
from tests.kubernetes.api import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import cluster, namespace, wait_until_served

__all__ = ["cluster", "namespace"]
pytestmark = pytest.mark.real
CRDS = Path(__file__).parents[2] / "crds"
NAMED = Allowance(secrets=frozenset({"login"}), service_accounts=frozenset({"wide"}))
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
BY_POLICY = "ValidatingAdmissionPolicy"


def test_the_chart_has_the_rules_of_the_operator() -> None:
    assert (OPERATOR / "files" / "admission-rules.yaml").read_text() == rules()


class Guarded:
    """A namespace where the policy is in effect."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/apis/cooperator.dev/v1alpha1/namespaces/{namespace}/workers"

    def refusal(self, spec: Mapping[str, Any], name: str = "lake") -> str:
        """Returns why a Worker with this spec cannot be created; empty if it can."""
        body = {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Worker",
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        try:
            self._plane.api.post(f"{self._path}?dryRun=All", body)
        except ApiError as error:
            return error.message
        return ""

    def of_template(self, spec: Mapping[str, Any]) -> str:
        return self.refusal({"template": {"spec": dict(spec)}})


@pytest.fixture
def guarded(cluster: ControlPlane, namespace: str) -> Iterator[Guarded]:
    cluster.apply(*(yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")))
    wait_until_served(cluster)
    named = {"secrets": ["login"], "serviceAccounts": [f"{namespace}/wide", "elsewhere/default"]}
    values = {"admissionPolicy": {"enabled": True}, "worker": named, "namespaces": [namespace]}
    found = Release(namespace=namespace).manifests(values)
    policies = [each for each in found if each["kind"].startswith(BY_POLICY)]
    cluster.apply(*policies)
    guarded = Guarded(cluster, namespace)
    eventually(lambda: BY_POLICY in guarded.of_template({"hostPID": True}), 30, "the policy is in effect")
    yield guarded
    kinds = {
        BY_POLICY: "validatingadmissionpolicies",
        f"{BY_POLICY}Binding": "validatingadmissionpolicybindings",
    }
    for each in policies:
        cluster.api.delete(
            f"/apis/admissionregistration.k8s.io/v1/{kinds[each['kind']]}/{each['metadata']['name']}"
        )


def test_the_policy_refuses_what_the_operator_refuses(guarded: Guarded) -> None:
    for case, (spec, _) in {**REFUSED, **MISTYPED, **UNMERGEABLE}.items():
        # The API server leaves out a list that is null, before anything else sees it.
        expected = case != "volumes that are nothing"
        assert bool(guarded.of_template(spec)) is expected, f"the policy lets through, or refuses: {case}"
    for case, (spec, _) in REFUSED.items():
        said = guarded.of_template(spec)
        assert "denied request: spec.template.spec" in said, f"{case}: {said}"
    assert guarded.of_template(USEFUL) == ""
    assert guarded.refusal({}) == ""
    kafka, tls = {"securityProtocol": "SASL_SSL"}, {"securityProtocol": "SSL"}
    oauth = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "login"}}
    endpoint = {"tokenEndpointUrl": "https://idp.example/token"}
    projected = {"serviceAccountToken": {"audience": "kafka"}}
    for spec in (
        {"imagePullSecrets": ["admin"]},
        {"kafka": {**kafka, "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "admin"}}}},
        {"kafka": {**tls, "tls": {"caSecretRef": {"name": "admin"}}}},
        {"kafka": {**tls, "tls": {"certificateSecretRef": {"name": "admin"}}}},
        {
            "kafka": {
                **kafka,
                "sasl": {**oauth, "oauthbearer": {**endpoint, "caSecretRef": {"name": "admin"}}},
            }
        },
        {"kafka": {**kafka, "sasl": {"mechanism": "OAUTHBEARER", "oauthbearer": projected}}},
        {"serviceAccountName": "default"},
        {
            "template": {
                "metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}
            }
        },
    ):
        assert BY_POLICY in guarded.refusal(spec), spec
    for spec in (
        {"imagePullSecrets": ["login"], "serviceAccountName": "wide"},
        {"template": {"spec": volume(secret={"secretName": "login"})}},
        {"kafka": {**kafka, "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "login"}}}},
        {
            "kafka": {
                **kafka,
                "sasl": {**oauth, "oauthbearer": {**endpoint, "caSecretRef": {"name": "login"}}},
            }
        },
        {
            "serviceAccountName": "wide",
            "kafka": {**kafka, "sasl": {"mechanism": "OAUTHBEARER", "oauthbearer": projected}},
        },
    ):
        assert guarded.refusal(spec) == "", spec


def test_policy_and_operator_agree_on_any_template(guarded: Guarded) -> None:
    @given(SPECS)
    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    def agree(spec: dict[str, Any]) -> None:
        try:
            refused = not_allowed(worker(spec), NAMED) != ""
        except ResourceError:
            return  # Both the schema and the model refuse it.
        assert (guarded.of_template(spec) != "") == refused

    agree()


def test_existing_workers_can_change_other_fields_and_be_deleted(
    cluster: ControlPlane, namespace: str, guarded: Guarded
) -> None:
    # The rules apply to changed specs only, so a finalizer can be removed from a Worker that is no longer
    # allowed.
    path = f"/apis/cooperator.dev/v1alpha1/namespaces/{namespace}/workers"
    policy = f"{ADMISSION}/validatingadmissionpolicybindings/{namespace}.cooperator"
    cluster.api.patch(policy, {"spec": {"validationActions": ["Audit"]}})
    body = {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "old", "finalizers": ["cooperator.dev/stop"]},
        "spec": {"template": {"spec": {"hostPID": True}}},
    }
    eventually(lambda: guarded.of_template({"hostPID": True}) == "", 30, "the policy only warns")
    cluster.api.post(path, body)
    cluster.api.patch(policy, {"spec": {"validationActions": ["Deny"]}})
    eventually(lambda: guarded.of_template({"hostPID": True}), 30, "the policy is in effect")
    with pytest.raises(ApiError, match=BY_POLICY):
        cluster.api.patch(f"{path}/old", {"spec": {"replicas": 2}})
    cluster.api.delete(f"{path}/old")
    cluster.api.patch(f"{path}/old", {"metadata": {"finalizers": None}})
    assert not cluster.api.exists(f"{path}/old")
