"""A group with all pipelines at once, on a disk of its own, for faults."""

import errno
import json
import os
import re
import resource
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Desired, DesiredConnector
from tests.guarantees.pipeline import UNITS, Pipeline
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually
from tests.runtime.spark_servers import executors

VICTIM, SPARE = WORKERS = ("s-0", "s-1")

BACKLOG, FEW = 60, 20
"""The records before a fault, and those that follow."""

PATIENCE_S = 300
"""The timeout of every wait, in seconds; a busy machine needs it."""

# A frozen member is waited for as long as its lease, which is nearly the shortest allowed here.
POLICY = {"scheduled_rebalance_max_delay_ms": 0, "lease_ms": 14_000, "join_wait_ms": 20_000}
REBALANCE_MS = 10_000

_RESTART_SOON = {
    "cooperator.auto.restart.backoff.ms": "500",
    "cooperator.auto.restart.backoff.max.ms": "2000",
    "cooperator.auto.restart.max": "1000",
}


_ENDED = "terminated with error"


class Disk:
    """A small disk that tests fill: a tmpfs if it can be mounted. Otherwise members may not extend any file
    for a while, which writers see as another error."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(directory)]
        try:
            self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.mounted = False
        self.error = os.strerror(errno.ENOSPC if self.mounted else errno.EFBIG)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.directory)], check=True)

    @contextmanager
    def full(self, writers: list[int]) -> Iterator[None]:
        if not self.mounted:
            for pid in writers:
                psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            try:
                yield
            finally:
                for pid in writers:
                    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                    psutil.Process(pid).rlimit(resource.RLIMIT_FSIZE, limits)
            return
        try:
            self.fill()
            yield
        finally:
            self._filler.unlink()

    def fill(self) -> None:
        """Fills the free space, including that of files removed since."""
        if self.mounted:
            with self._filler.open("ab", buffering=0) as file:
                for size in (1 << 20, 1 << 12, 1):
                    with suppress(OSError):
                        while file.write(b"\0" * size):
                            pass

    @property
    def _filler(self) -> Path:
        return self.directory / "filler"


@dataclass
class PipelinesGroup:
    group: MemberGroup
    broker: EmbeddedBroker
    disk: Disk
    pipelines: list[Pipeline]
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    leader: LeaderService = field(init=False)
    _revision: int = 1

    def begin(self) -> None:
        for pipeline in self.pipelines:
            pipeline.prepare()
        self.leader = self.group.leader(
            self._configs(2), WORKERS, policy=POLICY, rebalance_timeout_ms=REBALANCE_MS
        )
        for worker in WORKERS:
            self.start(worker)

    def _configs(self, tasks_max: int) -> dict[str, dict[str, str]]:
        return {
            pipeline.slug(): {**pipeline.config(), **_RESTART_SOON, "tasks.max": str(tasks_max)}
            for pipeline in self.pipelines
        }

    @property
    def checkpoints(self) -> Path:
        return self.disk.directory / "checkpoints"

    # --- members ---

    def start(self, identity: str) -> None:
        self.group.member(
            identity,
            runtime="spark",
            heap_mb="512",
            checkpoints=str(self.checkpoints),
            rebalance_timeout_ms=str(REBALANCE_MS),
            spark_conf=self.spark_conf,
        )
        self.proven()

    def kill_all(self) -> None:
        """Kills all members, each with all of its processes."""
        for worker in WORKERS:
            self.member(worker).kill()
        self.proven()

    def member(self, identity: str) -> MemberProcess:
        return next(member for member in reversed(self.group.members) if member.identity == identity)

    def has_ended(self, identity: str) -> bool:
        return self.member(identity).child.poll() is not None

    def is_member(self, identity: str) -> bool:
        return identity in {member["identity"] for member in self.leader.status()["members"]}

    def proven(self) -> None:
        """Reports to the leader, as a host would, whose end is proven."""
        self.group.facts(self.leader, WORKERS)

    def leaving(self, identity: str) -> None:
        self.group.facts(self.leader, (SPARE,), leaving=frozenset({identity}))

    def fenced(self, identity: str) -> int:
        """The number of queries in a member's JVM that the fence has ended."""
        return len(re.findall(rf"MicroBatchExecution .*{_ENDED}\n.*FencedException", self._jvm_log(identity)))

    def refused(self, identity: str) -> int:
        """The number of queries ended by the fence or by Spark's own check of what others have written."""
        return len(re.findall(rf"MicroBatchExecution .*{_ENDED}", self._jvm_log(identity)))

    def _jvm_log(self, identity: str) -> str:
        return (self.group.directory / identity / "jvm.log").read_text(errors="replace")

    # --- tasks ---

    def _tasks(self) -> list[dict[str, Any]]:
        return [task for task in self.leader.status().get("tasks", ()) if task["task"] >= 0]

    def tasks_of(self, identity: str) -> set[str]:
        return {task["name"] for task in self._tasks() if task["member"] == identity}

    def running_at(self, identity: str) -> set[str]:
        running = (task for task in self._tasks() if task["state"] == "RUNNING")
        return {task["name"] for task in running if task["member"] == identity}

    def queries_in(self, tasks: set[str]) -> set[str]:
        """The tasks among them that are queries of the JVM."""
        queries = {pipeline.slug() for pipeline in self.pipelines if pipeline.is_query}
        return {task["name"] for task in self._tasks() if task["connector"] in queries} & tasks

    def executors(self) -> dict[str, list[psutil.Process]]:
        """The executors of each member's application, by its id."""
        found: dict[str, list[psutil.Process]] = {}
        for process in executors():
            # Those that have ended have no arguments any more.
            with suppress(psutil.NoSuchProcess, ValueError):
                command = process.cmdline()
                found.setdefault(command[command.index("--app-id") + 1], []).append(process)
        return found

    def tasks_max(self, count: int) -> None:
        """Regroups every connector and waits until exactly those tasks run."""
        self._revision += 1
        configs = {name: DesiredConnector(config) for name, config in self._configs(count).items()}
        self.leader.set_desired(Desired(self._revision, configs))
        wanted = count * len(self.pipelines)

        def regrouped() -> bool:
            tasks = self._tasks()
            assert len(tasks) == wanted, [task["name"] for task in tasks]
            return {task["state"] for task in tasks} == {"RUNNING"}

        eventually(regrouped, PATIENCE_S, f"{wanted} tasks run")

    def failed_with(self, text: str) -> set[str]:
        """The connectors with tasks that have failed with this text and not restarted yet."""
        return {task["connector"] for task in self._tasks() if text in task["trace"]}

    def settled(self) -> None:
        """Waits until both members run one task of each connector and nothing moves."""

        def calm() -> bool:
            wanted = len(self.pipelines) * (UNITS // 2)
            for worker in WORKERS:
                running = self.running_at(worker)
                assert len(running) == wanted, f"{worker} runs {sorted(running)}"
            return bool(self.leader.status()["settled"])

        eventually(calm, PATIENCE_S, "one task of each connector at each member")

    # --- records ---

    def feed(self, count: int = FEW) -> None:
        for pipeline in self.pipelines:
            pipeline.feed(count)

    def contents(self) -> dict[str, Counter[str]]:
        return {pipeline.slug(): pipeline.found() for pipeline in self.pipelines}

    def flowing(self) -> None:
        """Waits until all pipelines are working on a backlog."""
        before = self.contents()
        self.feed(BACKLOG)
        for pipeline in self.pipelines:
            known = before[pipeline.slug()].total()
            eventually(
                lambda p=pipeline, known=known: p.found().total() > known, 90, f"{pipeline.slug()} flows"
            )

    def complete(self) -> None:
        for pipeline in self.pipelines:
            eventually(pipeline.complete, PATIENCE_S, f"all of {pipeline.slug()} is there")

    def at_rest(self) -> None:
        """Waits until everything is there, and no query has begun a batch or is about to."""
        self.complete()

        def rests() -> bool:
            for pipeline in self.pipelines:
                if pipeline.is_query:
                    queries = [each.parent for each in (self.checkpoints / pipeline.slug()).rglob("commits")]
                    left = [str(each) for each in queries if _has_a_batch_left(each)]
                    assert queries, f"{pipeline.slug()} has no checkpoint"
                    assert not left, left
            return True

        eventually(rests, PATIENCE_S, "the last batch of each query is committed")

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        members = [self.member(worker) for worker in WORKERS]
        with self.disk.full([pid for member in members for pid in (member.jvm(), member.child.pid)]):
            yield


def _has_a_batch_left(query: Path) -> bool:
    """Whether a batch is begun, or follows without rows: it does where the last one moved the watermark."""
    begun, committed = (
        max((int(entry.name) for entry in (query / kind).iterdir() if entry.name.isdigit()), default=-1)
        for kind in ("offsets", "commits")
    )
    if begun < 0 or begun != committed:
        return begun != committed
    offsets = json.loads((query / "offsets" / str(begun)).read_text().splitlines()[1])
    commit = json.loads((query / "commits" / str(begun)).read_text().splitlines()[1])
    return bool(offsets["batchWatermarkMs"] != commit["nextBatchWatermarkMs"])
