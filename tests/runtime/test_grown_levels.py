"""What ``sql_growth`` states of a SELECT of several levels is compared with the rows that Spark makes."""

import json
import random
import threading
from typing import Final

import pytest
from pydantic_core import PydanticCustomError
from pyspark.sql import SparkSession

from cooperator.connectors.parsed_select import check_parsed
from cooperator.connectors.sql_growth import check_growth
from cooperator.connectors.sql_parts import tree_of
from cooperator.connectors.transform import read_here
from tests.runtime.grown_levels import LEVELS
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_grown_values import SETTINGS, elements_of, size_of

MOST_MADE: Final = 10_000_000
"""SELECTs that may make more bytes are not run."""


def leveled(seed: int, depth: int) -> str:
    """Returns a SELECT of so many levels."""
    chance = random.Random(seed)
    sql = "SELECT * FROM input"
    for _ in range(depth):
        sql = chance.choice(LEVELS).replace("{}", sql)
    return sql


class MeasuredLevels:
    """SELECTs on Spark from a single row."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        found = session.sql(f"SELECT 1 AS id, '{'row ' * 100}' AS v, array('{'row ' * 100}') AS a")
        self.row = size_of(found.collect()[0])
        # A row of the driver: Spark evaluates most queries without a job.
        rows = session._jsparkSession.createDataFrame(found._jdf.collectAsList(), found._jdf.schema())
        rows.createOrReplaceTempView("input")
        self.passed = 0

    def larger(self, sql: str) -> dict[str, str]:
        """Returns which numbers are more than is stated of the SELECT; nothing for one that is refused."""
        parsed = self.session._jvm.dev.cooperator.spark.ParsedSelect.of(self.session._jsparkSession, sql)
        summary = json.loads(parsed.summary())
        try:
            check_parsed(summary)
        except PydanticCustomError:
            return {}
        stated = check_growth(tree_of(summary["tree"]))
        most = stated.whole.size.bytes + stated.whole.size.most_times * self.row
        if stated.rows * most > MOST_MADE:
            return {}
        made = read_here(self.session, sql).collect()
        self.passed += 1
        found = {"rows": (len(made), stated.rows)}
        for at, name in enumerate(made[0].__fields__ if made else ()):
            cost = stated.columns.get(name, stated.other)
            of_column = cost.size.bytes + cost.size.most_times * self.row
            found[f"bytes of {name}"] = (max(size_of(each[at]) for each in made), of_column)
            found[f"elements of {name}"] = (max(elements_of(each[at]) for each in made), cost.elements)
        found["bytes of a row"] = (max(map(size_of, made), default=0), most)
        return {f"{what}: {sql}": f"{size} > {most}" for what, (size, most) in found.items() if size > most}


@pytest.fixture(scope="module")
def levels(spark: SparkBench) -> MeasuredLevels:
    return MeasuredLevels(spark.runtime.session(threading.Event()).newSession())


@pytest.mark.real
def test_a_sample_of_levels_makes_no_more_than_is_said(levels: MeasuredLevels) -> None:
    found: dict[str, str] = {}
    for seed in range(12):
        found |= levels.larger(leveled(seed, 3))
    assert found == {}
    assert levels.passed > 3, "few levels are refused"


@pytest.mark.long("tests/runtime/test_grown_levels.py::test_a_sample_of_levels_makes_no_more_than_is_said")
@pytest.mark.real
@pytest.mark.timeout(1_800)
def test_no_levels_make_more_than_is_said(levels: MeasuredLevels) -> None:
    """Each level alone, and seeded pairs and threes of them."""
    found: dict[str, str] = {}
    for level in LEVELS:
        levels.passed = 0
        found |= levels.larger(level.replace("{}", "SELECT * FROM input"))
        assert levels.passed, f"is refused: {level}"
    for seed in range(500):
        found |= levels.larger(leveled(seed, 2 + seed % 2))
    assert found == {}
