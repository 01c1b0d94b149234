"""The addresses of services: kube-proxy, once for all nodes of a cluster, since they share one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import yaml

from tests.kubernetes.caches import locked
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.processes import Server, free_ports
from tests.kubernetes.slots import Slot, delete_service_tables, serves

LIMIT_S: Final = 600.0
"""Shorter than the 900 s that a test has, so that it fails with the reason."""


@contextmanager
def service_proxy(plane: ControlPlane, slot: Slot, wanted: bool) -> Iterator[None]:
    """While the block runs, services can be reached by their addresses, from pods and from this machine.

    Waits while another cluster's can, and raises LockHeld if it goes on: kube-proxy's table in the kernel has
    a fixed name.
    """
    if not wanted:
        yield
        return
    with (
        locked(
            slot.folder.parent / "services.lock",
            "the addresses of services, which one cluster of a machine can have at a time",
            limit_s=LIMIT_S,
            remedy="end it, or start this cluster with services=False",
        ),
        _running(plane, slot),
    ):
        yield


@contextmanager
def _running(plane: ControlPlane, slot: Slot) -> Iterator[None]:
    health, metrics = free_ports(2)
    settings = plane.folder / "kube-proxy.yaml"
    settings.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "nftables",
                "bindAddress": slot.address,
                "healthzBindAddress": f"127.0.0.1:{health}",
                "metricsBindAddress": f"127.0.0.1:{metrics}",
                "clientConnection": {
                    "kubeconfig": str(plane.authority.kubeconfig(plane.url, "system:kube-proxy"))
                },
                "hostnameOverride": "node1",
                "clusterCIDR": slot.pod_subnet,
                # Kernel settings of the machine are the machine's.
                "conntrack": {"maxPerCore": 0, "min": 0},
                "nftables": {"minSyncPeriod": "0s"},
            }
        )
    )
    command = [plane.programs["kube-proxy"], f"--config={settings}"]
    server = Server("kube-proxy", command, plane.folder / "kube-proxy.log")
    server.start()
    try:
        server.wait_until(lambda: serves(slot))
        yield
    finally:
        server.kill()
        delete_service_tables()
