"""A Worker's children besides its pods, as manifests. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cooperator.controller.api.client import BUDGETS, SERVICES, Kind
from cooperator.controller.manifests.leader_ca import config_map
from cooperator.controller.manifests.pods import Manifest, owner, port
from cooperator.controller.names import WORKER_LABEL
from cooperator.crd import Worker


def children(worker: Worker, leader_ca_pem: bytes = b"") -> Iterator[tuple[Kind, Manifest]]:
    """Yield a headless service, which gives members names even while they are not ready, the disruption
    budget that delays evictions until the group has settled, and the leader's CA if there is one."""
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
    if leader_ca_pem:
        yield config_map(worker, leader_ca_pem, owner(worker))


def _metadata(worker: Worker) -> Mapping[str, Any]:
    return {
        "name": worker.metadata.name,
        "namespace": worker.metadata.namespace,
        "labels": {"app.kubernetes.io/managed-by": "cooperator", WORKER_LABEL: worker.metadata.name},
        "ownerReferences": [owner(worker)],
    }


def references(template: Manifest) -> frozenset[tuple[str, str]]:
    """(kind, name) of each Secret and ConfigMap that a pod template refers to; a change of their contents
    rolls the pods.

    Only the fields of a pod that refer to one are looked at, and only names that an object can have count:
    the operator reads what this returns, and the author of a Worker chooses everything else.
    """
    return frozenset(
        (kind, name)
        for kind, name in _references(template.get("spec", {}))
        if isinstance(name, str) and _OBJECT_NAME.match(name)
    )


_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
"""The API server rejects other names."""


def _references(spec: Any) -> Iterator[tuple[str, Any]]:
    for list_name in ("initContainers", "containers"):
        for container in _mappings(spec, list_name):
            for variable in _mappings(container, "env"):
                source = variable.get("valueFrom")
                yield "Secret", _within(source, "secretKeyRef", "name")
                yield "ConfigMap", _within(source, "configMapKeyRef", "name")
            for source in _mappings(container, "envFrom"):
                yield "Secret", _within(source, "secretRef", "name")
                yield "ConfigMap", _within(source, "configMapRef", "name")
    for volume in _mappings(spec, "volumes"):
        yield "Secret", _within(volume, "secret", "secretName")
        for source in (volume, *_mappings(volume.get("projected"), "sources")):
            yield "ConfigMap", _within(source, "configMap", "name")
        for source in _mappings(volume.get("projected"), "sources"):
            yield "Secret", _within(source, "secret", "name")


def _mappings(value: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """The mappings in a list field; empty if the field is missing or not a list."""
    entries = value.get(name) if isinstance(value, Mapping) else None
    return [e for e in entries if isinstance(e, Mapping)] if isinstance(entries, list | tuple) else []


def _within(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
