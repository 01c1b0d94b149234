"""A member's start, piece by piece; as a program, one start. Only what it measures is imported by then."""

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psutil

    from benchmarks.pipelines.job import Job
    from tests.runtime.heard import Heard

PIECES: Final = (
    "interpreter",
    "imports of the command",
    "imports of the member",
    "imports of pyspark",
    "JVM",
    "SparkContext",
    "session",
    "first query",
    "second query",
    "first batch of a task",
    "first batch of a second task",
)
CLASSES: Final = {"kafka": "kafka-to-kafka", "files": "kafka-to-files", "postgres": "kafka-to-postgres"}
_LOOK_S: Final = 0.02
_LIMIT_S: Final = 120.0


class Pieces:
    """The pieces of this process's start: seconds, and processor seconds of Python and of its JVM."""

    def __init__(self, started: float) -> None:
        """``started``: when the process was begun, on ``time.monotonic``."""
        self.found: dict[str, tuple[float, float, float]] = {}
        self._at, self._python_s, self._java_s = started, 0.0, 0.0
        self.jvm: psutil.Process | None = None

    def end(self, piece: str) -> None:
        now, own = time.monotonic(), os.times()
        python_s, java_s = own.user + own.system, self._java_s
        if self.jvm is not None:
            times = self.jvm.cpu_times()
            java_s = times.user + times.system
        spent = (now - self._at, python_s - self._python_s, java_s - self._java_s)
        self.found[piece] = (round(spent[0], 3), round(spent[1], 2), round(spent[2], 2))
        self._at, self._python_s, self._java_s = time.monotonic(), python_s, java_s


def start(files: list[str], pieces: Pieces) -> None:
    """Start as a member does, but one piece after the other; then a task for each job."""
    import cooperator.cli.worker

    pieces.end(PIECES[1])
    import cooperator.agent.main
    import cooperator.runtime.spark  # noqa: F401

    pieces.end(PIECES[2])
    import pyspark
    import pyspark.sql
    from pyspark import java_gateway

    pieces.end(PIECES[3])
    from pathlib import Path

    import psutil

    from benchmarks.pipelines.job import Job
    from benchmarks.pipelines.sinks import probe_of
    from cooperator.model import TaskId
    from cooperator.runtime import TaskSpec
    from tests.runtime.heard import Heard

    gateways: Any = java_gateway
    contexts: Any = pyspark.SparkContext
    launch, context_of = gateways.launch_gateway, contexts.__init__

    def launched(*arguments: Any) -> Any:
        gateway = launch(*arguments)
        pieces.jvm = psutil.Process(gateway.proc.pid)
        pieces.end(PIECES[4])
        return gateway

    def made(context: Any, *arguments: Any, **named: Any) -> None:
        context_of(context, *arguments, **named)
        pieces.end(PIECES[5])

    gateways.launch_gateway = launched
    contexts.__init__ = made
    jobs = [Job.read(Path(file)) for file in files]
    heard = Heard()
    runtime = runtime_of(jobs[0], heard)
    session = runtime.session(threading.Event())
    pieces.end(PIECES[6])
    for piece in PIECES[7:9]:
        session.range(10).selectExpr("id + 1").collect()
        pieces.end(piece)
    for job, piece in zip(jobs, PIECES[9:], strict=True):
        probe, deadline = probe_of(job), time.monotonic() + _LIMIT_S
        runtime.start(TaskSpec(TaskId(job.topic, 0), config_of(job, [f"{job.topic}-0"])), 1)
        while not probe.mark():
            if time.monotonic() > deadline:
                raise SystemExit(f"no batch: {heard.traces} {heard.texts}")
            time.sleep(_LOOK_S)
        pieces.end(piece)
    runtime.close(30)


def config_of(job: "Job", units: list[str]) -> dict[str, str]:
    """The options of a task with these units."""
    from benchmarks.pipelines import ours

    config = ours.config_of(job)
    if job.sink == "files":
        config["rotate.interval.ms"] = "0"
    if job.sink == "postgres":
        config["connection.password"] = job.database["password"]
    return {"connector.class": CLASSES[job.sink], "task.units": ",".join(units), **config}


def runtime_of(job: "Job", heard: "Heard") -> Any:
    """A member's runtime, in this process."""
    from cooperator.runtime import RuntimeSettings
    from cooperator.runtime.spark import SparkRuntime

    settings = RuntimeSettings(
        member="start-0",
        incarnation="1",
        checkpoints=job.directory / "checkpoints",
        state_dir=job.directory / "state",
        group_id=f"starts-{job.topic}",
        bootstrap_servers=job.bootstrap_servers,
    )
    return SparkRuntime(settings, heard)


def main(arguments: list[str]) -> int:
    pieces = Pieces(float(os.environ["STARTED"]))
    pieces.end(PIECES[0])
    start(arguments, pieces)
    sys.stdout.write(f"{json.dumps(pieces.found)}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
