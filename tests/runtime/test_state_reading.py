"""State read from checkpoints by a real Spark: while queries run, after their end, and of every kind."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cooperator.connectors import state_reading
from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.offsets.unit_log import reached
from cooperator.connectors.state_query import StateError, StateQuery
from cooperator.connectors.state_reading import read_state
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_pipeline import start
from tests.runtime.test_stateful import COUNTS, JOIN, WINDOWS, Stream, rows_of

UPDATES = {"sink.output.mode": "update"}


def subject_of(spark: SparkBench, name: str) -> Subject:
    settings = spark.settings
    assert isinstance(settings.checkpoints, Path)
    return Subject(name, "spark", {}, settings.group_id, settings.checkpoints, settings.resolver())


def ask(spark: SparkBench, name: str, query: StateQuery | None = None) -> list[dict[str, Any]]:
    found = read_state(subject_of(spark, name), query or StateQuery(limit=1_000), spark.runtime.session)
    assert not found["cut"]
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {row["key"]["key"]: row["value"]["count"] for row in rows}


def refused(spark: SparkBench, name: str, query: StateQuery) -> str:
    with pytest.raises(StateError) as caught:
        ask(spark, name, query)
    return str(caught.value)


@pytest.mark.real
def test_counts_are_asked_by_key_and_wrong_questions_name_the_remedy(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    stream = Stream(spark, tmp_path, unique, **UPDATES, **{"transform.sql": COUNTS})
    stream.add(rows_of(0))
    stream.run()
    stream.add(rows_of(1))
    stream.run()
    wanted = Counter(row["key"] for row in stream.rows)
    rows = ask(spark, unique)
    assert counts(rows) == wanted
    ended = reached(stream.checkpoint)
    assert {(row["unit"], row["batch"], row["operator"]) for row in rows} == {("unit-0", ended[0], 0)}
    assert counts(ask(spark, unique, StateQuery({"KEY": "k2"}))) == {"k2": wanted["k2"]}
    assert ask(spark, unique, StateQuery({"key": "eve"})) == []
    first = read_state(subject_of(spark, unique), StateQuery(limit=2), spark.runtime.session)
    assert (len(first["rows"]), first["cut"]) == (2, True)
    for query, said in (
        (StateQuery({"user": "k2"}), "key 'user' is not a column of the state's key: use one of key"),
        (StateQuery(unit="unit-9"), "unit 'unit-9' is not a unit of"),
        (StateQuery(operator=3), "operator 3 is not an operator with state: use one of 0"),
    ):
        assert said in refused(spark, unique, query)
    assert reached(stream.checkpoint) == ended, "reading has changed nothing"


@pytest.mark.real
def test_queries_without_state_or_batches_are_named(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    stream = Stream(spark, tmp_path, unique, **UPDATES)
    stream.checkpoint.mkdir(parents=True)
    assert "has no finished batch whose state could be read" in refused(spark, unique, StateQuery())
    stream.add(rows_of(0))
    stream.run()
    assert "have no state: ask a connector that groups" in refused(spark, unique, StateQuery())


@pytest.mark.long(
    "tests/runtime/test_state_reading.py::test_counts_are_asked_by_key_and_wrong_questions_name_the_remedy"
)
@pytest.mark.real
def test_windows_and_both_sides_of_a_join_are_read_with_their_columns(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    for name, sql in (("windows", WINDOWS), ("join", JOIN)):
        (tmp_path / name).mkdir()
        stream = Stream(spark, tmp_path / name, f"{unique}-{name}", **{"transform.sql": sql})
        for part in (0, 1):
            stream.add(rows_of(part))
            stream.run()
    start_of = {"window.start": "2026-01-01T00:00:00Z", "key": "k0"}
    [row] = ask(spark, f"{unique}-windows", StateQuery(start_of))
    assert row["value"]["count"] == 2
    assert row["key"]["window"]["start"].startswith("2026-01-01T00:00:00")
    said = refused(spark, f"{unique}-windows", StateQuery({"window.start": "soon"}))
    assert "key window.start is 'soon': use a value of type timestamp" in said
    sides = Counter(row["part"] for row in ask(spark, f"{unique}-join"))
    assert sides.keys() == {"left", "right"}


@pytest.mark.parametrize(
    "answers",
    [
        3,
        pytest.param(
            30,
            marks=pytest.mark.long(
                "tests/runtime/test_state_reading.py::test_state_is_read_while_its_query_runs"
            ),
        ),
    ],
)
@pytest.mark.real
def test_state_is_read_while_its_query_runs(
    spark: SparkBench, tmp_path: Path, unique: str, answers: int
) -> None:
    """Old versions go all the time: each of the different ``answers`` is that of one commit."""
    more = {"trigger.interval.ms": "0", "transform.sql": COUNTS}
    stream = Stream(spark, tmp_path, unique, **UPDATES, **more)
    stream.add(rows_of(0))
    task = start(spark, stream.name, stream.config)
    eventually(lambda: reached(stream.checkpoint)[0] >= 0, 60)
    done = threading.Event()

    def feed() -> None:
        while not done.wait(0.05):
            stream.add([{**row, "key": "k0"} for row in rows_of(0)[:5]])

    feeding = threading.Thread(target=feed)
    seen: list[int] = []

    def sees_enough() -> bool:
        seen.append(counts(ask(spark, unique, StateQuery({"key": "k0"})))["k0"])
        return len(set(seen)) >= answers

    feeding.start()
    try:
        eventually(sees_enough, 120, "the state changes while it is asked")
    finally:
        done.set()
        feeding.join()
    assert seen == sorted(seen)
    at_first = sum(row["key"] == "k0" for row in rows_of(0))
    assert {(count - at_first) % 5 for count in seen} == {0}, "each file of five rows counts whole"
    spark.stop(task)


@pytest.mark.real
def test_a_question_ends_with_its_time(
    spark: SparkBench, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path, unique, **UPDATES, **{"transform.sql": COUNTS})
    stream.add(rows_of(0))
    stream.run()
    monkeypatch.setattr(state_reading, "PATIENCE_S", 0.001)
    with state_reading._turn:
        assert "since other questions came first, within 0.001 s" in refused(spark, unique, StateQuery())
    with pytest.raises(StateError, match=r"could not be read.* within 0.001 s: ask for one unit or operator"):
        ask(spark, unique)
    remote = replace(subject_of(spark, unique), conf={"spark.master": "sc://elsewhere"})
    with pytest.raises(StateError, match="run on a Spark Connect server"):
        read_state(remote, StateQuery(), spark.runtime.session)
