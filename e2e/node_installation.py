"""A namespace of a cluster with real nodes: operator and members are pods under the restricted profile."""

import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.observed import Observed
from e2e.release import Helm, of_images
from tests.harness.installation import Namespace
from tests.harness.support import eventually
from tests.kubernetes.fixtures import make_namespace
from tests.kubernetes.helm import HelmFailed
from tests.kubernetes.nodes import Cluster


@dataclass
class NodeNamespace(Namespace):
    """``shared`` is a folder of this machine that every member sees as /checkpoints."""

    nodes: Cluster
    shared: Path = field(init=False)
    helm: Helm = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_namespace(self.cluster, self.namespace, "restricted")
        self.shared = Path(tempfile.mkdtemp(prefix="cooperator-shared-", dir=self.nodes.shared_root))
        self.shared.chmod(0o777)
        self.journal.path = self.shared / "journal.jsonl"
        self.helm = Helm(self.cluster, self.namespace)
        self._volume()

    @property
    def journal_path(self) -> str:
        return "/checkpoints/journal.jsonl"

    def _volume(self) -> None:
        """Both nodes have this machine's disk, so a folder of it is a volume that many nodes can write."""
        modes, amount = ["ReadWriteMany"], {"storage": "1Gi"}
        self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": self.namespace},
                "spec": {
                    "accessModes": modes,
                    "capacity": amount,
                    "hostPath": {"path": str(self.shared)},
                    "storageClassName": "",
                    "claimRef": {"namespace": self.namespace, "name": "checkpoints"},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "checkpoints", "namespace": self.namespace},
                "spec": {
                    "accessModes": modes,
                    "resources": {"requests": amount},
                    "storageClassName": "",
                    "volumeName": self.namespace,
                },
            },
        )

    def operator(self, **values: Any) -> None:
        """Install the chart for this namespace, on the first node, as a user that the image does not know."""
        worker = {**self.values["worker"], **values.pop("worker", {})}
        self.helm.install("cooperator", "cooperator", **{**self.values, **values, "worker": worker})

    @property
    def values(self) -> dict[str, Any]:
        return {
            **of_images(),
            "bootstrapServers": self.bootstrap_servers,
            "clusterName": f"tests-{self.namespace}",
            "namespaces": [self.namespace],
            "leaderElection": {"leaseDurationMs": 5_000},
            "nodeSelector": {"kubernetes.io/hostname": self.nodes.nodes[0].name},
            "podSecurityContext": {"runAsUser": 1_000_650_000},
        }

    def pool(self, name: str = "lake", inline: bool = True, **spec: Any) -> None:
        """Create a Worker with the shared folder. ``inline`` members, for scheduling, have no Spark."""
        said = {
            "imagePullPolicy": "Never",
            "checkpointVolume": {"claimName": "checkpoints"},
            "zoneLabel": "kubernetes.io/hostname",
            **spec,
        }
        if inline:
            env = [{"name": "COOPERATOR_RUNTIME", "value": "inline"}]
            said["template"] = {"spec": {"containers": [{"name": "worker", "env": env}]}}
        self.worker(name, **said)

    def observed(self, worker: str = "lake") -> Observed:
        """The records that its members write about their tasks."""
        return Observed(self.bootstrap_servers, f"cooperator-{self.namespace}.{worker}")

    def node_of(self, pod: str) -> str:
        node: str = self.pods()[pod]["spec"]["nodeName"]
        return node

    def execute(self, pod: str, *command: str) -> None:
        """Run a command in the member's container."""
        self.cluster.kubectl("exec", "-n", self.namespace, pod, "-c", "worker", "--", *command)

    def close(self) -> None:
        for pod in self.pods():
            text = self._logs(pod)
            # pytest shows this when the test has failed.
            print(f"--- {pod}", *text.splitlines()[-40:], sep="\n")
        doubled = self.journal.doubled()
        with suppress(HelmFailed):
            # Remove what the release has outside of the namespace; a test may have done so already.
            self.helm.uninstall("cooperator")
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}")
        # All leave at the same time, and no member is left to take over.
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", {"gracePeriodSeconds": 1})
        eventually(lambda: not self.pods(), 150, "all pods of the test have gone")
        self.cluster.api.delete(f"/api/v1/persistentvolumes/{self.namespace}")
        assert doubled == []

    def _logs(self, pod: str) -> str:
        try:
            return self.cluster.kubectl("logs", "-n", self.namespace, pod, "--tail=60")
        except subprocess.CalledProcessError as error:
            return f"no log: {error}"
