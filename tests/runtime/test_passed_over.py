"""Batches that a sink passes over: their state is made without the sink, also for classes of plug-ins."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from cooperator import connectors
from cooperator.connectors.base import UnitContext
from cooperator.connectors.offsets.unit_log import commit_version, reached, recorded_settings, remove
from cooperator.connectors.options import OptionError
from cooperator.connectors.query import QueryStarts, SparkQuery
from cooperator.connectors.stateful import PROVIDER, ROCKSDB
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.plugins.counts import found
from tests.runtime.spark_bench import SparkBench

OF_PYARROW = pytest.mark.skipif(
    int(pyarrow.__version__.partition(".")[0]) >= 26,
    reason="applyInPandasWithState of Spark 4.1.1 gives pyarrow a float where 26 takes integers only",
)
PASSED_OVER = "assertion failed: CheckpointInfo length: 0, numPartitions: 2"


class Query:
    """A query that runs until it ends with an error, or with none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.isActive = True
        self.lastProgress = None
        self._error: Exception | None = None

    def ends(self, error: str = "") -> None:
        self.isActive, self._error = False, RuntimeError(error) if error else None

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self) -> None:  # noqa: N802
        """It has ended."""


class Unit:
    """A unit whose batch ``newest`` has begun, and ``committed`` is finished."""

    def __init__(self, root: Path) -> None:
        self.checkpoint = root
        self.queries: list[Query] = []
        for log in ("offsets", "commits"):
            (root / log).mkdir()
        self.has("offsets", 0, 1)
        self.has("commits", 0)
        session: Any = None
        context = UnitContext("g", TaskId("c", 0), "u", "o", root, threading.Event(), session, print)
        self.unit = SparkQuery(
            QueryStarts(lambda: self.start("begun"), lambda: self.start("sinkless")), context, None
        )

    def start(self, name: str) -> Any:
        self.queries.append(Query(name))
        return self.queries[-1]

    def has(self, log: str, *batches: int) -> None:
        for batch in batches:
            (self.checkpoint / log / str(batch)).write_text("v1\n{}\n{}")

    def names(self) -> Sequence[str]:
        self.unit.poll()
        return [query.name for query in self.queries]


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return Unit(tmp_path)


def test_a_batch_that_the_sink_has_runs_without_it_and_the_query_goes_on(unit: Unit) -> None:
    unit.queries[-1].ends(PASSED_OVER)
    assert unit.names() == ["begun", "sinkless"]
    assert unit.names() == ["begun", "sinkless"], "it waits for the batch"
    unit.has("commits", 1)
    unit.queries[-1].ends()
    assert unit.names() == ["begun", "sinkless", "begun"]
    unit.has("offsets", 2)
    unit.queries[-1].ends(PASSED_OVER)
    assert unit.names()[-1] == "sinkless", "a later batch is as good"


def test_an_error_after_the_batch_without_its_sink_does_not_matter(unit: Unit) -> None:
    unit.queries[-1].ends(PASSED_OVER)
    unit.unit.poll()
    unit.has("commits", 1)
    unit.queries[-1].ends("scala.Option.get()")
    assert unit.names()[-1] == "begun"


def test_a_batch_that_fails_without_its_sink_ends_the_unit(unit: Unit) -> None:
    unit.queries[-1].ends(PASSED_OVER)
    unit.unit.poll()
    unit.queries[-1].ends("the disk is full")
    with pytest.raises(RuntimeError, match="the disk is full"):
        unit.unit.poll()


def test_more_than_the_one_batch_without_its_sink_ends_the_unit(unit: Unit) -> None:
    unit.queries[-1].ends(PASSED_OVER)
    unit.unit.poll()
    unit.has("offsets", 2)
    unit.has("commits", 1, 2)
    unit.queries[-1].ends()
    with pytest.raises(RuntimeError, match="not only batch 1 ran without its sink; compare sink and source"):
        unit.unit.poll()


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        ("", RuntimeError, "the query was stopped unexpectedly"),
        ("the disk is full", RuntimeError, "the disk is full"),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", OptionError, "whose state is not that of its checkpoint"),
    ],
)
def test_other_ends_are_those_of_the_unit(unit: Unit, error: str, raised: type[Exception], said: str) -> None:
    unit.queries[-1].ends(error)
    with pytest.raises(raised, match=said):
        unit.unit.poll()
    assert [query.name for query in unit.queries] == ["begun"]


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the classes ``counts`` and ``visits``."""
    metadata = tmp_path / "site" / "counts-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: counts\nVersion: 1.0\n")
    classes = {"counts": "Counts", "visits": "Visits"}
    lines = [f"{name} = tests.runtime.plugins.counts:{value}" for name, value in classes.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{connectors.GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    connectors._installed.cache_clear()
    connectors.find.cache_clear()


@pytest.mark.long("tests/runtime/test_stateful.py::test_a_batch_that_the_sink_has_already_keeps_its_state")
@pytest.mark.real
@pytest.mark.parametrize("name", [pytest.param("counts", marks=OF_PYARROW), "visits"])
def test_a_plugins_state_is_kept_as_that_of_the_class_spark(
    spark: SparkBench, plugins: None, tmp_path: Path, unique: str, name: str
) -> None:
    """The plug-in says nothing of state, and passes over batches that it has."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    config = {"connector.class": name, "path": f"{source}", "target": f"{target}", "task.units": "all"}
    task, checkpoint = TaskId(unique, 0), spark.settings.checkpoints / unique / "all"
    wanted: Counter[str] = Counter()
    for turn in range(4):
        keys = [f"k{number % 7}" for number in range(20 + turn)]
        hidden = source / f".{turn}.json"
        hidden.write_text("\n".join(json.dumps({"key": key}) for key in keys))
        hidden.rename(source / f"{turn}.json")
        wanted.update(keys)
        spark.start(task, {**config, "trigger.interval.ms": "100"})
        spark.wait_started(task)
        eventually(lambda: found(target) == wanted, 90)
        eventually(lambda: len(set(reached(checkpoint))) == 1, 30, "nothing is in flight")
        spark.stop(task)
        if turn == 2:
            # As if the member had died after the sink has the batch, before Spark has noted its end.
            remove(checkpoint / "commits" / str(reached(checkpoint)[0]))
    assert commit_version(checkpoint) == 2, "the files of each attempt have names of their own"
    assert recorded_settings(checkpoint)[PROVIDER] == ROCKSDB
