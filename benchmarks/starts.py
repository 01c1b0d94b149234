#!/usr/bin/env python3
"""Measures starts: of a member, of a task with many units, of many light tasks.

    python -m benchmarks.starts member   a member's own start piece by piece: imports, JVM, session, queries
    python -m benchmarks.starts units    100 units of a class on a warm member, to the last one's first batch
    python -m benchmarks.starts light    900 tasks of the class noop on three members, until all run

Wall time and processor time stand side by side: other work on the machine changes the second less.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.pipelines.copying import create_table
from benchmarks.pipelines.job import ROOT, Job, Sink
from benchmarks.pipelines.pieces import CLASSES, PIECES, config_of, runtime_of
from benchmarks.pipelines.records import Lots, Rows, create_topics
from benchmarks.pipelines.report import write_section
from benchmarks.pipelines.sinks import probe_of
from benchmarks.pipelines.surroundings import Surroundings, machine, surroundings
from benchmarks.throughput import RESULTS
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from cooperator.runtime import TaskSpec
from tests.harness.member_group import MemberGroup
from tests.runtime.heard import Heard

Found = tuple[list[dict[str, Any]], str]
"""The repetitions, and a table of them in Markdown."""

_LIMIT_S: Final = 300.0
_LOOK_S: Final = 0.01


@contextmanager
def repeated(work: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Does ``work`` again and again in a thread, each time after a pause, until the context ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(pause_s):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def until(condition: Callable[[], object], what: str) -> float:
    """Wait; returns ``time.monotonic`` of when it was seen."""
    deadline = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_LIMIT_S:g} s: {what}")
        time.sleep(_LOOK_S)
    return time.monotonic()


# --- a member's own start ---


def member(options: argparse.Namespace) -> Found:
    """Each start is a process of its own; returns seconds from its begin to the end of each piece."""
    found = []
    with surroundings(None, options.results / "failures") as around:
        for number in range(options.repetitions):
            jobs = [_job(around, f"start-{number}-{task}", "kafka", 1) for task in range(2)]
            files = [str(job.write()) for job in jobs]
            command = [sys.executable, "-m", "benchmarks.pipelines.pieces", *files]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "operator"))),
                "STARTED": str(time.monotonic()),
            }
            output = subprocess.run(
                command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
            ).stdout
            found.append(json.loads(output.splitlines()[-1]))
            _say(json.dumps(found[-1]))
    lines = ["| piece | s | processor s, Python | processor s, JVM |", "|---|---:|---:|---:|"]
    for piece in PIECES:
        cells = (statistics.median(run[piece][each] for run in found) for each in range(3))
        lines.append(f"| {piece} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    whole = [sum(run[piece][0] for piece in PIECES) for run in found]
    return found, "\n".join([*lines, f"| all | {statistics.median(whole):.2f} | | |"])


# --- many units, many tasks ---


def units(options: argparse.Namespace) -> Found:
    """Each unit has a record. Measured from the order to start to the rows of all units in the sink."""
    found = []
    with surroundings(None, options.results / "failures") as around:
        for number in range(options.repetitions):
            for sink in options.sinks.split(","):
                for tasks in map(int, options.tasks.split(",")):
                    found.append(_units(around, f"{sink}-{tasks}-{number}", sink, tasks, options.units))
                    _say(json.dumps(found[-1]))
    lines = ["| class | tasks | all units' first batch s | processor s |", "|---|---:|---:|---:|"]
    for case in dict.fromkeys((each["class"], each["tasks"]) for each in found):
        runs = [each for each in found if (each["class"], each["tasks"]) == case]
        cells = [_spread([run[name] for run in runs]) for name in ("first_batch_s", "cpu_s")]
        lines.append(f"| `{case[0]}` | {case[1]} | {' | '.join(cells)} |")
    return found, "\n".join(lines)


def _units(around: Surroundings, name: str, sink: Sink, tasks: int, count: int) -> dict[str, Any]:
    heard = Heard()
    warm_up, job = _job(around, f"{name}-warm", sink, 1), _job(around, name, sink, count)
    runtime = runtime_of(job, heard)
    try:
        session: Any = runtime.session(threading.Event())
        jvm = psutil.Process(session.sparkContext._gateway.proc.pid)
        # A member is warm after its first task.
        runtime.start(TaskSpec(TaskId("warm", 0), config_of(warm_up, [f"{warm_up.topic}-0"])), 1)
        probe = probe_of(warm_up)
        until(lambda: probe.count() > 0, f"a first batch: {heard.traces}")
        probe = probe_of(job)
        before, began = _used_s(jvm), time.monotonic()
        for number in range(tasks):
            mine = [f"{job.topic}-{unit}" for unit in range(number, count, tasks)]
            runtime.start(TaskSpec(TaskId("many", number), config_of(job, mine)), 1)

        def all_there() -> bool:
            if heard.traces:
                raise SystemExit(str(heard.traces))
            return probe.mark() >= count and probe.count() >= count

        arrived = until(all_there, f"a row of each unit: {heard.texts}")
        return {
            "class": CLASSES[sink],
            "tasks": tasks,
            "units": count,
            "first_batch_s": round(arrived - began, 2),
            "cpu_s": round(_used_s(jvm) - before, 2),
        }
    finally:
        runtime.close(30)


def light(options: argparse.Namespace) -> Found:
    """Members that have joined get ``--count`` tasks of ``--connectors`` connectors at once."""
    found = []
    for number in range(options.repetitions):
        with tempfile.TemporaryDirectory(prefix="cooperator-starts-") as scratch, _broker(scratch) as broker:
            found.append(_light(broker, Path(scratch), f"light-{number}", options))
            _say(json.dumps(found[-1]))
    shown_s = _spread([each["running_s"] for each in found])
    lines = ["| tasks | members | all running s | processor s of members |", "|---:|---:|---:|---:|"]
    spent_s = _spread([each["members_cpu_s"] for each in found])
    return found, "\n".join([*lines, f"| {options.count} | {options.members} | {shown_s} | {spent_s} |"])


def _light(broker: str, root: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    from cooperator.model import Desired, DesiredConnector

    identities = [f"m-{number}" for number in range(options.members)]
    group = MemberGroup(broker, root, name)
    try:
        leader = group.leader({}, identities)
        members = [group.member(identity, runtime=options.runtime) for identity in identities]

        def joined() -> bool:
            status = leader.status()
            # A leader that has just begun has neither.
            there = {each["identity"] for each in status.get("members", ())}
            return there >= set(identities) and bool(status.get("settled"))

        until(joined, "all members have joined")
        if options.runtime == "spark":
            until(lambda: all("is up after" in _log_of(group, each) for each in identities), "warm members")
        each = options.count // options.connectors
        config = {"connector.class": "noop", "units": str(each), "tasks.max": str(each)}
        wanted = {f"light-{number}": DesiredConnector(config) for number in range(options.connectors)}
        before, began = [_tree_s(member.child.pid) for member in members], time.monotonic()
        leader.set_desired(Desired(2, wanted))

        def running() -> int:
            return sum(task["state"] == "RUNNING" and task["task"] >= 0 for task in leader.status()["tasks"])

        ended = until(lambda: running() >= each * options.connectors, "all tasks run")
        spent = sum(_tree_s(member.child.pid) for member in members) - sum(before)
        return {
            "tasks": each * options.connectors,
            "connectors": options.connectors,
            "members": options.members,
            "running_s": round(ended - began, 2),
            "members_cpu_s": round(spent, 2),
        }
    finally:
        group.close()


# --- parts ---


def _job(around: Surroundings, name: str, sink: Sink, partitions: int) -> Job:
    """A job with a directory of its own, and a record in each partition of its topic."""
    directory = around.root / name
    directory.mkdir()
    database = around.database() if sink == "postgres" else {}
    job = Job(directory, around.bootstrap_servers, name, partitions, sink, database=database)
    topics = [job.topic, job.target] if sink == "kafka" else [job.topic]
    create_topics(around.bootstrap_servers, partitions, *topics)
    Lots(around.bootstrap_servers, job.topic, partitions, Rows(100)).warm(partitions)
    if sink == "postgres":
        create_table(job)
    return job


@contextmanager
def _broker(scratch: str) -> Iterator[str]:
    broker = EmbeddedBroker(Path(scratch) / "broker")
    broker.start()
    try:
        yield broker.bootstrap_servers
    finally:
        broker.kill()


def _log_of(group: MemberGroup, identity: str) -> str:
    log = group.directory / f"{identity}.log"
    return log.read_text(errors="replace") if log.exists() else ""


def _used_s(jvm: psutil.Process) -> float:
    own, java = os.times(), jvm.cpu_times()
    return own.user + own.system + java.user + java.system


def _tree_s(pid: int) -> float:
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _spread(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f} to {max(values):.2f})"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_TITLES: Final = {
    "member": "The start of a member, piece by piece",
    "units": "Starts of many units on a warm member",
    "light": "Starts of many light tasks",
}
COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], Found]]] = {
    "member": member,
    "units": units,
    "light": light,
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("--repetitions", type=int, default=3)
        command.add_argument("--results", type=Path, default=RESULTS)
        if name == "units":
            command.add_argument("--sinks", default="kafka,files,postgres")
            command.add_argument("--tasks", default="1,10", help="numbers of tasks")
            command.add_argument("--units", type=int, default=100)
        if name == "light":
            command.add_argument("--count", type=int, default=900)
            command.add_argument("--connectors", type=int, default=9)
            command.add_argument("--members", type=int, default=3)
            command.add_argument("--runtime", choices=("spark", "inline"), default="spark")
    options = parser.parse_args(given)
    options.results.mkdir(parents=True, exist_ok=True)
    _say(f"{machine()}")
    found, table = COMMANDS[options.command](options)
    _say(table)
    (options.results / f"starts-{options.command}.json").write_text(json.dumps(found, indent=1) + "\n")
    written_by = f"python -m benchmarks.starts {shlex.join(given)}"
    write_section(options.results, f"starts-{options.command}", _TITLES[options.command], written_by, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
