"""The times until a death is known, planned for and made good, and until a lead is taken over, by the number
of members.

Three members are processes under a kubelet of the tests (``departures``). More are light ones (``light``):
they speak the real protocols and run nothing, and share one process, whose use of the processor is reported.
"""

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import scale
from benchmarks.departures import (
    EVICTING,
    PLANNED,
    LogTail,
    deaths_of,
    settle,
    stages,
    three_members,
)
from benchmarks.light import LightMember, LightNode
from cooperator.model import TaskId
from tests.harness.installation import OperatorProcess
from tests.harness.support import eventually

HEARTBEAT_MS: Final = 1_000
PROCESSES: Final = 3
TAKEOVER: Final = ("start -> serves", "serves -> leads", "leads -> first round")
"""The stages of a take-over by a new process of the operator, whose predecessor has ended in order."""
_TASKS: Final = 10
"""Tasks of each connector; there are twice as many tasks as members."""
_LIMIT_S: Final = 300.0
_SERVES, _LEADS, _ROUND = "operator .* serves ", "leading in term ", r"generation \d+: "


@dataclass
class Usage:
    """The processor's use by this process and by the operator, in cores."""

    operator: int
    began: float = 0.0
    before: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self.began, self.before = time.monotonic(), self._seconds()

    def cores(self) -> dict[str, float]:
        lasted_s = time.monotonic() - self.began
        used = [now - then for now, then in zip(self._seconds(), self.before, strict=True)]
        return dict(zip(("harness", "operator"), (round(s / lasted_s, 2) for s in used), strict=True))

    def _seconds(self) -> tuple[float, float]:
        spent = []
        for pid in (psutil.Process().pid, self.operator):
            times = psutil.Process(pid).cpu_times()
            spent.append(times.user + times.system)
        return spent[0], spent[1]


@dataclass(frozen=True, slots=True)
class Extent:
    """Each number of members has ``blocks`` turns, of so many deaths and take-overs each."""

    members: tuple[int, ...]
    deaths: int
    takeovers: int
    blocks: int
    heartbeat_ms: int = HEARTBEAT_MS


def measure(extent: Extent, run: Mapping[str, Any], file: Path) -> Iterator[str]:
    """Measure, and write ``file`` after each turn. Yields a sentence on each turn.

    ``run`` is what is known before: the beginning of the file, and the ``turns`` of an earlier run.
    """
    turns: list[dict[str, Any]] = [*run.get("turns", ())]
    for block in range(extent.blocks):
        for members in extent.members:
            began = time.monotonic()
            found = react(members, extent)
            took_s = round(time.monotonic() - began, 1)
            of_turn = {"members": members, "heartbeat_ms": extent.heartbeat_ms, "took_s": took_s}
            turns.append({**of_turn, **found})
            file.write_text(json.dumps({**run, "turns": turns}, indent=1))
            middle = statistics.median(sum(each) for each in found["deaths_ms"])
            yield f"{members} members, turn {block + 1}: {took_s:.0f} s, median {middle:.0f} ms"


def react(members: int, extent: Extent) -> dict[str, Any]:
    """Deaths and take-overs of the lead of a new group; ms of each stage of each one."""
    if members == PROCESSES:
        return _of_processes(extent)
    return _light(members, extent)


def _of_processes(extent: Extent) -> dict[str, Any]:
    with three_members(extent.heartbeat_ms) as installation:
        settle(installation)
        usage = Usage(installation.operators[-1].child.pid)
        usage.begin()
        found = [*deaths_of(installation, extent.deaths)]
        cores = usage.cores()
        taken = []
        for _ in range(extent.takeovers):
            settle(installation)
            installation.operators[-1].terminate()
            began = time.time()
            taken.append(_take_over(installation.operator(), began))
        return {"deaths_ms": found, "takeovers_ms": taken, "cores": cores}


def _take_over(operator: OperatorProcess, began: float) -> list[float]:
    log = LogTail(operator.log)
    serves = eventually(lambda: log.first(_SERVES, began), _LIMIT_S)
    leads = eventually(lambda: log.first(_LEADS, serves), _LIMIT_S)
    return stages([began, serves, leads, eventually(lambda: log.first(_ROUND, leads), _LIMIT_S)])


def _light(members: int, extent: Extent) -> dict[str, Any]:
    with _light_group(members) as (one, node):
        operator = one.operator()
        try:
            usage = Usage(operator.child.pid)
            _fill(one, node, members, extent.heartbeat_ms)
            usage.begin()
            found = []
            log = LogTail(operator.log)
            for number in range(extent.deaths):
                _settle(one, node, members)
                found.append(_one_death(one, node, log, f"lake-{number * 7 % members}"))
            cores = usage.cores()
            taken = []
            for _ in range(extent.takeovers):
                _settle(one, node, members)
                operator.terminate()
                began = time.time()
                operator = one.operator()
                taken.append(_take_over(operator, began))
        finally:
            operator.kill()
        return {"deaths_ms": found, "takeovers_ms": taken, "cores": cores}


@contextmanager
def _light_group(members: int) -> Iterator[tuple[scale.Bench, LightNode]]:
    with scale.bench() as one:
        node = LightNode(one.place.cluster.api, "node", ["bench"], one.place.bootstrap_servers)
        node.start()
        try:
            yield one, node
        finally:
            node.stop()


def _fill(one: scale.Bench, node: LightNode, members: int, heartbeat_ms: int) -> None:
    """Start ``members`` members, and twice as many tasks."""
    one.place.worker(
        replicas=members,
        heartbeatIntervalMs=heartbeat_ms,
        sessionTimeoutMs=10_000,
        scheduledRebalanceMaxDelayMs=0,
    )
    scale.wait(one.is_settled, 900, "the Worker is Ready")
    for number in range(2 * members // _TASKS):
        one.connector(f"c{number:03}", _TASKS)
    _settle(one, node, members)


def _settle(one: scale.Bench, node: LightNode, members: int) -> None:
    """Wait until every task runs, every member has some, and the group is at rest."""
    wanted = 2 * members // _TASKS * (_TASKS + 1)

    def calm() -> bool:
        living = [member for member in list(node.members.values()) if member is not None]
        return (
            len(living) == members
            and all(member.owned for member in living)
            and node.running() == wanted
            and one.is_settled()
        )

    scale.wait(calm, _LIMIT_S, f"{members} members are at rest with {wanted} tasks")


def _one_death(one: scale.Bench, node: LightNode, log: LogTail, victim: str) -> list[float]:
    """Milliseconds of each of ``departures.STAGES``; the member is back afterwards."""
    lost = frozenset(node.named(victim).owned)
    ended, told = node.crash(one.place.namespace, victim)
    evicted = eventually(lambda: log.first(EVICTING, told), _LIMIT_S)
    planned = eventually(lambda: log.first(PLANNED, evicted), _LIMIT_S)
    ran = eventually(lambda: _all_run(node.members, lost, ended), _LIMIT_S)
    node.restart(one.place.namespace, victim)
    return stages([ended, told, evicted, planned, ran])


def _all_run(members: Mapping[str, LightMember | None], lost: frozenset[TaskId], since: float) -> float:
    """When the last of the ``lost`` tasks began to run again; 0 if one does not run yet."""
    began = {
        task: member.since[task]
        for member in list(members.values())
        if member is not None
        for task in list(member.owned)
        if task in lost and member.since.get(task, 0.0) > since
    }
    return max(began.values()) if began.keys() == lost else 0.0
