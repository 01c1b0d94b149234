"""A Worker's children besides its pods, as manifests. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cooperator.controller.api.client import BUDGETS, SERVICES, Kind
from cooperator.controller.manifests.pods import Manifest, owner, port
from cooperator.controller.names import WORKER_LABEL
from cooperator.crd import Worker


def children(worker: Worker) -> Iterator[tuple[Kind, Manifest]]:
    """Yield a headless service, which gives members names even while they are not ready, and the disruption
    budget that delays evictions until the group has settled."""
    selector = {WORKER_LABEL: worker.metadata.name}
    at = port(worker)
    yield (
        SERVICES,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(worker),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": selector,
                "ports": [{"name": "member", "port": at, "targetPort": at, "protocol": "TCP"}],
            },
        },
    )
    if worker.spec.pod_disruption_budget:
        yield (
            BUDGETS,
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": _metadata(worker),
                "spec": {
                    "maxUnavailable": 1,
                    "selector": {"matchLabels": selector},
                    # A pod that is not ready holds nothing that an eviction could interrupt.
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",
                },
            },
        )


def _metadata(worker: Worker) -> Mapping[str, Any]:
    return {
        "name": worker.metadata.name,
        "namespace": worker.metadata.namespace,
        "labels": {"app.kubernetes.io/managed-by": "cooperator", WORKER_LABEL: worker.metadata.name},
        "ownerReferences": [owner(worker)],
    }


def references(template: Manifest) -> frozenset[tuple[str, str]]:
    """(Secret or ConfigMap, name) of all that a pod template reads: their changes change the template."""
    found: set[tuple[str, str]] = set()
    _walk(template.get("spec", {}), found)
    return frozenset(found)


_REFERENCES: Mapping[str, str] = {
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
    "configMap": "ConfigMap",
    "secret": "Secret",
}


_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
"""The API server refuses pods that refer to anything else."""


def _walk(value: Any, found: set[tuple[str, str]]) -> None:
    if isinstance(value, list):
        for entry in value:
            _walk(entry, found)
    elif isinstance(value, dict):
        for key, part in value.items():
            name = part.get("name") or part.get("secretName") if isinstance(part, dict) else None
            if key in _REFERENCES and isinstance(name, str) and _OBJECT_NAME.match(name):
                found.add((_REFERENCES[key], name))
            _walk(part, found)
