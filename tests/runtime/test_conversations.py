"""Every runtime answers start, stop, pause and resume in the same way, with Spark and without."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cooperator.model import TaskId
from cooperator.runtime import Runtime, RuntimeSettings, TaskSpec
from cooperator.runtime.inline import InlineRuntime
from tests.runtime.heard import Heard


@dataclass
class Bench:
    """A runtime, its events, and one task."""

    runtime: Runtime
    heard: Heard
    good: TaskSpec
    broken: TaskSpec
    reason: str

    @property
    def task(self) -> TaskId:
        return self.good.task

    def hears(self, *expected: tuple[str, int]) -> None:
        self.heard.wait(self.task, *expected, timeout_s=180)


@pytest.fixture
def without_spark(settings: RuntimeSettings, unique: str) -> Iterator[Bench]:
    heard = Heard()
    runtime = InlineRuntime(settings, heard)
    task = TaskId(unique, 0)
    config = {"connector.class": "noop", "task.units": "unit-0,unit-1", "stop.delay.ms": "100"}
    broken = {**config, "start.failure": "no such thing"}
    yield Bench(runtime, heard, TaskSpec(task, config), TaskSpec(task, broken), "no such thing")
    assert runtime.close(10)


@pytest.fixture
def with_spark(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> Bench:
    spark = request.getfixturevalue("spark")
    task = TaskId(unique, 0)
    (tmp_path / "in").mkdir()
    spark.create_topic(unique, 1)
    config = {
        "connector.class": "files-to-kafka",
        "task.units": "bucket-0-of-2,bucket-1-of-2",
        "path": str(tmp_path / "in"),
        "topic": unique,
    }
    broken = {
        "connector.class": "kafka-to-files",
        "task.units": f"{unique}-0",
        "path": str(tmp_path / "out"),
        "topics": unique,
        "sql": "SELECT nothing FROM input",
    }
    return Bench(spark.runtime, spark.heard, TaskSpec(task, config), TaskSpec(task, broken), "nothing")


@pytest.fixture(params=["without_spark", pytest.param("with_spark", marks=pytest.mark.real)])
def bench(request: pytest.FixtureRequest) -> Bench:
    chosen: Bench = request.getfixturevalue(request.param)
    return chosen


# Both runtimes are one engine; with Spark, attempts begin and end slowly, and fail in its ways.
NOT_WITHOUT = pytest.mark.long(
    "tests/runtime/test_conversations.py::test_a_task_starts_pauses_resumes_and_stops"
)
QUICKLY = pytest.mark.parametrize(
    "bench",
    ["without_spark", pytest.param("with_spark", marks=[pytest.mark.real, NOT_WITHOUT])],
    indirect=True,
)


def test_a_task_starts_pauses_resumes_and_stops(bench: Bench) -> None:
    bench.runtime.start(replace(bench.good, paused=True), 1)
    bench.hears(("paused", 1))
    bench.runtime.resume(bench.task)
    bench.hears(("paused", 1), ("started", 1))
    bench.runtime.pause(bench.task)
    bench.hears(("paused", 1), ("started", 1), ("paused", 1))
    bench.runtime.stop(bench.task, 1)
    bench.hears(("paused", 1), ("started", 1), ("paused", 1), ("stopped", 1))


def test_a_task_that_is_still_starting_can_be_stopped(bench: Bench) -> None:
    bench.runtime.start(bench.good, 1)
    bench.runtime.stop(bench.task, 1)
    bench.hears(("stopped", 1))


@QUICKLY
def test_a_stop_that_overtakes_its_start_wins(bench: Bench) -> None:
    bench.runtime.stop(bench.task, 1)
    bench.runtime.start(bench.good, 1)
    bench.runtime.start(bench.good, 2)
    bench.hears(("stopped", 1), ("started", 2))
    bench.runtime.stop(bench.task, 2)
    bench.hears(("stopped", 1), ("started", 2), ("stopped", 2))


@QUICKLY
def test_repeated_and_outdated_calls_change_nothing(bench: Bench) -> None:
    for attempt in (5, 5, 4):
        bench.runtime.start(bench.good, attempt)
    bench.hears(("started", 5))
    bench.runtime.stop(bench.task, 4)
    bench.hears(("started", 5), ("stopped", 4))
    bench.runtime.stop(bench.task, 5)
    bench.hears(("started", 5), ("stopped", 4), ("stopped", 5))
    bench.runtime.start(bench.good, 5)
    bench.runtime.stop(bench.task, 5)
    bench.hears(("started", 5), ("stopped", 4), ("stopped", 5), ("stopped", 5))


@QUICKLY
def test_a_newer_attempt_begins_when_the_older_has_ended(bench: Bench) -> None:
    bench.runtime.start(bench.good, 1)
    bench.hears(("started", 1))
    bench.runtime.start(bench.good, 2)
    bench.hears(("started", 1), ("stopped", 1), ("started", 2))
    bench.runtime.stop(bench.task, 3)
    bench.hears(("started", 1), ("stopped", 1), ("started", 2), ("stopped", 2), ("stopped", 3))


def test_a_failure_is_reported_with_its_trace_and_ends_the_attempt(bench: Bench) -> None:
    bench.runtime.start(bench.broken, 1)
    bench.hears(("failed", 1))
    assert bench.reason in bench.heard.traces[bench.task, 1]
    bench.runtime.start(bench.good, 2)
    bench.hears(("failed", 1), ("started", 2))
    bench.runtime.stop(bench.task, 2)
    bench.hears(("failed", 1), ("started", 2), ("stopped", 2))
