"""Real nodes on this machine: a kubelet, a containerd and a network bridge each, and a cluster of them.

    with Cluster.start(nodes=2) as cluster:
        cluster.plane.apply({...})
        cluster.nodes[0].freeze()

Needs root, and the packages that ``python3 run.py tests --yes`` installs. The nodes share this machine's
kernel, disk and clock; to the control plane they are machines of their own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.harness.support import freeze
from tests.kubernetes.api import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.image_store import Containerd, fill
from tests.kubernetes.names import DOMAIN, name_server
from tests.kubernetes.processes import Server, ServerFailed
from tests.kubernetes.proxy import service_proxy
from tests.kubernetes.slots import (
    Slot,
    claim_slot,
    command,
    end_all_below,
    hierarchies,
    make_bridge,
    pids_in,
    remove_cgroups,
)


class Node:
    """One node. ``up`` returns when Kubernetes calls it Ready; it ends in the ways that machines end."""

    def __init__(self, plane: ControlPlane, slot: Slot, number: int, names: str) -> None:
        """``names``: the address of the name server that pods ask; empty: none."""
        self.name = f"node{number}"
        self._names = names
        self._plane = plane
        self._slot = slot
        self._network = slot.node_network(number)
        self._bridge = slot.node_bridge(number)
        self._folder = slot.folder / self.name
        self._cgroup = f"{slot.cgroup}/{self.name}"
        self.address = f"{self._network}.1"
        self._kubeconfig = plane.authority.kubeconfig(plane.url, f"system:node:{self.name}", "system:nodes")
        self._serving = plane.authority.server(self.name, [self.name, self.address])
        self.containerd: Containerd | None = None
        self.kubelet: Server | None = None

    def up(self) -> None:
        """Start it; after ``kill`` or ``down`` again, under its old name and with nothing that it had."""
        self._begin_empty()
        containerd = Containerd(
            self._folder / "containerd", pod_network(self._bridge, self._network, self._folder / "addresses")
        )
        fill(containerd.folder)
        containerd.start()
        self.containerd = containerd
        self._start_kubelet(containerd)

    def down(self) -> None:
        """Take it out of the cluster: nothing of it runs, and its Node object is gone."""
        self.kill()
        if self._plane.api.exists(f"/api/v1/nodes/{self.name}"):
            self._plane.api.delete(f"/api/v1/nodes/{self.name}")

    def kill(self) -> None:
        """The machine loses its power: kubelet, containerd and every container, at once. Its objects stay."""
        for server in self._servers():
            server.kill()
        end_all_below(self._folder, self._cgroup)

    def freeze(self, *, containers: bool = False) -> None:
        """Its kubelet answers nobody, as on a machine whose network is gone; its containers run on.

        ``containers``: they stand still, too, as when the whole machine is stopped.
        """
        if self.kubelet is None:
            raise ServerFailed(f"{self.name} is not up")
        self.kubelet.freeze()
        if containers:
            freeze(*pids_in(self._cgroup))

    def thaw(self) -> None:
        """All of it goes on where it stood."""
        for pid in pids_in(self._cgroup):
            os.kill(pid, signal.SIGCONT)
        if self.kubelet is not None:
            self.kubelet.thaw()

    def tag(self, image: str, name: str) -> None:
        """Have an image under another name, too. A node that was killed has forgotten it."""
        if self.containerd is None:
            raise ServerFailed(f"{self.name} is not up")
        self.containerd.tag(image, name)

    def is_ready(self) -> bool:
        """As Kubernetes sees it."""
        return self._ready().get("status") == "True"

    def logs(self) -> str:
        return "\n".join(f"--- {self.name}: {server.name}\n{server.tail()}" for server in self._servers())

    def _servers(self) -> list[Server]:
        containerd = [self.containerd.server] if self.containerd is not None else []
        return [*([self.kubelet] if self.kubelet is not None else []), *containerd]

    def _begin_empty(self) -> None:
        if any(server.alive for server in self._servers()):
            raise ServerFailed(f"{self.name} is up already")
        end_all_below(self._folder, self._cgroup)
        if self._folder.exists():
            command("rm", "-rf", str(self._folder))
        self._folder.mkdir()
        remove_cgroups(self._cgroup)
        self._make_cgroups()
        if not os.path.exists(f"/sys/class/net/{self._bridge}"):
            # The node's address is the bridge's: a kubelet refuses a loopback address.
            make_bridge(self._bridge, f"{self.address}/20")

    def _make_cgroups(self) -> None:
        for root in hierarchies():
            folder = root / self._cgroup
            folder.mkdir(parents=True, exist_ok=True)
            for part in (folder.parent, folder):
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    # The old layout: empty in a new group, and then nothing can run in it.
                    if (part / setting).exists() and (root / "cpuset.sched_load_balance").exists():
                        (part / setting).write_text((root / setting).read_text())

    def _start_kubelet(self, containerd: Containerd) -> None:
        settings = self._folder / "kubelet.yaml"
        settings.write_text(yaml.safe_dump(self._kubelet_settings(containerd)))
        began = time.time()
        self.kubelet = Server(
            "kubelet",
            [
                self._plane.programs["kubelet"],
                f"--config={settings}",
                f"--kubeconfig={self._kubeconfig}",
                f"--root-dir={self._folder / 'kubelet'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
            ],
            self._folder / "kubelet.log",
        )
        self.kubelet.start()
        self.kubelet.wait_until(lambda: self._heard_since(began))

    def _heard_since(self, time_s: float) -> bool:
        """Ready, and not by the word of an earlier incarnation."""
        ready = self._ready()
        return ready.get("status") == "True" and _seconds(ready["lastHeartbeatTime"]) >= int(time_s)

    def _ready(self) -> dict[str, Any]:
        """Its condition Ready; nothing while it is not known."""
        try:
            node = self._plane.api.get(f"/api/v1/nodes/{self.name}")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        found: list[dict[str, Any]] = node["status"].get("conditions", [])
        return next((each for each in found if each["type"] == "Ready"), {})

    def _kubelet_settings(self, containerd: Containerd) -> dict[str, Any]:
        authority = self._plane.authority.own.certificate
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": 10250,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "containerRuntimeEndpoint": f"unix://{containerd.socket}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(self._serving.certificate),
            "tlsPrivateKeyFile": str(self._serving.key),
            # A group of its own: two kubelets in one would remove each other's pods.
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "resolvConf": "",
            **({"clusterDNS": [self._names], "clusterDomain": DOMAIN} if self._names else {}),
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self._folder / "pod-logs"),
            # Memory and disk are the developer's: how full they are says nothing about the node (as in kind).
            "evictionHard": {
                "memory.available": "0%",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "4s",
            "syncFrequency": "10s",
        }


class Cluster:
    """A control plane with all its parts, and nodes whose pods can reach it, each other and services."""

    def __init__(self, plane: ControlPlane, slot: Slot, services: bool) -> None:
        self.plane = plane
        self._names = slot.address if services else ""
        self.nodes: list[Node] = []
        # They share this machine's disk.
        self.shared_root = Path(tempfile.gettempdir())
        self.slot = slot

    @staticmethod
    @contextmanager
    def start(nodes: int = 1, *, services: bool = True) -> Iterator[Cluster]:
        """All parts ready, ``nodes`` nodes Ready; everything is ended and removed at the end of the block.

        ``services``: pods reach services by their addresses (kube-proxy) and names (``names``), so that
        in-cluster configuration works; one cluster of a machine can have that at a time.
        Raises NoKubernetes, NoImages, ServerFailed.
        """
        if os.geteuid() != 0:
            raise ServerFailed("nodes need root: they make bridges, mounts and control groups")
        with (
            claim_slot() as slot,
            ControlPlane.start(
                controllers=True, scheduler=True, host=slot.address, service_subnet=slot.service_subnet
            ) as plane,
        ):
            cluster = Cluster(plane, slot, services)
            try:
                for _ in range(nodes):
                    cluster.add_node()
                with (
                    name_server(plane.api, slot.address) if services else nullcontext(),
                    service_proxy(plane, slot, services),
                ):
                    yield cluster
            except BaseException:
                sys.stderr.write("\n".join(node.logs() for node in cluster.nodes) + "\n")
                raise
            finally:
                for node in cluster.nodes:
                    node.kill()

    def logs(self) -> str:
        return "\n".join([self.plane.logs(), *(node.logs() for node in self.nodes)])

    def add_node(self) -> Node:
        """One more, up and Ready."""
        node = Node(self.plane, self.slot, len(self.nodes) + 1, self._names)
        self.nodes.append(node)
        node.up()
        return node


def pod_network(bridge: str, network: str, addresses: Path) -> str:
    """Settings of CNI's plug-in for a node, which is .1 of ``network`` (three parts of a /20).

    ``addresses``: the folder in which the plug-in lists those of pods.
    """
    ranges = [[{"subnet": f"{network}.0/20", "gateway": f"{network}.1"}]]
    plugin = {
        "type": "bridge",
        "bridge": bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(addresses),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]})


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
