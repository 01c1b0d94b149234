"""A namespace of a real API server, an operator under its own rights, members as processes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from cooperator.local.settings import free_port
from tests.harness.api_proxy import ApiProxy
from tests.harness.forked import ForkedProcess
from tests.harness.health import Statuses
from tests.harness.journal import Journal
from tests.harness.kubelet import Kubelet
from tests.harness.support import eventually, freeze
from tests.kubernetes.api import ApiError
from tests.kubernetes.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "cooperator" / "files"
RESOURCES = "/apis/cooperator.dev/v1alpha1/namespaces"


@dataclass
class OperatorProcess:
    """``url`` serves health and metrics, with a final slash; empty if there is none."""

    child: subprocess.Popen[bytes] | ForkedProcess
    log: Path
    url: str = ""

    def kill(self) -> None:
        """Send SIGKILL, as if its machine had died."""
        self.child.kill()
        self.child.wait(30)

    def terminate(self) -> int:
        self.child.terminate()
        return self.child.wait(60)

    def freeze(self) -> None:
        freeze(self.child.pid)

    def thaw(self) -> None:
        os.kill(self.child.pid, signal.SIGCONT)


@dataclass
class Namespace:
    """A namespace and helpers for it. ``journal`` has what ran where, as the members reported it."""

    cluster: ControlPlane
    namespace: str
    bootstrap_servers: str
    directory: Path
    journal: Journal = field(init=False)
    statuses: Statuses = field(default_factory=Statuses, init=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.directory / "journal.jsonl")

    @property
    def journal_path(self) -> str:
        """The journal's path in members."""
        return str(self.journal.path)

    # --- resources ---

    def worker(self, name: str = "lake", **spec: Any) -> None:
        said = {
            "replicas": 3,
            "scheduledRebalanceMaxDelayMs": 60_000,
            "heartbeatIntervalMs": 1_000,
            "sessionTimeoutMs": 6_000,
            **spec,
        }
        self.cluster.apply(self._resource("Worker", name, said))

    def connector(self, name: str, worker: str = "lake", **spec: Any) -> None:
        noop = {"journal": self.journal_path, "units": 6} if spec.get("class", "noop") == "noop" else {}
        config = {**noop, **spec.pop("config", {})}
        said = {"workerRef": {"name": worker}, "class": "noop", "tasksMax": 3, "config": config, **spec}
        self.cluster.apply(self._resource("Connector", name, said))

    def _resource(self, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": dict(spec),
        }

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """The resource. Raises AssertionError if GitOps tools would disagree about its health."""
        found = self.cluster.api.get(f"{RESOURCES}/{self.namespace}/{plural}/{name}")
        self.statuses.meet(found)
        return found

    def delete(self, plural: str, name: str) -> None:
        self.cluster.api.delete(f"{RESOURCES}/{self.namespace}/{plural}/{name}")

    def is_gone(self, plural: str, name: str) -> bool:
        return not self.cluster.api.exists(f"{RESOURCES}/{self.namespace}/{plural}/{name}")

    def condition(self, plural: str, name: str, kind: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.get(plural, name).get("status", {}).get("conditions", [])
        return next((c for c in found if c["type"] == kind), {"status": "Missing"})

    # --- pods ---

    def pods(self) -> dict[str, dict[str, Any]]:
        listed = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in listed}

    def delete_pod(self, name: str, **options: Any) -> None:
        self.cluster.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", options)

    # --- looking ---

    def runs(self, *tasks: str, timeout_s: float = 90) -> dict[str, str]:
        """See ``Journal.settled``."""
        return self.journal.settled(tasks, timeout_s)

    def held(self, tasks: set[str], worker: str = "lake") -> dict[str, str]:
        """Wait until the Worker reports these tasks as held. Returns all held tasks by the member that they
        wait for, which may include its own instance of the connector."""

        def seen() -> dict[str, str]:
            entries = self.get("workers", worker)["status"].get("held") or ()
            found = {entry["task"]: entry["identity"] for entry in entries}
            assert tasks <= found.keys(), found
            return found

        return eventually(seen, 60, f"{sorted(tasks)} are held", every_s=0.25)

    def settled(self, worker: str = "lake") -> None:
        """Wait until all its members are ready and the group has settled."""
        for kind in ("Ready", "Settled"):
            self.eventually(lambda k=kind: self.condition("workers", worker, k)["status"] == "True", 120)

    def eventually(self, condition: Callable[[], Any], timeout_s: float = 60, what: str = "") -> Any:
        """Like ``support.eventually``; an object that does not exist yet counts as "not yet". It is looked at
        four times a second: each look is a request."""

        def tried() -> Any:
            try:
                return condition()
            except ApiError as error:
                raise AssertionError(str(error)) from None

        return eventually(tried, timeout_s, what, every_s=0.25)

    def grant(self, secrets: bool = True, rest: bool = False, tls: bool = False) -> None:
        """Grant an operator of this namespace the chart's rights: in it, for the cluster, for the Lease."""
        rules = {path.stem: yaml.safe_load(path.read_text()) for path in RULES.glob("*.yaml")}
        here = [*rules["namespace-rules"], *(rules["secret-rules"] if secrets else ())]
        here += rules["tls-rules"] if tls else ()
        of_cluster = rules["cluster-rules"]
        if rest:
            here, of_cluster = [*here, *rules["rest-rules"]], [*of_cluster, *rules["review-rules"]]
        self._account(self.namespace)
        self._allow("Role", self.namespace, [*here, *rules["own-rules"]], self.namespace)
        self._allow("ClusterRole", None, of_cluster, self.namespace)

    def grant_everywhere(self, home: str) -> None:
        """Grant an operator of the whole cluster, in the namespace ``home``, the chart's rights."""
        rules = {path.stem: yaml.safe_load(path.read_text()) for path in RULES.glob("*.yaml")}
        self._account(home)
        self._allow("Role", home, rules["own-rules"], home)
        everywhere = [*rules["cluster-rules"], *rules["namespace-rules"], *rules["secret-rules"]]
        self._allow("ClusterRole", None, everywhere, home)

    def _account(self, home: str) -> None:
        metadata = {"name": "operator", "namespace": home}
        self.cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    def _allow(self, kind: str, namespace: str | None, rules: list[Any], home: str) -> None:
        group = "rbac.authorization.k8s.io"
        metadata = {"name": f"operator-{self.namespace}", **({"namespace": namespace} if namespace else {})}
        self.cluster.apply(
            {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "rules": rules},
            {
                "apiVersion": f"{group}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": kind, "name": metadata["name"]},
                "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": home}],
            },
        )


def own_address() -> str:
    """One that is not the loopback's, which no Service may lead to."""
    addresses = [each for interface in psutil.net_if_addrs().values() for each in interface]
    return next(
        each.address
        for each in addresses
        if each.family == socket.AF_INET and not each.address.startswith("127.")
    )


@dataclass
class Installation(Namespace):
    """A namespace without nodes: the operator and the members are processes."""

    kubelet: Kubelet = field(init=False)
    operators: list[OperatorProcess] = field(default_factory=list)
    kubelets: list[Kubelet] = field(default_factory=list)
    """Further kubelets."""
    proxy: ApiProxy | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kubelet = Kubelet(self.cluster.api, self.namespace, f"node-{self.namespace}")
        self.journal.ended = self.kubelet.ended
        self.kubelet.start()
        self.grant()

    def another_kubelet(self, **options: Any) -> Kubelet:
        """Add a node. Restrict what the first one takes before that."""
        name = f"node-{len(self.kubelets) + 1}-{self.namespace}"
        kubelet = Kubelet(self.cluster.api, self.namespace, name, **options)
        kubelet.ended = self.journal.ended
        kubelet.start()
        self.kubelets.append(kubelet)
        return kubelet

    # --- the operator ---

    def operator(
        self,
        lease_s: int = 3,
        home: str | None = None,
        image: str = "none",
        changed_by: str = "",
        proxied: bool = False,
        rest: bool = False,
        host: str = "127.0.0.1",
        more: Sequence[str] = ("--worker-secret", "login"),
        **environment: str,
    ) -> OperatorProcess:
        """Start an operator with only its service account's rights; a second one waits for the Lease.
        ``home``: the namespace of the account and the Lease; default: the served one. ``proxied``: it reaches
        the API server only through ``proxy``. ``host`` is an address of this machine. ``changed_by``:
        Python text that changes the program before its modules are imported. ``more``: options."""
        home = home or self.namespace
        log, port = self.directory / f"operator-{len(self.operators)}.log", free_port()
        kubeconfig = self.cluster.kubeconfig_of(home, "operator")
        if proxied:
            self.proxy = ApiProxy(kubeconfig)
            kubeconfig = self.proxy.kubeconfig
        words = [
            "operator",
            *("--namespace", self.namespace, "--leader-election-lease-namespace", home),
            *("--cluster", f"tests-{self.namespace}", "--image", image),
            *("--bootstrap-servers", self.bootstrap_servers),
            *("--listen", host, "--advertised-host", host),
            *("--leader-election-lease-duration-ms", str(lease_s * 1000)),
            *("--leader-election-lease-name", f"cooperator-{self.namespace}"),
            *("--health-port", str(port)),
            *(("--rest",) if rest else ()),
            *more,
        ]
        log.touch()
        variables = {**os.environ, "KUBECONFIG": str(kubeconfig), **environment}
        if self.kubelet.forks and not changed_by:
            child = ForkedProcess(words, log, variables, new_session=True)
        else:
            program = f"{changed_by}\nfrom cooperator.cli.app import main\nmain()"
            with log.open("ab") as out:
                command = [sys.executable, "-c", program, *words]
                child = subprocess.Popen(command, env=variables, stdout=out, stderr=out)
        operator = OperatorProcess(child, log, f"http://127.0.0.1:{port}/")
        self.operators.append(operator)
        return operator

    def close(self) -> None:
        for operator in self.operators:
            if operator.child.poll() is None:
                operator.thaw()
                operator.kill()
        if self.proxy is not None:
            self.proxy.close()
        for kubelet in (self.kubelet, *self.kubelets):
            kubelet.stop()
        for log in sorted(self.directory.glob("*.log")):
            # pytest shows this when the test has failed.
            print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-40:], sep="\n")
        for container in (c for each in (self.kubelet, *self.kubelets) for c in each.containers.values()):
            text = (container.folder / "log").read_text(errors="replace").splitlines()
            print(f"--- {container.name}", *text[-15:], sep="\n")
        assert self.journal.doubled() == []


SIX = tuple(f"a-{n}" for n in range(6))


def started(
    installation: Installation, replicas: int = 3, options: Sequence[str] = (), **spec: Any
) -> dict[str, str]:
    """Start an operator, with ``options``, and a Worker whose members run six tasks."""
    installation.operator(more=("--worker-secret", "login", *options))
    installation.worker(replicas=replicas, **spec)
    installation.connector("a", tasksMax=6)
    installation.runs(*SIX)
    installation.settled()
    return installation.runs(*SIX)
