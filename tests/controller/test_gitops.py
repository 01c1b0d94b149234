"""The steps of GitOps tools, with kubectl's means: apply by server side, compare, and wait for Ready."""

from pathlib import Path

import pytest
import yaml

from tests.harness.installation import Installation

pytestmark = pytest.mark.real


def test_resources_are_waited_for_and_a_second_apply_changes_nothing(
    installation: Installation, tmp_path: Path
) -> None:
    installation.operator()
    manifests = tmp_path / "lake.yaml"
    kind = {"apiVersion": "cooperator.dev/v1alpha1"}
    worker = {"replicas": 2, "heartbeatIntervalMs": 1_000, "sessionTimeoutMs": 6_000}
    connector = {"workerRef": {"name": "lake"}, "class": "noop", "tasksMax": 2, "config": {"units": 2}}
    manifests.write_text(
        yaml.safe_dump_all(
            [
                {**kind, "kind": "Worker", "metadata": {"name": "lake"}, "spec": worker},
                {**kind, "kind": "Connector", "metadata": {"name": "a"}, "spec": connector},
            ]
        )
    )

    def kubectl(*words: str) -> str:
        return installation.cluster.kubectl("-n", installation.namespace, *words)

    apply = ("apply", "--server-side", "--field-manager=argocd-controller", "-f", str(manifests))
    kubectl(*apply)
    kubectl("wait", "--for=condition=Ready", "worker/lake", "connector/a", "--timeout=90s")
    installation.settled()
    before = {kind: installation.get(kind, name) for kind, name in (("workers", "lake"), ("connectors", "a"))}
    kubectl(*apply)
    assert kubectl("diff", "--server-side", "--field-manager=argocd-controller", "-f", str(manifests)) == ""
    for kind, name in (("workers", "lake"), ("connectors", "a")):
        after = installation.get(kind, name)
        assert after["metadata"]["generation"] == before[kind]["metadata"]["generation"] == 1
        assert after["spec"] == before[kind]["spec"]
        owners = [
            each["manager"] for each in after["metadata"]["managedFields"] if not each.get("subresource")
        ]
        assert "argocd-controller" in owners
