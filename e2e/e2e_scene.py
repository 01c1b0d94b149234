"""A namespace of a cluster with real nodes: operator and members are pods, restricted as far as can be."""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller_scene import Place
from support import eventually
from tests.kubernetes.fixtures import make_namespace
from tests.kubernetes.images import OPERATOR, WORKER
from tests.kubernetes.nodes import Cluster

_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass
class RealPlace(Place):
    """``shared``: a folder of this machine that every member finds under /checkpoints."""

    nodes: Cluster
    shared: Path = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        make_namespace(self.cluster, self.namespace, "restricted")
        self.shared = Path(tempfile.mkdtemp(prefix="cooperator-shared-"))
        self.shared.chmod(0o777)
        self.journal.path = self.shared / "journal.jsonl"
        self._volume()
        self.grant()

    @property
    def journal_path(self) -> str:
        return "/checkpoints/journal.jsonl"

    def _volume(self) -> None:
        """Both nodes have this machine's disk, so a folder of it is a volume that many nodes write to."""
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

    def operator(self, replicas: int = 1) -> None:
        """As the chart makes it, under the chart's rights, of the operator's image, on the first node."""
        labels = {"app": "operator"}
        container = {
            "name": "operator",
            "image": OPERATOR,
            "imagePullPolicy": "Never",
            "args": [
                "operator",
                f"--namespace={self.namespace}",
                f"--image={WORKER}",
                f"--bootstrap-servers={self.bootstrap_servers}",
                f"--cluster=tests-{self.namespace}",
                "--lease-seconds=5",
            ],
            "env": [
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in (
                    ("POD_NAME", "metadata.name"),
                    ("POD_NAMESPACE", "metadata.namespace"),
                    ("POD_IP", "status.podIP"),
                )
            ],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 20},
            "securityContext": _SECURITY,
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
        self.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "operator", "namespace": self.namespace},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "serviceAccountName": "operator",
                            "terminationGracePeriodSeconds": 20,
                            "securityContext": {
                                "runAsNonRoot": True,
                                "seccompProfile": {"type": "RuntimeDefault"},
                            },
                            "nodeName": self.nodes.nodes[0].name,
                            "containers": [container],
                            "volumes": [{"name": "tmp", "emptyDir": {}}],
                        },
                    },
                },
            }
        )

    def pool(self, name: str = "lake", inline: bool = True, **spec: Any) -> None:
        """A Worker whose members have the shared folder. ``inline``: without Spark, for what schedules."""
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

    def node_of(self, pod: str) -> str:
        node: str = self.pods()[pod]["spec"]["nodeName"]
        return node

    def execute(self, pod: str, *command: str) -> None:
        """In the member's container."""
        self.cluster.kubectl("exec", "-n", self.namespace, pod, "-c", "worker", "--", *command)

    def close(self) -> None:
        for pod in self.pods():
            text = self._logs(pod)
            # Shown by pytest when the test has failed.
            print(f"--- {pod}", *text.splitlines()[-40:], sep="\n")
        doubled = self.journal.doubled()
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}")
        # All leave at the same time, and nobody is there to take over.
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", {"gracePeriodSeconds": 1})
        eventually(lambda: not self.pods(), 150, "all pods of the test have gone")
        self.cluster.api.delete(f"/api/v1/persistentvolumes/{self.namespace}")
        assert doubled == []

    def _logs(self, pod: str) -> str:
        try:
            return self.cluster.kubectl("logs", "-n", self.namespace, pod, "--tail=60")
        except subprocess.CalledProcessError as error:
            return f"no log: {error}"
