"""The charts as releases of a real cluster, installed with helm as a user would."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import run_helm
from tests.kubernetes.images import OPERATOR, WORKER

CHARTS = Path(__file__).parent.parent / "charts"
BEFORE = Path(__file__).parent / "before"
"""The previous releases of the charts, packed; tests upgrade from them."""
CRDS = "cooperator-crds"


@dataclass(frozen=True)
class Helm:
    """helm, as the cluster's administrator, in one namespace. Each method raises HelmFailed."""

    plane: ControlPlane
    namespace: str

    def install(self, release: str, chart: str | Path, **values: Any) -> str:
        """Install and wait until everything is ready."""
        return self._change("install", release, chart, values)

    def take_over(self, release: str, chart: str) -> str:
        """Install over objects that another release, or nobody, has."""
        return self._change("install", release, chart, {}, "--take-ownership")

    def upgrade(self, release: str, chart: str | Path, **values: Any) -> str:
        """Upgrade as docs/kubernetes.md says; earlier values stay set."""
        return self._change("upgrade", release, chart, values, "--reset-then-reuse-values")

    def uninstall(self, release: str) -> str:
        return self._run("uninstall", release, "--wait")

    def test(self, release: str) -> str:
        return self._run("test", release, "--timeout", "300s", "--logs")

    def _change(
        self, verb: str, release: str, chart: str | Path, values: Mapping[str, Any], *more: str
    ) -> str:
        remote = str(chart).startswith("oci://")
        where = chart if remote or isinstance(chart, Path) else CHARTS / chart
        more = (*more, *(["--plain-http"] if remote else []))
        options = ("--wait", "--timeout", "180s", "--values", "-", *more)
        return self._run(verb, release, str(where), *options, words=json.dumps(values))

    def _run(self, *arguments: str, words: str = "") -> str:
        where = ("--namespace", self.namespace)
        return run_helm(*arguments, *where, words=words, kubeconfig=self.plane.kubeconfig)


def packed(chart: str) -> Path:
    """The previous release of that chart."""
    [archive] = BEFORE.glob(f"{chart}-[0-9]*.tgz")
    return archive


def of_images() -> dict[str, Any]:
    """Values that name the images that the nodes have."""
    (repository, _, tag), (worker, _, worker_tag) = (image.rpartition(":") for image in (OPERATOR, WORKER))
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "worker": {"image": worker, "tag": worker_tag},
    }
