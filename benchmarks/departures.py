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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import ROOT, Installation
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace, wait_until_served

STAGES = ("exit -> event", "event -> eviction", "eviction -> plan", "plan -> running")
TASKS = tuple(f"a-{number}" for number in range(6))
EVICTING = "evicting "
PLANNED = r"generation \d+: [1-9]\d* assigned"
_LINE = re.compile(r"(\S+ \S+) INFO +(\S+): (.*)")


class LogTail:
    """An operator's log as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines: list[tuple[float, str]] = []

    def first(self, pattern: str, since: float) -> float:
        """When (s since the epoch) the first line from ``since`` on matched; 0 if none has."""
        self._poll()
        # The log has milliseconds, the other times are finer.
        found = (at for at, text in self._lines if at >= since - 0.001 and re.match(pattern, text))
        return next(found, 0.0)

    def _poll(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            if found := _LINE.match(line):
                at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
                self._lines.append((at, found[3]))


def stages(times: Sequence[float]) -> list[float]:
    """The milliseconds between these times (s)."""
    return [(later - earlier) * 1000 for earlier, later in itertools.pairwise(times)]


def one_death(installation: Installation, log: LogTail, victim: str, tasks: tuple[str, ...]) -> list[float]:
    """Milliseconds of each stage."""
    lost = {task for task, at in installation.runs(*tasks).items() if at == victim}
    installation.kubelet.reported.clear()
    killed = time.time()
    installation.kubelet.crash(victim)
    noticed = installation.eventually(
        lambda: next((at for pod, at in installation.kubelet.reported if pod == victim), 0.0)
    )
    evicted = installation.eventually(lambda: log.first(EVICTING, noticed))
    planned = installation.eventually(lambda: log.first(PLANNED, evicted))

    def running() -> float:
        runs = [run for run in installation.journal.runs() if run.task in lost and run.member != victim]
        new = {run.task: run.start_ms for run in runs if run.start_ms > killed * 1000}
        return max(new.values()) / 1000 if new.keys() == lost else 0.0

    return stages([killed, noticed, evicted, planned, installation.eventually(running)])


@contextmanager
def three_members(heartbeat_ms: int) -> Iterator[Installation]:
    """Three members with six tasks, which move as soon as an end is proven."""
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
        broker.start(timeout_s=300)
        installation = Installation(plane, "bench", broker.bootstrap_servers, Path(folder))
        try:
            installation.kubelet.look_s = 0.1
            installation.kubelet.restart_s = 3
            # Tasks that start as several members are killed would be suspected, and start one at a time.
            installation.kubelet.reports_signals = False
            installation.operator()
            installation.worker(**spec)
            installation.connector("a", tasksMax=len(TASKS))
            yield installation
        finally:
            for operator in installation.operators:
                operator.kill()
            installation.kubelet.stop()
            broker.kill()


def settle(installation: Installation) -> None:
    """Wait until each member has tasks, and the group is at rest."""
    members = {"lake-0", "lake-1", "lake-2"}
    installation.eventually(lambda: set(installation.runs(*TASKS).values()) == members, 120)
    installation.eventually(
        lambda: installation.condition("workers", "lake", "Settled")["status"] == "True", 120
    )


def deaths_of(installation: Installation, deaths: int) -> Iterator[list[float]]:
    """Milliseconds of each stage, death by death, of one member after the other."""
    log = LogTail(installation.operators[-1].log)
    for number in range(deaths):
        settle(installation)
        yield one_death(installation, log, f"lake-{number % 3}", TASKS)


def main(deaths: int = 20, heartbeat_ms: int = 1_000) -> None:
    with three_members(heartbeat_ms) as installation:
        found = [*deaths_of(installation, deaths)]
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
