#!/usr/bin/env python3
"""Measures moves of a query with state: warm, to a member that has learned it, and cold, back again.

    python -m benchmarks.warm --keys 100000,1000000,2000000 --checkpoints directory

Two members are processes with a Spark each. One runs a query that counts rows by key, over all keys and with
10,000 of them changing each second. The other one learns the state; then the task moves there (warm), and
later back to the first, which has learned nothing (cold). A pause is from the last commit there to the first
commit here. There is no group: what a round adds is measured elsewhere (docs/evidence/article.md).
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipelines.surroundings import machine
from benchmarks.starts import repeated, until
from cooperator.connectors.offsets.unit_log import reached
from cooperator.connectors.places import Place, place_of
from cooperator.model import TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.spark import SparkRuntime
from tests.runtime.heard import Heard
from tests.runtime.s3_server import S3Server

ROOT: Final = Path(__file__).resolve().parent.parent
CHANGES: Final = 10_000
FILL: Final = 500_000
MOST_S: Final = 3.0
"""The limit of a warm pause."""
FLAT_S: Final = 1.0
"""The limit of the growth of warm pauses from small to large states."""
_LOOK_S: Final = 0.01
_DIGEST_BYTES: Final = 128


# --- a member: a process that does what it reads from its standard input ---


def member(arguments: dict[str, Any]) -> None:
    heard = Heard()
    location = arguments["checkpoints"]
    settings = RuntimeSettings(
        member=arguments["name"],
        incarnation="i",
        checkpoints=location if "://" in location else Path(location),
        state_dir=Path(arguments["state_dir"]),
        bootstrap_servers="127.0.0.1:9",
        spark_conf={"spark.sql.streaming.stateStore.maintenanceInterval": f"{arguments['snapshots_s']}s"},
    )
    runtime = SparkRuntime(settings, heard)
    runtime.session(threading.Event())
    attempts = 0
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        order = json.loads(line)
        task = TaskId(order["connector"], 0)
        answer: Any = "done"
        if order["do"] == "start":
            attempts += 1
            runtime.start(TaskSpec(task, order["config"], is_learned=True), attempts)
        elif order["do"] == "stop":
            runtime.stop(task, attempts)
            until(partial(_has_stopped, heard, task, attempts), f"{heard.traces}")
        elif order["do"] == "learn":
            runtime.learn({task: order["config"]})
        elif order["do"] == "learned":
            answer = [[each.bytes_behind, each.state_bytes, each.problem] for each in runtime.learned()]
        print(json.dumps({"answer": answer, "failed": list(heard.traces.values())}), flush=True)  # noqa: T201
    runtime.close(20)


def _has_stopped(heard: Heard, task: TaskId, attempt: int) -> bool:
    return heard.of(task)[-1:] == [("stopped", attempt)]


class Member:
    def __init__(self, name: str, root: Path, checkpoints: str, snapshots_s: int) -> None:
        arguments = {
            "name": name,
            "state_dir": str(root / name),
            "checkpoints": checkpoints,
            "snapshots_s": snapshots_s,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.warm", "--member", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(root / f"{name}.log").open("wb"),
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[str] = self._process.stdin
        self._out: IO[str] = self._process.stdout

    def wait_ready(self) -> None:
        assert self._out.readline().strip() == "ready"

    def do(self, what: str, query: "Query") -> Any:
        order = {"do": what, "connector": query.name, "config": query.config}
        self._in.write(json.dumps(order) + "\n")
        self._in.flush()
        answer = json.loads(self._out.readline())
        if answer["failed"]:
            raise SystemExit(f"a task failed: {answer['failed']}")
        return answer["answer"]

    def close(self) -> None:
        self._in.close()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()


# --- the query, and its moves ---


def _grouping(row_bytes: int) -> dict[str, str]:
    """Counts by the key alone, or also by as many digits that depend on it, in parts of ``_DIGEST_BYTES``."""
    digests = [f"sha2(concat(key, '-{part}'), 512)" for part in range(row_bytes // _DIGEST_BYTES)]
    if not digests:
        return {"transform.sql": "SELECT key, count(*) AS n FROM input GROUP BY key"}
    return {
        "source.sql": f"SELECT key, concat({', '.join(digests)}) AS wide FROM input",
        "transform.sql": "SELECT key, wide, count(*) AS n FROM input GROUP BY key, wide",
    }


class Query:
    """Counts rows by key; ``feed`` adds a file, and ``feeding`` one each second."""

    def __init__(self, keys: int, root: Path, checkpoints: str, row_bytes: int = 0) -> None:
        self.keys = keys
        fewer = 10 if row_bytes else 1
        self._fill, self._changes = FILL // fewer, CHANGES // fewer
        self.name = f"counts-{keys}"
        self._source = root / f"in-{keys}"
        self._source.mkdir()
        self._files = 0
        self._random = random.Random(1)
        self.checkpoint: Place = place_of(checkpoints, {}, os.environ) / self.name / "unit-0"
        self.config = {
            "connector.class": "spark",
            "source.format": "parquet",
            "source.schema": "key LONG",
            "source.options.path": str(self._source),
            "source.options.maxFilesPerTrigger": "1",
            "sink.format": "noop",
            "sink.output.mode": "update",
            **_grouping(row_bytes),
            "trigger.interval.ms": "100",
            "task.units": "unit-0",
        }

    def fill(self) -> None:
        for start in range(0, self.keys, self._fill):
            self.feed(range(start, min(self.keys, start + self._fill)))

    def feed(self, keys: Sequence[int]) -> None:
        hidden = self._source.parent / f"{self.name}.parquet"
        pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), hidden)
        hidden.rename(self._source / f"{self._files:05}.parquet")
        self._files += 1

    def feeding(self) -> AbstractContextManager[None]:
        return repeated(
            lambda: self.feed(self._random.sample(range(self.keys), min(self.keys, self._changes))), 1.0
        )

    def committed(self) -> int:
        return reached(self.checkpoint)[0]

    @property
    def is_read(self) -> bool:
        return self.committed() + 1 >= self._files


class Commits:
    """When each commit was seen first, in seconds of ``time.monotonic``."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.seen: list[tuple[int, float]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Commits":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        last = self._query.committed()
        while not self._done.wait(_LOOK_S):
            if (now := self._query.committed()) > last:
                last = now
                self.seen.append((now, time.monotonic()))


def move(query: Query, there: Member, here: Member) -> dict[str, float]:
    """Moves the task; returns the seconds of the pause and of its part until the owner has stopped."""
    with Commits(query) as commits:
        until(lambda: len(commits.seen) > 1, "commits there")
        there.do("stop", query)
        stopped = time.monotonic()
        last, last_s = commits.seen[-1]
        here.do("start", query)
        until(lambda: commits.seen[-1][0] > last, "a commit here")
        return {"pause_s": commits.seen[-1][1] - last_s, "stop_s": stopped - last_s}


def caught_up(query: Query, member: Member) -> tuple[float, int]:
    """Waits until a member has learned the state; returns its seconds and the state's bytes."""
    began = time.monotonic()
    member.do("learn", query)

    def is_ready() -> bool:
        answer = member.do("learned", query)
        time.sleep(0.1)
        return bool(answer) and answer[0][0] == 0 and answer[0][1] > 0

    ready = until(is_ready, "the state is learned")
    return ready - began, member.do("learned", query)[0][1]


def case(query: Query, one: Member, other: Member, options: argparse.Namespace) -> dict[str, Any]:
    query.fill()
    one.do("start", query)
    until(lambda: query.is_read, "all keys are counted")
    found: dict[str, Any] = {"keys": query.keys, "warm": [], "cold": [], "learned_s": []}
    with query.feeding():
        for _ in range(options.repetitions):
            found["learned_s"].append(caught_up(query, other)[0])
            # It follows for a while: snapshots are uploaded, and old files go.
            time.sleep(options.snapshots_s)
            _, found["state_bytes"] = caught_up(query, other)
            found["warm"].append(move(query, one, other))
            time.sleep(2)
            found["cold"].append(move(query, other, one))
            time.sleep(2)
    one.do("stop", query)
    return found


def judged(cases: Sequence[dict[str, Any]]) -> str:
    """Judges the medians of warm pauses: each within ``MOST_S``, and none grows with the state, whose sizes
    ascend, by more than ``FLAT_S``."""
    pauses = [statistics.median(run["pause_s"] for run in each["warm"]) for each in cases]
    growth_s = max(max(pauses[number:]) - pause for number, pause in enumerate(pauses))
    is_met = max(pauses) <= MOST_S and growth_s <= FLAT_S
    return (
        f"warm pauses: at most {max(pauses):.1f} s (must: {MOST_S:g} s), and at most {growth_s:.1f} s longer "
        f"for a larger state than for a smaller one (must: {FLAT_S:g} s): {'met' if is_met else 'not met'}"
    )


def table(cases: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| keys | state | learned in | pause warm | pause cold |",
        "|---:|---:|---:|---:|---:|",
    ]

    def seconds(values: list[float]) -> str:
        return f"{statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})"

    for each in cases:
        warm, cold = ([run["pause_s"] for run in each[kind]] for kind in ("warm", "cold"))
        state = f"{each['state_bytes'] / 1e6:.0f} MB"
        learned = f"{statistics.median(each['learned_s']):.1f} s"
        lines.append(f"| {each['keys']:,} | {state} | {learned} | {seconds(warm)} | {seconds(cold)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keys", default="100000,1000000,2000000")
    parser.add_argument(
        "--row-bytes", type=int, default=0, help="bytes of a text in each key; fewer keys change then"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--checkpoints", choices=("directory", "s3"), default="directory")
    parser.add_argument(
        "--snapshots-s", type=int, default=60, help="interval of uploads; 60 is Spark's default"
    )
    parser.add_argument("--results", type=Path)
    parser.add_argument("--member", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.member:
        member(json.loads(options.member))
        return 0
    root = Path(tempfile.mkdtemp(prefix="cooperator-warm-"))
    checkpoints, server = str(root / "checkpoints"), None
    if options.checkpoints == "s3":
        server = S3Server(root / "s3")
        os.environ.update(server.environment)
        checkpoints = f"s3a://{server.bucket}/warm"
    one, other = (Member(name, root, checkpoints, options.snapshots_s) for name in ("lake-0", "lake-1"))
    cases = []
    try:
        for each in (one, other):
            each.wait_ready()
        for keys in map(int, options.keys.split(",")):
            cases.append(case(Query(keys, root, checkpoints, options.row_bytes), one, other, options))
            print(json.dumps(cases[-1]), flush=True)  # noqa: T201
    finally:
        one.close()
        other.close()
        if server is not None:
            server.stop()
    print(f"{machine()}\n\n{table(cases)}\n\n{judged(cases)}")  # noqa: T201
    if options.results:
        options.results.write_text(json.dumps({"checkpoints": options.checkpoints, "cases": cases}))
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
