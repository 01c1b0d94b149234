"""What is checked of rows before the database sees them: what it would not refuse, or would refuse of all."""

from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from cooperator.connectors.failing_rows import sift
from cooperator.connectors.options import OptionError
from cooperator.connectors.postgres_checks import check_kinds, missing, storable
from cooperator.connectors.postgres_table import Table
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_failing_rows import Unit


@pytest.mark.real
def test_a_null_in_the_key_of_an_upsert_is_refused_whatever_else_the_batch_has(spark: SparkBench) -> None:
    """A unique index that is no primary key has room for many of them; a batch would keep the last."""
    rows = {"a": ["x", "x", "x", None], "b": [1, None, None, 1], "__deleted": [False, False, True, False]}
    context: Any = Unit()
    session = spark.runtime.session(Event()).newSession()
    good, failed = sift(pa.table(rows), session, lambda found: storable(found, ("a", "b")), context)
    assert [each.column("b").to_pylist() for each in good] == [[1]]
    assert [each.row for each in failed] == [1, 2, 3]
    columns = ["b", "b", "a"]
    for column, each in zip(columns, failed, strict=True):
        assert f"column {column} is null, and is in the key by which rows replace others" in str(each.error)
        assert "select a value for it" in str(each.error)


@pytest.mark.parametrize(
    ("kind", "held"),
    [
        ("boolean", "bigint"),
        ("date", "numeric"),
        ("date", "numeric(60,10)"),
        ("array<int>", "integer"),
        ("double", "integer"),
        ("decimal(4,2)", "smallint"),
        ("array<double>", "integer[]"),
        # The database would take these, as other values.
        ("array<int>", "text"),
        ("map<string,int>", "text"),
        ("struct<a:int>", "character varying(9)"),
        ("array<map<string,int>>", "text[]"),
        ("timestamp", "time without time zone"),
        ("timestamp_ntz", "time(3) with time zone"),
        ("array<timestamp>", "time without time zone[]"),
    ],
)
def test_a_column_of_which_no_value_fits_is_refused_as_a_whole(kind: str, held: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_kinds([("c", kind)], Table("t", {"c": held}, []))
    assert f"has column c as {kind}, which table t has as {held}" in str(refused.value)
    assert " in the SELECT" in str(refused.value) or "select " in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "held"),
    [
        ("string", "integer"),
        ("void", "smallint"),
        ("bigint", "smallint"),
        ("decimal(20,0)", "bigint"),
        ("double", "numeric(6,2)"),
        ("decimal(4,2)", "real"),
        ("boolean", "boolean"),
        ("array<int>", "integer[]"),
        ("array<array<int>>", "integer[]"),
        ("array<decimal(10,4)>", "numeric(10,2)[]"),
        ("array<struct<a:int>>", "jsonb[]"),
        ("map<string,int>", "json"),
        ("timestamp", "text"),
        ("string", "time without time zone"),
        ("boolean", "a type of its own"),
    ],
)
def test_a_column_of_which_some_value_may_fit_is_left_to_the_database(kind: str, held: str) -> None:
    check_kinds([("c", kind), ("__deleted", "boolean")], Table("t", {"c": held}, []))


def test_columns_that_need_a_value_and_have_no_default_are_missed() -> None:
    table = Table("t", {"id": "bigint", "name": "text"}, [], {"id": False, "at": True})
    assert missing(["name"], table) == ["id"], "at has a default"
