"""An S3 store in the cluster: a test's nodes share one disk, which would hide misplaced checkpoints."""

from typing import Any

from obstore.store import S3Store

from tests.harness.support import eventually
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.nodes import Cluster
from tests.runtime.s3_server import S3Server, bucket_client, program

PORT = 7070
SECRET = "lake-store"


class Store:
    """Runs on the first node, in a namespace of its own; the program is this machine's."""

    def __init__(self, nodes: Cluster, namespace: str) -> None:
        self._plane: ControlPlane = nodes.plane
        self.namespace = f"{namespace}-store"
        make_namespace(self._plane, self.namespace, "privileged")
        self._plane.apply(self._pod(nodes.nodes[0].name), self._service())
        path = f"/api/v1/namespaces/{self.namespace}"
        address = self._plane.api.get(f"{path}/services/store")["spec"]["clusterIP"]
        self.environment = {**S3Server.KEYS, "AWS_ENDPOINT_URL_S3": f"http://{address}:{PORT}"}
        eventually(lambda: self._is_ready(f"{path}/pods/store"), 120, "the store is up")

    def give_to(self, namespace: str) -> None:
        """Create a Secret with address and credentials."""
        self._plane.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET, "namespace": namespace},
                "stringData": self.environment,
            }
        )

    def client(self) -> S3Store:
        """The bucket, as this machine reads it."""
        return bucket_client(self.environment)

    def close(self) -> None:
        self._plane.api.delete(f"/api/v1/namespaces/{self.namespace}")

    def _is_ready(self, pod: str) -> bool:
        found: list[dict[str, Any]] = self._plane.api.get(pod)["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    def _pod(self, node: str) -> dict[str, Any]:
        where = program()
        keys = {"ROOT_ACCESS_KEY": "AWS_ACCESS_KEY_ID", "ROOT_SECRET_KEY": "AWS_SECRET_ACCESS_KEY"}
        data = {"name": "data", "mountPath": "/data"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "store", "namespace": self.namespace, "labels": {"app": "store"}},
            "spec": {
                "nodeName": node,
                "initContainers": [
                    {
                        "name": "bucket",
                        "image": BUSYBOX,
                        "imagePullPolicy": "Never",
                        "args": ["mkdir", "-p", f"/data/{S3Server.bucket}"],
                        "volumeMounts": [data],
                    }
                ],
                "containers": [
                    {
                        "name": "store",
                        "image": BUSYBOX,
                        "imagePullPolicy": "Never",
                        "command": [f"/store/{where.name}", "--port", f":{PORT}", "posix", "/data"],
                        "env": [
                            {"name": "HOME", "value": "/data"},
                            *(
                                {"name": theirs, "value": S3Server.KEYS[ours]}
                                for theirs, ours in keys.items()
                            ),
                        ],
                        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                        "volumeMounts": [data, {"name": "program", "mountPath": "/store", "readOnly": True}],
                    }
                ],
                "volumes": [
                    {"name": "data", "emptyDir": {}},
                    {"name": "program", "hostPath": {"path": str(where.parent)}},
                ],
            },
        }

    def _service(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "store", "namespace": self.namespace},
            "spec": {"selector": {"app": "store"}, "ports": [{"port": PORT}]},
        }
