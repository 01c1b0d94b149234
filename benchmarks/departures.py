"""Measures the time to handle a death, stage by stage, against a real API server and a real broker.

    python -m benchmarks.departures --deaths 20

Members are processes in place of containers. A kubelet of the tests reports them; it polls ten times a
second. Tasks are not held (a delay of 0), so they move as soon as the end is proven:

    exit -> event      the container ends; the kubelet reports it to the API server
    event -> eviction  the operator sees it, decides, and sends LeaveGroup
    eviction -> plan   the others join the round; its plan is saved and answered
    plan -> running    the last of the lost tasks reports that it runs elsewhere
"""

import itertools
import re
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import ROOT, Installation
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace, wait_until_served

STAGES = ("exit -> event", "event -> eviction", "eviction -> plan", "plan -> running")
_LINE = re.compile(r"(\S+ \S+) INFO +(\S+): (.*)")


def logged(path: Path, pattern: str, since: float) -> float:
    """When (s since the epoch) the first line after ``since`` matched; 0 if none has."""
    for line in path.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found and re.match(pattern, found[3]):
            at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
            if at >= since:
                return at
    return 0.0


def one_death(installation: Installation, victim: str, tasks: tuple[str, ...]) -> list[float]:
    """Milliseconds of each stage."""
    lost = {task for task, at in installation.runs(*tasks).items() if at == victim}
    log = installation.operators[0].log
    installation.kubelet.reported.clear()
    killed = time.time()
    installation.kubelet.crash(victim)
    noticed = installation.eventually(
        lambda: next((at for pod, at in installation.kubelet.reported if pod == victim), 0.0)
    )
    # The log has milliseconds, the event's time is finer.
    evicted = installation.eventually(lambda: logged(log, "evicting ", noticed - 0.001))
    planned = installation.eventually(lambda: logged(log, r"generation \d+: [1-9]\d* assigned", evicted))

    def running() -> float:
        runs = [run for run in installation.journal.runs() if run.task in lost and run.member != victim]
        new = {run.task: run.start_ms for run in runs if run.start_ms > killed * 1000}
        return max(new.values()) / 1000 if new.keys() == lost else 0.0

    ran = installation.eventually(running)
    times = [killed, noticed, evicted, planned, ran]
    return [(later - earlier) * 1000 for earlier, later in itertools.pairwise(times)]


def measure(deaths: int, heartbeat_ms: int) -> list[list[float]]:
    tasks = tuple(f"a-{number}" for number in range(6))
    spec: dict[str, Any] = {
        "replicas": 3,
        "scheduledRebalanceMaxDelayMs": 0,
        "heartbeatIntervalMs": heartbeat_ms,
    }
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(controllers=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        wait_until_served(plane)
        make_namespace(plane, "bench")
        broker = EmbeddedBroker(Path(folder) / "broker")
        broker.start()
        installation = Installation(plane, "bench", broker.bootstrap_servers, Path(folder))
        try:
            installation.kubelet.restart_s = 3
            installation.operator()
            installation.worker(**spec)
            installation.connector("a", tasksMax=6)
            found = []
            for number in range(deaths):
                installation.eventually(
                    lambda: set(installation.runs(*tasks).values()) == {"lake-0", "lake-1", "lake-2"}, 120
                )
                settled = lambda: installation.condition("workers", "lake", "Settled")["status"] == "True"  # noqa: E731
                installation.eventually(settled, 120)
                found.append(one_death(installation, f"lake-{number % 3}", tasks))
            return found
        finally:
            for operator in installation.operators:
                operator.kill()
            installation.kubelet.stop()
            broker.kill()


def main(deaths: int = 20, heartbeat_ms: int = 1_000) -> None:
    found = measure(deaths, heartbeat_ms)
    typer.echo(
        f"| of {deaths} deaths, heartbeats of {heartbeat_ms} ms | median | 95 % | worst |\n|---|---|---|---|"
    )
    for name, values in zip(STAGES, zip(*found, strict=True), strict=True):
        cuts = statistics.quantiles(values, n=20, method="inclusive")
        typer.echo(
            f"| {name} | {statistics.median(values):.0f} ms | {cuts[18]:.0f} ms | {max(values):.0f} ms |"
        )


if __name__ == "__main__":
    typer.run(main)
