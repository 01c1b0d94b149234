"""The search for rows whose conversion fails: what it finds, its cost, and its end on cancellation."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cooperator.connectors import failing_rows
from cooperator.connectors.base import Cancelled
from cooperator.connectors.failing_rows import blames_a_row, sift
from cooperator.connectors.options import OptionError
from cooperator.connectors.output import read_units
from cooperator.connectors.transform import selected
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench

CAST = "SELECT CAST(value AS INT) AS number, offset FROM input WHERE value != 'skip'"


@dataclass
class Unit:
    """The part of a unit's context that a search needs. ``listener`` gets its messages."""

    listener: Callable[[str], None] = lambda text: None
    unit: str = "t-0"
    cancelled: threading.Event = field(default_factory=threading.Event)
    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.listener(text)


class ConversionResult:
    """The results for some values, and the number of queries."""

    def __init__(
        self, spark: SparkBench, values: list[str], sql: str = CAST, unit: Unit | None = None
    ) -> None:
        self.queries = 0
        self.unit = unit or Unit()
        table = pa.table({"value": values, "offset": list(range(len(values)))})

        def conversion(frame: Any) -> Any:
            self.queries += 1
            return selected(frame, sql)

        session = spark.runtime.session(threading.Event())
        context: Any = self.unit
        self.good, self.failed = sift(table, session.newSession(), conversion, context)

    def rows(self) -> list[tuple[int, int]]:
        return [(row["number"], row["offset"]) for table in self.good for row in table.to_pylist()]

    def failed_rows(self) -> list[int]:
        return [one.row for one in self.failed]


@pytest.mark.real
def test_the_rows_that_fail_are_found_exactly_wherever_they_are_and_the_rest_keeps_its_order(
    spark: SparkBench,
) -> None:
    chance = random.Random(7)
    for count, bads in ((1, [1]), (33, [1, 33]), (200, [0, 9])):
        for bad in bads:
            wanted = sorted(chance.sample(range(count), bad))
            values = [str(n) for n in range(count)]
            for number in wanted:
                values[number] = f"bad {number}"
            for number in chance.sample(range(count), count // 10):
                values[number] = "skip"
            wanted = [n for n in wanted if values[n] != "skip"]
            sifted = ConversionResult(spark, values)
            assert sifted.failed_rows() == wanted
            assert sifted.rows() == [(n, n) for n, value in enumerate(values) if value == str(n)]
            assert all(f"'bad {one.row}'" in str(one.error) for one in sifted.failed)


@pytest.mark.real
@pytest.mark.parametrize(("count", "bad"), [(1_000, 9), (10_000, 10_000)])
def test_a_batch_takes_four_queries_however_many_of_its_rows_fail(
    spark: SparkBench, count: int, bad: int
) -> None:
    step = count // bad
    values = ["bad" if n % step == 0 and n // step < bad else "1" for n in range(count)]
    sifted = ConversionResult(spark, values)
    assert sifted.failed_rows() == [n * step for n in range(bad)]
    assert len(sifted.rows()) == count - bad
    assert sifted.queries <= 4
    assert sifted.unit.said == [f"searching {count:,} records for failing ones", ""]
    assert not logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR), "values go to stderr"


SHAPES = [
    "SELECT INT(part) AS number, offset FROM input LATERAL VIEW explode(split(value, ',')) AS part",
    "SELECT INT(part) AS number, offset FROM input LATERAL VIEW OUTER explode(split(value, ',')) AS part "
    "WHERE INT(part) > 0",
    "SELECT stack(2, INT(split(value, ',')[0]), INT(value)) AS number, offset FROM input",
    "SELECT CASE WHEN value = '9' THEN 9 ELSE INT(value) END AS number, offset FROM input WHERE value != '1'",
    "SELECT INT(value) AS number, offset FROM (SELECT * FROM input WHERE INT(value) % 3 = 0)",
    "SELECT aggregate(transform(split(value, ','), x -> INT(x)), 0, (a, x) -> a + x) AS number, offset "
    "FROM input",
]


FAIL_ALONE = pytest.mark.long(
    "tests/runtime/test_failing_rows.py::test_the_rows_that_fail_alone_are_those_that_fail_in_a_batch"
)
BRIEFLY = (0, 2, 4)
"""A generator beside the rows, a generator of rows, and a filter below the SELECT."""


@pytest.mark.real
@pytest.mark.parametrize(
    "sql",
    [pytest.param(sql, marks=[] if n in BRIEFLY else FAIL_ALONE) for n, sql in enumerate(SHAPES)],
)
def test_the_rows_that_fail_alone_are_those_that_fail_in_a_batch(spark: SparkBench, sql: str) -> None:
    chance = random.Random(sql)
    values = [chance.choice(["1", "2,3", "bad", "4,bad", "bad,5,bad", "9", ""]) for _ in range(60)]
    alone = {value: bool(ConversionResult(spark, [value], sql).failed) for value in set(values)}
    sifted = ConversionResult(spark, values, sql)
    assert sifted.failed_rows() == [number for number, value in enumerate(values) if alone[value]]
    wanted = [number for number, value in enumerate(values) if not alone[value]]
    assert {offset for _, offset in sifted.rows()} <= set(wanted)


@pytest.mark.real
def test_an_error_that_says_nothing_about_a_row_is_raised_and_no_row_is_left_out(spark: SparkBench) -> None:
    unit = Unit()
    sql = "SELECT xpath_string(value, 'a') AS number, offset FROM input"
    with pytest.raises(Exception, match="Error loading expression"):
        ConversionResult(spark, ["no xml", "<a/>"], sql, unit)
    assert unit.said[-1] == ""


@pytest.mark.real
def test_a_search_that_is_not_wanted_any_more_ends(spark: SparkBench) -> None:
    unit = Unit(listener=lambda text: unit.cancelled.set())
    with pytest.raises(Cancelled):
        ConversionResult(spark, ["bad"] * 100, unit=unit)
    assert unit.said[-1] == ""


@pytest.mark.parametrize(
    ("sql_state", "is_blamed"),
    [("22018", True), ("39000", True), ("P0001", True), ("XXKDA", False), ("42703", False), (None, False)],
)
def test_a_row_is_blamed_for_its_values_alone(sql_state: str | None, is_blamed: bool) -> None:
    assert blames_a_row(sql_state) is is_blamed


@pytest.mark.real
def test_a_search_in_one_task_is_shown_and_the_other_task_writes_meanwhile(
    spark: SparkBench, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, entered, failures = threading.Event(), threading.Event(), failing_rows._failures

    def hold(*arguments: Any) -> list[failing_rows.Failed]:
        entered.set()
        assert held.wait(60)
        return failures(*arguments)

    monkeypatch.setattr(failing_rows, "_failures", hold)
    out, task, other = tmp_path / "out", TaskId(unique, 0), TaskId(unique, 1)
    spark.create_topic(unique, 2)
    spark.produce(unique, [{"value": b"bad" if n % 2 else b"%d" % n, "partition": 0} for n in range(8)])
    config = {
        "connector.class": "kafka-to-files",
        "rotate.interval.ms": "0",
        "trigger.interval.ms": "100",
        "topics": unique,
        "path": str(out),
        "errors.tolerance": "all",
        "transform.sql": "SELECT STRING(INT(STRING(value))) AS value FROM input",
    }

    def found() -> list[str]:
        table = read_units(out)
        return sorted(table["value"].to_pylist() if table.num_rows else [])

    spark.start(task, {**config, "task.units": f"{unique}-0"})
    spark.start(other, {**config, "task.units": f"{unique}-1"})
    assert entered.wait(60), "no search has begun"
    try:
        spark.produce(unique, [{"value": b"7", "partition": 1}])
        eventually(lambda: found() == ["7"], 60)
        shown = "searching 8 offsets for records that fail"
        eventually(lambda: spark.heard.waits_of(task) == shown)
    finally:
        held.set()
    eventually(lambda: found() == ["0", "2", "4", "6", "7"], 60)
    eventually(lambda: not spark.heard.waits_of(task))
    spark.stop(task, other)


def test_a_column_whose_name_another_one_has_in_another_case_is_refused_with_a_remedy(
    spark: SparkBench,
) -> None:
    rows = spark.runtime.session(threading.Event()).newSession().sql("SELECT 1 AS id, 2 AS ID")
    refused = "AMBIGUOUS_REFERENCE.*differ in upper and lower case only are the same in a SELECT: rename one"
    with pytest.raises(OptionError, match=refused):
        selected(rows, "SELECT id FROM input")
