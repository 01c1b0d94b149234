"""The cluster of the end-to-end tests on kind, where a container engine can run it: ``make e2e`` decides.

The same as ``nodes.Cluster`` to who uses it: a control plane, two nodes that end in the ways that machines
end, and the images of the root Dockerfile, built by the engine. It needs no root, and kubectl on the PATH.

NOT TRIED where this was written: no engine runs there, and no image can be pulled.
"""

from __future__ import annotations

import base64
import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from cooperator.artifacts.bundles import KAFKA_VERSION
from tests.kubernetes.api import Api
from tests.kubernetes.caches import cache_folder
from tests.kubernetes.images import BUSYBOX, KAFKA, OPERATOR, WORKER
from tests.kubernetes.processes import documents, said

_ROOT: Final = Path(__file__).parents[2]
_ENGINE: Final = "docker"
_SMALL: Final = "busybox:stable-musl"
_KAFKA: Final = f"apache/kafka:{KAFKA_VERSION}"
_WAIT: Final = "180s"


class KindPlane:
    """The part of ``ControlPlane`` that end-to-end tests use. ``host``: this machine, as pods reach it."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(_with_files(yaml.safe_load(kubeconfig), folder)))
        self.api = Api(self.kubeconfig)
        self.host = _gateway()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return said("kubectl", "--kubeconfig", str(self.kubeconfig), *arguments, stdin=stdin)

    def apply(self, *manifests: dict[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", stdin=documents(manifests))

    def logs(self) -> str:
        return self.kubectl("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")


class KindNode:
    """One container of kind's."""

    def __init__(self, plane: KindPlane, name: str) -> None:
        self.name = name
        self._plane = plane

    def freeze(self, *, containers: bool = False) -> None:
        if containers:
            said(_ENGINE, "pause", self.name)
        else:
            self._signal_kubelet("SIGSTOP")

    def thaw(self) -> None:
        if said(_ENGINE, "inspect", "--format", "{{.State.Paused}}", self.name).strip() == "true":
            said(_ENGINE, "unpause", self.name)
        else:
            self._signal_kubelet("SIGCONT")

    def kill(self) -> None:
        """The machine loses its power; its objects stay."""
        said(_ENGINE, "kill", self.name)

    def up(self) -> None:
        said(_ENGINE, "start", self.name)
        self._plane.kubectl("wait", "--for=condition=Ready", f"node/{self.name}", f"--timeout={_WAIT}")

    def tag(self, image: str, name: str) -> None:
        """Have an image under another name, too."""
        said(
            *(_ENGINE, "exec", self.name, "ctr", "--namespace", "k8s.io"),
            *("images", "tag", "--force", image, name),
        )

    def is_ready(self) -> bool:
        conditions = self._plane.api.get(f"/api/v1/nodes/{self.name}")["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _signal_kubelet(self, signal: str) -> None:
        said(_ENGINE, "exec", self.name, "systemctl", "kill", f"--signal={signal}", "kubelet")


class KindCluster:
    """``shared_root``: a folder of this machine that each node has at the same path."""

    def __init__(self, plane: KindPlane, nodes: list[KindNode], shared_root: Path) -> None:
        self.plane = plane
        self.nodes = nodes
        self.shared_root = shared_root

    def logs(self) -> str:
        return self.plane.logs()

    @staticmethod
    @contextmanager
    def start() -> Iterator[KindCluster]:
        """All parts ready, images loaded; gone at the end of the block."""
        name = f"cooperator-{uuid.uuid4().hex[:8]}"
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as made:
            folder = Path(made)
            shared = folder / "shared"
            shared.mkdir(mode=0o777)
            kubeconfig = folder / "kubeconfig"
            _build()
            try:
                said(
                    *("kind", "create", "cluster", "--name", name, "--kubeconfig", str(kubeconfig)),
                    *("--config", "-", "--wait", _WAIT),
                    stdin=yaml.safe_dump(_configuration([shared, cache_folder("versitygw")])),
                )
                said("kind", "load", "docker-image", OPERATOR, WORKER, BUSYBOX, KAFKA, "--name", name)
                plane = KindPlane(folder, kubeconfig.read_text())
                nodes = [KindNode(plane, f"{name}-worker{number}") for number in ("", "2")]
                yield KindCluster(plane, nodes, shared)
            finally:
                said("kind", "delete", "cluster", "--name", name)


def _configuration(mounts: list[Path]) -> dict[str, Any]:
    """Two nodes for pods. A path that is mounted is the same inside and outside."""
    shared = [{"hostPath": str(each), "containerPath": str(each)} for each in mounts]
    worker = {"role": "worker", "extraMounts": shared}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane"}, worker, worker],
    }


def _build() -> None:
    for target, image in (("operator", OPERATOR), ("worker", WORKER)):
        said(_ENGINE, "build", "--target", target, "--tag", image, str(_ROOT))
    for image, name in ((_SMALL, BUSYBOX), (_KAFKA, KAFKA)):
        said(_ENGINE, "pull", image)
        said(_ENGINE, "tag", image, name)


def _gateway() -> str:
    """The gateway of the engine's network: containers reach this machine there."""
    [network] = json.loads(said(_ENGINE, "network", "inspect", "kind"))
    gateways: list[str] = [entry.get("Gateway", "") for entry in network["IPAM"]["Config"]]
    return next(gateway for gateway in gateways if "." in gateway)


def _with_files(kubeconfig: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what it has inside, as files beside it: the tests' client reads those."""
    for entries, kind in (("clusters", "cluster"), ("users", "user")):
        for entry in kubeconfig[entries]:
            for name in [name for name in entry[kind] if name.endswith("-data")]:
                path = folder / name.removesuffix("-data")
                path.touch(0o600)
                path.write_bytes(base64.b64decode(entry[kind].pop(name)))
                entry[kind][path.name] = str(path)
    return kubeconfig
