"""The charts, rendered by helm."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.helm import run_helm

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "charts" / "cooperator"
CRDS = ROOT / "charts" / "cooperator-crds"

Manifest = Mapping[str, Any]

EVERYTHING: Mapping[str, Any] = {
    "bootstrapServers": "kafka:9092",
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "admissionPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
}
"""Values that switch on every optional feature."""
CLUSTERWIDE: Mapping[str, Any] = {"clusterWide": True}
NAMESPACED: Mapping[str, Any] = {"namespaces": ["a", "b"]}
CONFINED: Mapping[str, Any] = {**NAMESPACED, "clusterRights": False, "clusterName": "here"}
MODES: Mapping[str, Mapping[str, Any]] = {
    "by default": {},
    "of the cluster": CLUSTERWIDE,
    "of the cluster, Secrets of some": {**CLUSTERWIDE, "secretNamespaces": ["a", "b"]},
    "of namespaces": NAMESPACED,
    "of namespaces, blind": CONFINED,
}


@dataclass(frozen=True)
class Release:
    """A release of the operator's chart."""

    name: str = "cooperator"
    namespace: str = "home"
    chart: Path = OPERATOR

    def manifests(self, values: Mapping[str, Any] | None = None) -> list[Manifest]:
        """Raises HelmFailed."""
        text = _run(self, "template", json.dumps(values or {}))
        # The parser of libyaml takes a seventh of the time.
        return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]

    def notes(self, values: Mapping[str, Any] | None = None) -> str:
        """The notes at the end of an installation. Raises HelmFailed."""
        text = _run(self, "install", json.dumps(values or {}))
        return text.partition("\nNOTES:\n")[2]

    def one(self, kind: str, values: Mapping[str, Any] | None = None) -> Any:
        """The only manifest of that kind, except for the pod of ``helm test``."""
        [found] = [manifest for manifest in self.manifests(values) if manifest["kind"] == kind]
        return found

    def operator_pod(self, values: Mapping[str, Any] | None = None) -> Any:
        return self.one("Deployment", values)["spec"]["template"]

    def operator_container(self, values: Mapping[str, Any] | None = None) -> Any:
        [container] = self.operator_pod(values)["spec"]["containers"]
        return container


@cache
def _run(release: Release, command: str, values: str) -> str:
    more = ["--dry-run=client"] if command == "install" else []
    return run_helm(
        *(command, release.name, str(release.chart), "--namespace", release.namespace, "--values", "-"),
        *more,
        words=values,
    )


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Any]]:
    """Kind and pod (its ``spec`` and ``metadata``) of all manifests that create pods."""
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            yield "Pod", manifest
        elif "template" in manifest.get("spec", {}):
            yield manifest["kind"], manifest["spec"]["template"]


def selects(selector: Mapping[str, str], pod: Manifest) -> bool:
    labels: Mapping[str, str] = pod["metadata"]["labels"]
    return selector.items() <= labels.items()
