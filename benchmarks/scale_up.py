#!/usr/bin/env python3
"""Measures what tasks with state wait for in a group of Spark members: a scale-up, and a death with standbys.

    python -m benchmarks.scale_up --tasks 12 --keys 1000000

Three members run a Connector's queries, each of which counts rows by key. Two more members join
(``stateReplicas: {}``, so at most two tasks are learned at a time), and tasks move there. Then the Connector
gets ``standbys: 1``, and a member with several tasks is killed with all its processes.

A pause is from the last commit there to the first commit here, by the times of the files; a claim of the
fence parts them. Every query gets a file of rows every few seconds, and twice a second while its task is
learned or its member is about to die, so that a pause is no time without rows.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipelines.surroundings import machine
from benchmarks.starts import repeated, until
from cooperator.connectors.fence import DIRECTORY as FENCE
from cooperator.connectors.offsets.unit_log import finished
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Desired, DesiredConnector, StateReplicas
from tests.harness.member_group import MemberGroup

NAME: Final = "counts"
FILL: Final = 500_000
CHANGES: Final = 1_000
FEED_S: Final = 6.0
FAST_S: Final = 0.5
PAUSE_S: Final = 3.0
"""The limit of the sum of pauses, for each task of the Connector."""
DEATH_S: Final = 5.0
"""The limit of a pause by a death with a standby."""
BEFORE: Final = ("lake-0", "lake-1", "lake-2")
ADDED: Final = ("lake-3", "lake-4")
_LOOK_S: Final = 0.05
_HOLD_MS: Final = 600_000
_REBALANCE_MS: Final = 10_000


@dataclass
class Unit:
    """A query's source, and what its checkpoint has shown. Times are seconds since the epoch."""

    source: Path
    checkpoint: Path
    files: int = 0
    commits: dict[int, float] = field(default_factory=dict)
    claims: dict[str, float] = field(default_factory=dict)

    def feed(self, keys: Sequence[int]) -> None:
        hidden = self.source / ".next"
        pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), hidden)
        hidden.rename(self.source / f"{self.files:05}.parquet")
        self.files += 1

    def look(self) -> None:
        """Notes the newest commit, and the newest claim, with the times of their files."""
        with suppress(FileNotFoundError):
            newest = finished(self.checkpoint)
            if newest >= 0 and newest not in self.commits:
                self.commits[newest] = (self.checkpoint / "commits" / str(newest)).stat().st_mtime
            claim = max((self.checkpoint / FENCE).iterdir(), key=lambda each: each.name, default=None)
            if claim is not None and claim.name not in self.claims:
                self.claims[claim.name] = claim.stat().st_mtime

    def has_read(self, files: int) -> bool:
        """A batch is a file."""
        return max(self.commits, default=-1) + 1 >= files

    def pauses_s(self, since: float) -> list[float]:
        """The pause around each claim from ``since`` on; infinite if no commit has followed yet."""
        return [
            pause_s(list(self.commits.values()), claim) for claim in self.claims.values() if claim >= since
        ]


def pause_s(commits: Sequence[float], claim: float) -> float:
    """From the last commit before a claim to the first one after it; infinite if there is none."""
    before = [each for each in commits if each <= claim]
    after = [each for each in commits if each > claim]
    return min(after) - max(before) if before and after else float("inf")


class Counts:
    """The Connector's units, fed and watched by a thread of its own."""

    def __init__(self, root: Path, tasks: int, keys: int) -> None:
        self.keys = keys
        self.units = [
            Unit(root / "in" / str(number), root / "checkpoints" / NAME / f"unit-{number}")
            for number in range(tasks)
        ]
        for unit in self.units:
            unit.source.mkdir(parents=True)
        self.fast: Collection[int] = ()
        """The numbers of the tasks that get a file every ``FAST_S``."""
        self._random = random.Random(1)

    def config(self, replicas: StateReplicas | None) -> dict[str, str]:
        return {
            "connector.class": "spark",
            "tasks.max": str(len(self.units)),
            "units": json.dumps([{"source.options.path": str(unit.source)} for unit in self.units]),
            "source.format": "parquet",
            "source.schema": "key LONG",
            "source.options.maxFilesPerTrigger": "1",
            "sink.format": "noop",
            "sink.output.mode": "update",
            "transform.sql": "SELECT key, count(*) AS n FROM input GROUP BY key",
            "state.partitions": "2",
            "trigger.interval.ms": "500",
            **(replicas.settings() if replicas is not None else {}),
        }

    def fill(self) -> None:
        """All keys of each query."""
        for unit in self.units:
            for start in range(0, self.keys, FILL):
                unit.feed(range(start, min(self.keys, start + FILL)))

    @property
    def is_filled(self) -> bool:
        return all(unit.has_read(-(-self.keys // FILL)) for unit in self.units)

    def running(self) -> AbstractContextManager[None]:
        """Looks at the units all the time, and feeds them once they have read what they were filled with."""
        due = dict.fromkeys(range(len(self.units)), 0.0)

        def look() -> None:
            now = time.monotonic()
            for number, unit in enumerate(self.units):
                unit.look()
                interval_s = FAST_S if number in self.fast else FEED_S
                if unit.has_read(unit.files) and now >= due[number] + interval_s:
                    unit.feed(self._random.sample(range(self.keys), min(CHANGES, self.keys)))
                    due[number] = now

        return repeated(look, _LOOK_S)


class Lake:
    """The group: a leader in this process, and members with a Spark each."""

    def __init__(
        self, broker: EmbeddedBroker, root: Path, counts: Counts, replicas: StateReplicas | None
    ) -> None:
        self.counts = counts
        self.group = MemberGroup(broker.bootstrap_servers, root, "lake")
        self._revision = 1
        policy = {"scheduled_rebalance_max_delay_ms": _HOLD_MS, "lease_ms": 14_000, "join_wait_ms": 20_000}
        self.leader = self.group.leader(
            {NAME: counts.config(replicas)}, BEFORE, policy=policy, rebalance_timeout_ms=_REBALANCE_MS
        )
        self.members: tuple[str, ...] = ()
        self.add(BEFORE)

    def add(self, identities: Sequence[str]) -> None:
        self.members += tuple(identities)
        self.group.facts(self.leader, self.members)
        for identity in identities:
            self.group.member(
                identity, runtime="spark", heap_mb="768", rebalance_timeout_ms=str(_REBALANCE_MS)
            )

    def replicate(self, replicas: StateReplicas) -> None:
        self._revision += 1
        config = self.counts.config(replicas)
        self.leader.set_desired(Desired(self._revision, {NAME: DesiredConnector(config)}))

    def kill(self, identity: str) -> None:
        next(each for each in self.group.members if each.identity == identity).kill()
        self.group.facts(self.leader, self.members)

    def tasks(self) -> list[dict[str, Any]]:
        return [task for task in self.leader.status().get("tasks", ()) if task["task"] >= 0]

    def owners(self) -> dict[int, str]:
        """The member of each task that runs."""
        return {task["task"]: task["member"] for task in self.tasks() if task["state"] == "RUNNING"}

    def is_even(self) -> bool:
        """Whether all tasks run, no member has two more than another one, and none is about to move."""
        owners = self.owners()
        loads = Counter(dict.fromkeys(self.members, 0))
        loads.update(owners.values())
        is_calm = bool(self.leader.status().get("settled")) and not self.learned("warmup")
        return (
            is_calm
            and len(owners) == len(self.counts.units)
            and max(loads.values()) - min(loads.values()) < 2
        )

    def learned(self, role: str, caught_up: bool = False) -> set[int]:
        """The numbers of the tasks that a member learns in this role (and has caught up on)."""
        return {
            task["task"]
            for task in self.tasks()
            for each in task.get("learners", ())
            if each["role"] == role and (each["caught_up"] or not caught_up)
        }


def scale_up(lake: Lake) -> dict[str, Any]:
    """Adds members; returns the pauses of the tasks that have moved."""
    counts, before = lake.counts, lake.owners()
    began = time.time()
    most = 0
    lake.add(ADDED)

    def is_over() -> bool:
        nonlocal most
        counts.fast = lake.learned("warmup") or counts.fast
        most = max(most, len(lake.learned("warmup")))
        return lake.is_even()

    until(is_over, "the tasks are even")
    after = lake.owners()
    moved = sorted(task for task in after if after[task] != before[task])
    counts.fast = moved
    until(lambda: all(paused(counts, task, began) < float("inf") for task in moved), "commits here")
    counts.fast = ()
    return {
        "seconds": time.time() - began,
        "tasks": len(counts.units),
        "most_warmups": most,
        "pauses_s": {task: paused(counts, task, began) for task in moved},
        "others_claimed": sum(len(u.pauses_s(began)) for n, u in enumerate(counts.units) if n not in moved),
    }


def paused(counts: Counts, task: int, since: float) -> float:
    """The sum of a task's pauses; infinite while one of them lasts, or before the first."""
    return sum(counts.units[task].pauses_s(since) or [float("inf")])


def death(lake: Lake) -> dict[str, Any]:
    """Kills the member with most tasks once all have caught-up standbys; returns the pauses of its tasks."""
    counts, began = lake.counts, time.monotonic()
    lake.replicate(StateReplicas(standbys=1))

    def is_ready() -> bool:
        return lake.is_even() and len(lake.learned("standby", caught_up=True)) == len(counts.units)

    until(is_ready, "each task has a standby that has caught up")
    learned_s = time.monotonic() - began
    owners = lake.owners()
    victim = Counter(owners.values()).most_common(1)[0][0]
    lost = [task for task, identity in sorted(owners.items()) if identity == victim]
    counts.fast = lost
    began_at = {task: len(counts.units[task].commits) for task in lost}
    until(lambda: all(len(counts.units[t].commits) > n + 3 for t, n in began_at.items()), "commits there")
    killed = time.time()
    lake.kill(victim)
    proven_s = time.time() - killed
    until(lambda: all(paused(counts, task, killed) < float("inf") for task in lost), "commits here")
    return {
        "standbys_s": learned_s,
        "proven_s": proven_s,
        "pauses_s": {task: paused(counts, task, killed) for task in lost},
    }


def judged(moves: dict[str, Any], died: dict[str, Any] | None) -> str:
    pauses = list(moves["pauses_s"].values())
    limit_s = moves["tasks"] * PAUSE_S
    lines = [
        f"scale-up: {len(pauses)} of {moves['tasks']} tasks moved, with pauses of {sum(pauses):.1f} s in all "
        f"(must: {limit_s:g} s), the longest {max(pauses):.1f} s: {_is_met(sum(pauses) <= limit_s)}"
    ]
    if died is not None:
        lost = list(died["pauses_s"].values())
        lines.append(
            f"death: {len(lost)} tasks, pauses of at most {max(lost):.1f} s (must: {DEATH_S:g} s): "
            f"{_is_met(max(lost) <= DEATH_S)}"
        )
    return "\n".join(lines)


def _is_met(is_met: bool) -> str:
    return "met" if is_met else "not met"


def table(moves: dict[str, Any], died: dict[str, Any] | None) -> str:
    lines = ["| | tasks | pauses | sum |", "|---|---:|---|---:|"]
    for what, found in (("scale-up 3 -> 5", moves), ("a death with standbys", died)):
        if found is not None:
            pauses = sorted(found["pauses_s"].values())
            shown = ", ".join(f"{pause:.1f} s" for pause in pauses)
            lines.append(f"| {what} | {len(pauses)} | {shown} | {sum(pauses):.1f} s |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys of each query")
    parser.add_argument("--cold", action="store_true", help="without stateReplicas; nothing dies then")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    around = machine()
    root = Path(tempfile.mkdtemp(prefix="cooperator-scale-up-"))
    broker = EmbeddedBroker(root / "broker")
    broker.start()
    counts = Counts(root, options.tasks, options.keys)
    counts.fill()
    lake = Lake(broker, root, counts, None if options.cold else StateReplicas())
    try:
        with counts.running():
            until(lambda: counts.is_filled and lake.is_even(), "all keys are counted")
            moves = scale_up(lake)
            print(json.dumps(moves), flush=True)  # noqa: T201
            died = None if options.cold else death(lake)
    finally:
        lake.group.close()
        broker.stop()
    found = {"machine": around, "keys": options.keys, "cold": options.cold, "scale_up": moves, "death": died}
    print(f"{json.dumps(found)}\n\n{table(moves, died)}\n\n{judged(moves, died)}")  # noqa: T201
    if options.results:
        options.results.write_text(json.dumps(found))
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
