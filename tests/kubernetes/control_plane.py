"""A Kubernetes control plane of a test's own: etcd, API server, and, if wanted, what acts on its objects.

Ready in seconds, without root. Several can live side by side: each has its own ports, certificates and
folder. Nothing here runs pods; for that see ``nodes``.
"""

from __future__ import annotations

import ipaddress
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.runs import begin_run
from tests.kubernetes.api import Api, ApiError
from tests.kubernetes.binaries import Binaries, binaries
from tests.kubernetes.certificates import Authority
from tests.kubernetes.processes import Server, free_ports, said


class ControlPlane:
    """A running control plane; made by ``ControlPlane.start``.

    ``kubeconfig``: of an administrator, whom nothing is forbidden. ``api``: the same as a client.
    ``api_server`` and the others are the processes, to be killed, frozen and started again by tests.
    """

    def __init__(self, folder: Path, programs: Binaries, host: str, service_subnet: str) -> None:
        self.folder = folder
        self.host = host
        self.service_subnet = service_subnet
        self.programs = programs
        self.authority = Authority(folder / "certificates")
        self.etcd_port, peer_port, port, self._manager_port, self._scheduler_port = self._ports()
        self.url = f"https://{host}:{port}"
        self.kubeconfig = self.authority.kubeconfig(self.url, "admin", "system:masters")
        self.api = Api(self.kubeconfig)
        self._accounts = self.authority.service_account_keys()
        self._peer_port = peer_port
        self._port = port
        self.etcd = self._server("etcd", self._etcd_arguments())
        self.api_server = self._server("kube-apiserver", self._api_server_arguments())
        self.controller_manager = self._server("kube-controller-manager", self._manager_arguments())
        self.scheduler = self._server("kube-scheduler", self._scheduler_arguments())

    @staticmethod
    @contextmanager
    def start(
        *,
        controllers: bool = False,
        scheduler: bool = False,
        host: str = "127.0.0.1",
        service_subnet: str = "10.96.0.0/16",
    ) -> Iterator[ControlPlane]:
        """etcd and the API server, ready; ended and thrown away at the end of the block.

        ``controllers``: with kube-controller-manager (service accounts, garbage collection, namespaces that
        can be deleted, dead nodes, persistent volumes). ``scheduler``: pods get nodes. ``host``: the address
        to listen on, one that pods reach if there are any. Raises NoKubernetes, ServerFailed.
        """
        # Benchmarks start one, too.
        sys.stderr.write(begin_run())
        folder = Path(tempfile.mkdtemp(prefix="cooperator-kubernetes-"))
        plane = ControlPlane(folder, binaries(), host, service_subnet)
        try:
            plane.etcd.start()
            plane.start_api_server()
            if controllers:
                plane.controller_manager.start()
            if scheduler:
                plane.scheduler.start()
            if controllers:
                plane.controller_manager.wait_until(plane._has_default_account)
            yield plane
        except BaseException:
            # Where the test says why it failed; pytest shows it.
            sys.stderr.write(plane.logs() + "\n")
            raise
        finally:
            for server in plane.servers:
                server.kill()
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def servers(self) -> tuple[Server, ...]:
        return (self.scheduler, self.controller_manager, self.api_server, self.etcd)

    def start_api_server(self) -> None:
        """Start it, or start it again: same port, same certificates, same data. Returns when it is ready."""
        self.api_server.start()
        self.api_server.wait_until(self.is_ready)

    def restart_api_server(self) -> None:
        """-9 and a new one: every watch and every request that is under way is cut off."""
        self.api_server.kill()
        self.start_api_server()

    def is_ready(self) -> bool:
        try:
            return self.api.text("/readyz", timeout_s=2) == "ok"
        except (ApiError, OSError):
            return False

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Returns what kubectl prints, as the administrator. Raises CalledProcessError with its words."""
        program, where = str(self.programs["kubectl"]), f"--kubeconfig={self.kubeconfig}"
        return said(program, where, *arguments, stdin=stdin, timeout_s=120)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Create or change, as the administrator, as ``kubectl apply --server-side`` does."""
        for manifest in manifests:
            self.api.apply(manifest)

    def kubeconfig_of(self, namespace: str, service_account: str, duration_s: int = 3600) -> Path:
        """A kubeconfig for a process outside the cluster: it has that service account's rights only."""
        answer = self.api.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": duration_s},
            },
        )
        token: str = answer["status"]["token"]
        return self.authority.token_kubeconfig(self.url, f"{namespace}-{service_account}", token)

    def logs(self) -> str:
        """The end of each part's log."""
        return "\n".join(
            f"--- {server.name} (all of it while it runs: {server.log})\n{server.tail()}"
            for server in self.servers
            if server.log.exists()
        )

    def _has_default_account(self) -> bool:
        return self.api.exists("/api/v1/namespaces/default/serviceaccounts/default")

    # --- how the parts are called ---

    def _ports(self) -> list[int]:
        ports = free_ports(4)
        return [*ports[:2], *free_ports(1, self.host), *ports[2:]]

    def _server(self, name: str, arguments: Sequence[str]) -> Server:
        return Server(name, [self.programs[name], *arguments], self.folder / f"{name}.log")

    def _etcd_arguments(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self._peer_port))
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # Only a crash of the machine would lose something, and that ends the test as well.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_arguments(self) -> list[str]:
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
        serving = self.authority.server(
            "kube-apiserver", [*names, "127.0.0.1", self.host, _first_address(self.service_subnet)]
        )
        to_kubelets = self.authority.client("kube-apiserver-kubelet-client", "system:masters")
        return [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--bind-address={self.host}",
            f"--advertise-address={self.host}",
            f"--secure-port={self._port}",
            # A loopback address is not accepted as an endpoint of the service "kubernetes".
            f"--endpoint-reconciler-type={'none' if self.host.startswith('127.') else 'lease'}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.own.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._accounts.certificate}",
            f"--service-account-signing-key-file={self._accounts.key}",
            f"--service-cluster-ip-range={self.service_subnet}",
            "--authorization-mode=Node,RBAC",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _manager_arguments(self) -> list[str]:
        kubeconfig = self.authority.kubeconfig(self.url, "system:kube-controller-manager")
        return [
            *_as_client(kubeconfig, self._manager_port),
            "--use-service-account-credentials=true",
            f"--root-ca-file={self.authority.own.certificate}",
            f"--service-account-private-key-file={self._accounts.key}",
            # Volumes are folders of this machine.
            "--enable-hostpath-provisioner=true",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            # Half of the default: tests wait for it.
            "--node-monitor-grace-period=20s",
        ]

    def _scheduler_arguments(self) -> list[str]:
        kubeconfig = self.authority.kubeconfig(self.url, "system:kube-scheduler")
        return _as_client(kubeconfig, self._scheduler_port)


def _as_client(kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--leader-elect=false",
        # The defaults are made for clusters that many share.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def _first_address(subnet: str) -> str:
    return str(next(ipaddress.ip_network(subnet).hosts()))
