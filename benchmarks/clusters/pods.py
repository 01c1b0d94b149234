"""Deaths of pods: operator and members run in containers of their images, on two nodes with kubelets."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.departures import EVICTING, PLANNED, TASKS, LogTail, stages
from e2e.node_installation import NodeNamespace, broker_of_pods
from e2e.release import CRDS, Helm
from tests.harness.support import eventually
from tests.kubernetes.fixtures import wait_until_served
from tests.kubernetes.nodes import Cluster

_MEMBERS: Final = ("lake-0", "lake-1", "lake-2")
_LIMIT_S: Final = 180.0
_LOOK_S: Final = 0.01


@contextmanager
def three_pods(heartbeat_ms: int) -> Iterator[NodeNamespace]:
    """Three members with six tasks, which move as soon as an end is proven."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.start(nodes=2) as cluster,
        broker_of_pods(cluster.plane.host, Path(folder) / "broker") as servers,
    ):
        Helm(cluster.plane, "kube-system").install(CRDS, CRDS)
        wait_until_served(cluster.plane)
        place = NodeNamespace(cluster.plane, "reaction", servers, Path(folder), cluster)
        place.operator()
        place.pool(replicas=len(_MEMBERS), scheduledRebalanceMaxDelayMs=0, heartbeatIntervalMs=heartbeat_ms)
        place.connector("a", tasksMax=len(TASKS))
        yield place


def deaths_of_pods(place: NodeNamespace, deaths: int) -> Iterator[list[float]]:
    """Milliseconds of each of ``departures.STAGES``, death by death, of one member after the other."""
    file = place.directory / "operator.log"
    plane = place.cluster
    command = [str(plane.programs["kubectl"]), f"--kubeconfig={plane.kubeconfig}", "logs", "--follow"]
    command += ["--namespace", place.namespace, "deployment/cooperator"]
    with file.open("wb") as out, subprocess.Popen(command, stdout=out) as following:
        try:
            log = LogTail(file)
            for number in range(deaths):
                _settle(place)
                yield _one_death(place, log, _MEMBERS[number % len(_MEMBERS)])
        finally:
            following.terminate()


def _settle(place: NodeNamespace) -> None:
    """Wait until each member has tasks, and the group is at rest."""

    def at_rest() -> bool:
        _note_ended(place)
        members = {*place.runs(*TASKS, timeout_s=5).values()}
        return members == {*_MEMBERS} and place.condition("workers", "lake", "Settled")["status"] == "True"

    eventually(at_rest, _LIMIT_S, "all members have tasks and rest")


def _note_ended(place: NodeNamespace) -> None:
    """Note the end of the incarnations of pods that are gone, which could not write it."""
    there = {pod["metadata"]["uid"] for pod in place.pods().values()}
    for run in place.journal.runs():
        if run.incarnation.rpartition(".")[0] not in there:
            place.journal.ended.setdefault(run.incarnation, time.time_ns() // 1_000_000)


def _one_death(place: NodeNamespace, log: LogTail, victim: str) -> list[float]:
    lost = {task for task, at in place.runs(*TASKS).items() if at == victim}
    pod = place.pods()[victim]
    before, process = _containers(pod), _process_of(pod["metadata"]["uid"])
    ended = time.time()
    os.kill(process, signal.SIGKILL)
    told = _first(lambda: _containers(place.pods()[victim]) != before)
    evicted = eventually(lambda: log.first(EVICTING, ended), _LIMIT_S)
    planned = eventually(lambda: log.first(PLANNED, evicted), _LIMIT_S)

    def running() -> float:
        runs = [run for run in place.journal.runs() if run.task in lost and run.member != victim]
        new = {run.task: run.start_ms for run in runs if run.start_ms > ended * 1000}
        return max(new.values()) / 1000 if new.keys() == lost else 0.0

    ran = eventually(running, _LIMIT_S)
    # A container that ends again and again is started ever later; that of a new pod is started at once.
    place.delete_pod(victim, gracePeriodSeconds=0)
    uid = pod["metadata"]["uid"]
    eventually(lambda: place.pods().get(victim, pod)["metadata"]["uid"] != uid, _LIMIT_S, "another pod")
    return stages([ended, min(told, evicted), evicted, planned, ran])


def _containers(pod: Mapping[str, Any]) -> list[Any]:
    """What the kubelet has reported on the pod's containers."""
    return [each.get("state") for each in pod["status"].get("containerStatuses", ())]


def _first(happened: Callable[[], bool]) -> float:
    """When (s since the epoch) the function first returned True."""
    deadline = time.monotonic() + _LIMIT_S
    while not happened():
        assert time.monotonic() < deadline, "the kubelet reports nothing"
        time.sleep(_LOOK_S)
    return time.time()


def _process_of(uid: str) -> int:
    """The first process of the container that is not the pod's own ("pause"), as this machine numbers it."""
    marks = (uid, uid.replace("-", "_"))
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if not any(mark in (folder / "cgroup").read_text() for mark in marks):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            spaces = next(line for line in (folder / "status").read_text().splitlines() if "NSpid" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if spaces.split()[-1] == "1" and "pause" not in command:
            return int(folder.name)
    raise AssertionError(f"pod {uid} has no process")
