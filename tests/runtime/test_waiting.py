"""A starting task, and an instance that looks for units, report what they wait for."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cooperator.connectors import find, postgres
from cooperator.connectors.base import Cancelled, Connector, RunningUnit, UnitContext
from cooperator.connectors.options import Options
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import GroupCluster
from cooperator.model import INSTANCE, TaskId
from cooperator.runtime import TaskSpec, attempt, jobs, progress
from cooperator.runtime.attempt import Run
from cooperator.runtime.failures import Failures
from cooperator.runtime.inline import InlineRuntime
from cooperator.runtime.jobs import Work, run_instance, run_task
from cooperator.runtime.lag import LagPool
from tests.harness.support import eventually
from tests.runtime.heard import Heard, texts_of

TASK, INSTANCE_OF_IT = TaskId("orders", 0), TaskId("orders", INSTANCE)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class RunningJob:
    """A job on a thread until it is cancelled. ``told`` has its reports in order."""

    def __init__(self, work: Work, job: Callable[[Run], None]) -> None:
        self.reports: list[dict[str, Any]] = []
        self.has_started = threading.Event()
        self.run = Run(self.has_started.set, lambda text: self.reports.append(json.loads(text)))
        self._thread = threading.Thread(target=job, args=(self.run,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.run.cancelled.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def last(self, key: str) -> str:
        return str(self.reports[-1].get(key, "")) if self.reports else ""

    def waits(self) -> str:
        return texts_of(self.reports[-1]) if self.reports else ""


@contextmanager
def starting(
    connector: Connector[Any],
    config: Mapping[str, str],
    directory: Path,
    session: Callable[[threading.Event], Any] = lambda halt: None,
    task: TaskId = TASK,
) -> Iterator[RunningJob]:
    lags = LagPool()
    work = Work(
        task=task,
        connector=connector,
        config=config,
        group_id="lake",
        owner="lake-0/one/1",
        checkpoints=directory,
        resolver=Resolver({}, bootstrap_servers="127.0.0.1:1"),
        cluster=GroupCluster(Resolver({})),
        session=session,
        lags=lags,
        failures=Failures(),
    )
    job = (
        (lambda run: run_instance(work, Heard(), run))
        if task.is_instance
        else lambda run: run_task(work, run)
    )
    begun = RunningJob(work, job)
    try:
        yield begun
    finally:
        begun.end()
        lags.close()


def rows_of(port: int, **more: str) -> dict[str, str]:
    return {
        "connector.class": "postgres-to-kafka",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/shop",
        "tables": "orders",
        "mode": "incrementing",
        **more,
    }


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_REPORT_S", 0.05)
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "OVER_AFTER_S", 0.0)
    monkeypatch.setattr(postgres, "_CONNECT_S", 1)


def test_an_unreachable_database_is_reported_during_the_wait(silent_port: int, tmp_path: Path) -> None:
    config = rows_of(silent_port, **{"task.units": "orders"})
    with starting(find("postgres-to-kafka"), config, tmp_path) as begun:
        waiting = f"waiting for PostgreSQL at 127.0.0.1:{silent_port}: "
        eventually(lambda: begun.waits() == f"{waiting}no answer yet")
        assert begun.last("note") == "opening orders"
        eventually(lambda: "timeout" in begun.waits())
        assert all(text.startswith(waiting) for text in map(texts_of, begun.reports) if text)
        assert not begun.has_started.is_set()


def test_an_unreachable_database_is_reported_within_ten_seconds_with_the_times_of_production(
    silent_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as long as one attempt to connect, since those times are what it checks."""
    monkeypatch.undo()
    assert jobs._REPORT_S + postgres._CONNECT_S < 10, "the reason of a failed attempt is told in time, too"
    config = rows_of(silent_port, **{"task.units": "orders"})
    with starting(find("postgres-to-kafka"), config, tmp_path) as begun:
        waiting = f"waiting for PostgreSQL at 127.0.0.1:{silent_port}: no answer yet"
        eventually(lambda: begun.waits() == waiting, 10)
        assert not begun.has_started.is_set()


def test_an_instance_reports_it_while_it_looks_for_units(silent_port: int, tmp_path: Path) -> None:
    with starting(find("postgres-to-kafka"), rows_of(silent_port), tmp_path, task=INSTANCE_OF_IT) as begun:
        eventually(
            lambda: begun.waits() == f"waiting for PostgreSQL at 127.0.0.1:{silent_port}: no answer yet"
        )
        eventually(lambda: "timeout" in begun.waits())
        seen = len(begun.reports)
        eventually(lambda: len(begun.reports) >= seen + 2, what="it looks again")
        assert "no answer yet" not in str(begun.reports[seen:]), "the reason stays during retries"


class Slow(Connector[Options]):
    """A connector whose unit waits for Spark, which is not there."""

    options: ClassVar[type[Options]] = Options

    def units(self, options: Options, say: Callable[[str], None]) -> Sequence[str]:
        return ["a"]

    def open(self, options: Options, context: UnitContext) -> RunningUnit:
        context.session()
        context.cancelled.wait()
        raise Cancelled


def test_a_task_that_waits_for_spark_reports_it(tmp_path: Path) -> None:
    is_up = threading.Event()
    config = {"connector.class": "slow", "task.units": "a,b,c,d"}
    with starting(Slow(), config, tmp_path, session=lambda halt: is_up.wait()) as begun:
        eventually(lambda: begun.waits() == "waiting for Spark to start")
        assert begun.last("note") == "opening a, b, c and 1 more"
        is_up.set()
        eventually(lambda: not begun.waits())
        assert begun.last("note"), "its units are still opening"


def test_a_task_whose_pattern_a_later_release_refuses_is_opened(tmp_path: Path) -> None:
    config = {"connector.class": "kafka-to-files", "topics.regex": "(?!a)b.*", "path": f"{tmp_path}/out"}

    def session(halt: threading.Event) -> None:
        halt.wait()
        raise Cancelled

    with starting(find("kafka-to-files"), {**config, "task.units": "bc-0"}, tmp_path, session) as begun:
        eventually(lambda: begun.waits() == "waiting for Spark to start")


def test_an_attempt_that_waits_for_its_predecessor_reports_it(
    inline: InlineRuntime, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "_PATIENCE_S", 0.05)
    task = TaskId("noop", 0)
    spec = TaskSpec(task, {"connector.class": "noop", "task.units": "unit-0", "stop.delay.ms": "400"})
    inline.start(spec, 1)
    heard.wait(task, ("started", 1))
    inline.start(spec, 2)
    eventually(lambda: heard.waits_of(task) == "waiting for the previous attempt to end")
    heard.wait(task, ("started", 1), ("stopped", 1), ("started", 2))
