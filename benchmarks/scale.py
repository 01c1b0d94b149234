"""Measures the load that one operator can handle, against a real API server and a real broker.

    python -m benchmarks.scale workers      100 Workers, 10 of which have a Kafka that does not answer
    python -m benchmarks.scale pods         one Worker with 200 pods and 500 Connectors of 2 tasks

Members are light ones (``light``): they speak the protocols and run nothing. The operator is the real one, in
a process of its own, under its own rights; ``OPERATOR`` makes it also record when each of its heartbeats was
sent.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import typer

from benchmarks.light import LightNode
from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import ROOT, Namespace, OperatorProcess
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace, wait_until_served

HEARTBEAT_MS = 3_000
OPERATOR = """
import sys
from cooperator.leader.service import LeaderService

out = open(sys.argv.pop(1), "a", buffering=1)
told = LeaderService.contact

def contact(self, sent_at):
    out.write(f"{self.settings.group_id} {sent_at:.3f}\\n")
    told(self, sent_at)

LeaderService.contact = contact

from cooperator.cli import main

main()
"""


@dataclass
class Bench:
    """One namespace. ``beats`` is the file that the operator writes its heartbeats to."""

    place: Namespace

    @property
    def beats(self) -> Path:
        return Path(self.place.directory) / "beats"

    def operator(self) -> OperatorProcess:
        place = self.place
        place.grant()
        log = Path(place.directory) / "operator.log"
        command = [
            *(sys.executable, "-c", OPERATOR, str(self.beats), "operator"),
            *("--namespace", place.namespace, "--leader-election-lease-namespace", place.namespace),
            *("--cluster", "bench", "--image", "none", "--bootstrap-servers", place.bootstrap_servers),
            *("--listen", "127.0.0.1", "--advertised-host", "127.0.0.1", "--health-port", "0"),
        ]
        with log.open("ab") as out:
            kubeconfig = place.cluster.kubeconfig_of(place.namespace, "operator")
            environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            child = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        return OperatorProcess(child, log)

    def connector(self, name: str, tasks: int) -> None:
        """Create it with a direct request: a kubectl process for each would dominate the time."""
        place = self.place
        place.cluster.api.post(
            f"/apis/cooperator.dev/v1alpha1/namespaces/{place.namespace}/connectors",
            {
                "apiVersion": "cooperator.dev/v1alpha1",
                "kind": "Connector",
                "metadata": {"name": name},
                "spec": {"workerRef": {"name": "lake"}, "class": "noop", "tasksMax": tasks},
            },
        )

    def lateness_ms(self, since: float) -> dict[str, list[float]]:
        """By group: how late each answered request was, after the one before plus a heartbeat interval."""
        sent: dict[str, list[float]] = defaultdict(list)
        for line in self.beats.read_text().splitlines():
            group, at = line.rsplit(" ", 1)
            if float(at) >= since:
                sent[group].append(float(at))
        return {
            group: [(b - a) * 1000 - HEARTBEAT_MS for a, b in itertools.pairwise(times)]
            for group, times in sent.items()
        }

    def is_settled(self, worker: str = "lake") -> bool:
        conditions = (self.place.condition("workers", worker, kind) for kind in ("Ready", "Settled"))
        return all(condition["status"] == "True" for condition in conditions)


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(controllers=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        wait_until_served(plane)
        make_namespace(plane, "bench")
        broker = EmbeddedBroker(Path(folder) / "broker")
        broker.start(timeout_s=300)
        try:
            yield Bench(Namespace(plane, "bench", broker.bootstrap_servers, Path(folder)))
        finally:
            broker.kill()


def wait(condition: Callable[[], Any], timeout_s: float, what: str) -> float:
    """Seconds until the condition was true. Raises TimeoutError."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.5)
    return time.monotonic() - began


def resources(operator: OperatorProcess) -> dict[str, float]:
    process = psutil.Process(operator.child.pid)
    times = process.cpu_times()
    return {
        "threads": process.num_threads(),
        "rss_mb": round(process.memory_info().rss / 2**20),
        "cpu_s": round(times.user + times.system, 1),
    }


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def workers(count: int = 100, dead: int = 10, seconds: float = 120) -> None:
    """Workers of one member each; the last ``dead`` have a Kafka that does not answer."""
    names = [f"w{number:03}" for number in range(count)]
    lost = names[count - dead :] if dead else []
    with bench() as one:
        place, operator = one.place, one.operator()
        node = LightNode(place.cluster.api, "node", ["bench"], place.bootstrap_servers, frozenset(lost))
        node.start()
        began = time.monotonic()
        for name in names:
            # This address drops packets: nobody answers there, not even with a refusal.
            servers = {"bootstrapServers": "192.0.2.1:9092"} if name in lost else {}
            place.worker(
                name, replicas=1, heartbeatIntervalMs=HEARTBEAT_MS, sessionTimeoutMs=10_000, **servers
            )
        alive = [name for name in names if name not in lost]
        wait(lambda: all(one.is_settled(name) for name in alive), 900, "all Workers with a Kafka are Ready")
        ready_s = time.monotonic() - began
        since, before = time.monotonic(), resources(operator)
        time.sleep(seconds)
        after = resources(operator)
        late = one.lateness_ms(since)
        each = [max(0.0, value) for values in late.values() for value in values]
        found = {
            "workers": count,
            "dead": dead,
            "ready_s": round(ready_s, 1),
            **after,
            "cpu_percent": round((after["cpu_s"] - before["cpu_s"]) / seconds * 100),
            "groups_seen": len(late),
            "lateness_ms": _spread(each),
            "said_unreachable": sum(
                place.condition("workers", name, "KafkaReachable")["status"] == "False" for name in lost
            ),
        }
        typer.echo(json.dumps(found))
        operator.kill()
        node.stop()


@app.command()
def pods(replicas: int = 200, connectors: int = 500, tasks: int = 2) -> None:
    """One Worker: its pods come, then its Connectors, then one pod more."""
    with bench() as one:
        place, operator = one.place, one.operator()
        node = LightNode(place.cluster.api, "node", ["bench"], place.bootstrap_servers)
        node.start()
        began = time.monotonic()
        said: dict[str, Any] = {"heartbeatIntervalMs": HEARTBEAT_MS, "sessionTimeoutMs": 10_000}
        place.worker(replicas=replicas, **said)
        wait(lambda: one.is_settled(), 900, "the Worker is Ready")
        pods_s = time.monotonic() - began
        empty = resources(operator)
        began = time.monotonic()
        for number in range(connectors):
            one.connector(f"c{number:04}", tasks)
        applied_s = time.monotonic() - began
        wanted = connectors * (tasks + 1)
        wait(lambda: node.running() == wanted, 1800, f"{wanted} tasks and instances run")
        running_s = time.monotonic() - began
        wait(lambda: one.is_settled(), 600, "the status says so")
        settled_s = time.monotonic() - began
        full, began = resources(operator), time.monotonic()
        place.worker(replicas=replicas + 1, **said)
        name = f"lake-{replicas}"
        wait(lambda: any(m and m.identity == name and m.owned for m in node.members.values()), 300, name)
        joined_s = time.monotonic() - began
        found = {
            "pods": replicas,
            "connectors": connectors,
            "tasks": connectors * tasks,
            "pods_ready_s": round(pods_s, 1),
            "connectors_applied_s": round(applied_s, 1),
            "all_running_s": round(running_s, 1),
            "status_settled_s": round(settled_s, 1),
            "one_more_pod_has_tasks_s": round(joined_s, 1),
            "rss_mb": {"pods": empty["rss_mb"], "pods and connectors": full["rss_mb"]},
            "threads": full["threads"],
            "cpu_s": resources(operator)["cpu_s"],
        }
        typer.echo(json.dumps(found))
        operator.kill()
        node.stop()


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {"p50": round(cuts[49]), "p99": round(cuts[98]), "max": round(max(values)), "n": len(values)}


if __name__ == "__main__":
    app()
