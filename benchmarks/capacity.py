"""Measures how many tasks a member can carry: memory and processor time, on a real Spark with its defaults.

``python -m benchmarks.capacity --steps 10,25,50 --seconds 60``: one member, one broker. Each task copies one
partition into parquet files. Each step adds tasks; then all of them get records at every trigger ("loaded"),
and then none ("idle"). The benchmark measures processor time and memory of the member's processes, so other
load on the machine changes little but the time to start. It ends with conclusions for one member.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from cooperator.connectors.topics import ensure_topic
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.spark import SparkRuntime

MB = 2**20
CORE_USAGE_LIMIT = 0.5
"""The mean processor use to plan for, so that a member can catch up after an absence."""


@dataclass(frozen=True)
class Step:
    """``start_s`` is the time until all tasks of the step have run a first batch. Memory is in megabytes:
    ``resident`` of Python and JVM, ``live`` on the JVM's heap after a full collection. ``threads`` are the
    JVM's. ``idle_cores`` are the processors in use without input; ``batch_s`` are the processor seconds of
    one batch."""

    tasks: int
    start_s: float
    resident_mb: int
    live_mb: int
    threads: int
    idle_cores: float
    batches: int
    batch_s: float


class BatchCounter:
    """A listener that counts the batches of every task and keeps failures."""

    def __init__(self) -> None:
        self.batches: dict[TaskId, int] = {}
        self.traces: dict[TaskId, str] = {}
        self.lags: dict[TaskId, int] = {}

    def started(self, task: TaskId, attempt: int) -> None: ...
    def paused(self, task: TaskId, attempt: int) -> None: ...
    def stopped(self, task: TaskId, attempt: int) -> None: ...
    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None: ...
    def warmed_up(self) -> None: ...
    def warm_up_failed(self) -> None: ...

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self.traces[task] = trace

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        report = json.loads(text)
        units: dict[str, dict[str, int]] = report.get("units", {})
        self.batches[task] = sum(unit["batch"] + 1 for unit in units.values())
        self.lags[task] = report.get("lag", -1)

    def total(self) -> int:
        return sum(self.batches.values())


class Member:
    """This process and its JVM, as one member runs them."""

    def __init__(self, broker: str, root: Path, heap_mb: int, trigger_ms: int, partitions: int) -> None:
        self.options = BatchCounter()
        self._root, self._trigger_ms, self._partitions = root, trigger_ms, partitions
        settings = RuntimeSettings(
            member="bench-0",
            incarnation="1",
            checkpoints=root / "checkpoints",
            state_dir=root / "state",
            bootstrap_servers=broker,
            heap_mb=heap_mb,
        )
        self._runtime = SparkRuntime(settings, self.options)
        session = self._runtime.session(threading.Event())
        self._jvm: Any = session.sparkContext._jvm
        gateway: Any = session.sparkContext._gateway
        self._processes = (psutil.Process(), psutil.Process(gateway.proc.pid))
        self._producer = Producer({"bootstrap.servers": broker})
        self.tasks = 0

    def grow(self, tasks: int) -> float:
        """Start tasks up to that number; returns the seconds until every one of them has done a batch."""
        began = time.monotonic()
        self.load(tasks)
        for number in range(self.tasks, tasks):
            self._runtime.start(TaskSpec(TaskId("bench", number), self._config(number)), 1)
        self.tasks = tasks
        while not all(self.options.batches.get(TaskId("bench", n), 0) for n in range(tasks)):
            if self.options.traces:
                raise SystemExit(next(iter(self.options.traces.values())))
            time.sleep(0.2)
        return time.monotonic() - began

    def load(self, tasks: int | None = None) -> None:
        """Send a few records to every task."""
        for number in range(tasks or self.tasks):
            for _ in range(10):
                self._producer.produce("bench", b"x" * 200, partition=number)
        self._producer.flush(30)

    def used_s(self) -> float:
        """Processor seconds of both processes."""
        times = [process.cpu_times() for process in self._processes]
        return sum(spent.user + spent.system for spent in times)

    def memory_mb(self) -> tuple[int, int, int]:
        """Resident megabytes, live megabytes on the heap, and the threads of the JVM."""
        machine = self._jvm.java.lang.Runtime.getRuntime()
        self._jvm.java.lang.System.gc()
        live = machine.totalMemory() - machine.freeMemory()
        resident = sum(process.memory_info().rss for process in self._processes)
        return resident // MB, live // MB, self._processes[1].num_threads()

    def close(self) -> None:
        self._runtime.close(120)

    def _config(self, number: int) -> dict[str, str]:
        return {
            "connector.class": "kafka-to-files",
            "topics": "bench",
            "path": str(self._root / "out"),
            "trigger.interval.ms": str(self._trigger_ms),
            "rotate.interval.ms": "0",
            "task.units": f"bench-{number}",
        }


def measured(member: Member, tasks: int, seconds: float, trigger_ms: int) -> Step:
    """Measure one step, loaded before idle, so that the JVM's remaining compilation happens in between."""
    start_s = member.grow(tasks)
    settle(member, trigger_ms)
    batches = member.options.total()
    before_s, began = member.used_s(), time.monotonic()
    while time.monotonic() < began + seconds:
        member.load()
        time.sleep(trigger_ms / 1000)
    settle(member, trigger_ms)
    loaded_s, used_s = time.monotonic() - began, member.used_s() - before_s
    done = member.options.total() - batches
    before_s, began = member.used_s(), time.monotonic()
    time.sleep(seconds)
    idle_cores = (member.used_s() - before_s) / (time.monotonic() - began)
    batch_s = (used_s - idle_cores * loaded_s) / max(done, 1)
    resident_mb, live_mb, threads = member.memory_mb()
    return Step(
        tasks, round(start_s, 1), resident_mb, live_mb, threads, round(idle_cores, 3), done, round(batch_s, 3)
    )


def settle(member: Member, trigger_ms: int) -> None:
    """Wait until no task is behind and none has done a batch for a while."""
    seen, since = member.options.total(), time.monotonic()
    while any(member.options.lags.values()) or time.monotonic() < since + max(8.0, 3 * trigger_ms / 1000):
        time.sleep(0.5)
        if member.options.total() != seen:
            seen, since = member.options.total(), time.monotonic()


def conclusions(steps: Sequence[Step], base: Step, trigger_ms: int) -> Iterator[str]:
    """The resources that a member needs per task, from the slope between the first and the last step."""
    first, last = steps[0], steps[-1]
    more = last.tasks - first.tasks
    if more:
        live = (last.live_mb - first.live_mb) / more
        beside = ((last.resident_mb - last.live_mb) - (first.resident_mb - first.live_mb)) / more
        yield f"heap: {live:.1f} MB live a task; beside the heap some {max(beside, 0):.1f} MB a task"
    yield f"a member without tasks: {base.resident_mb} MB resident, {base.live_mb} MB live on the heap"
    idle = last.idle_cores / last.tasks
    for trigger_s in sorted({trigger_ms / 1000, 5.0, 30.0}):
        busy = idle + last.batch_s / trigger_s
        yield (
            f"by processor, at {CORE_USAGE_LIMIT:.0%} of it: {CORE_USAGE_LIMIT / busy:.0f} tasks a core "
            f"where each has a batch every {trigger_s:g} s"
        )
    yield f"{CORE_USAGE_LIMIT / idle:.0f} tasks a core where nothing comes"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", default="10,25,50", help="numbers of tasks, growing")
    parser.add_argument("--seconds", type=float, default=60, help="how long each phase is measured")
    parser.add_argument("--trigger-ms", type=int, default=1_000, help="trigger.interval.ms of the tasks")
    parser.add_argument("--heap-mb", type=int, default=1_024, help="spec.spark.heapMb")
    options = parser.parse_args(arguments)
    numbers = [int(number) for number in options.steps.split(",")]
    say = sys.stdout.write
    say(
        f"{os.cpu_count()} processors, {psutil.virtual_memory().total // 2**30} GiB, heap "
        f"{options.heap_mb} MB, "
        f"a batch every {options.trigger_ms} ms; load of the machine before: {os.getloadavg()[0]:.1f}\n"
    )
    with tempfile.TemporaryDirectory(prefix="cooperator-capacity-") as scratch:
        root = Path(scratch)
        broker = EmbeddedBroker(root / "broker")
        broker.start()
        try:
            ensure_topic({"bootstrap.servers": broker.bootstrap_servers}, "bench", max(numbers), -1)
            member = Member(broker.bootstrap_servers, root, options.heap_mb, options.trigger_ms, max(numbers))
            resident_mb, live_mb, threads = member.memory_mb()
            base = Step(0, 0, resident_mb, live_mb, threads, 0, 0, 0)
            steps = []
            for tasks in numbers:
                steps.append(measured(member, tasks, options.seconds, options.trigger_ms))
                say(json.dumps(asdict(steps[-1])) + "\n")
                sys.stdout.flush()
            say("".join(f"{line}\n" for line in conclusions(steps, base, options.trigger_ms)))
            member.close()
        finally:
            broker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
