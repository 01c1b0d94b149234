"""With ``errors.tolerance`` = all, a value that its column cannot hold makes a dead letter: exactly where the
database would refuse it."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from threading import Event
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from cooperator.connectors.failing_rows import sift
from cooperator.connectors.options import OptionError
from cooperator.connectors.postgres import Table, describe_table
from cooperator.connectors.postgres_checks import missing, storable
from cooperator.connectors.postgres_lines import texts
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_failing_rows import Unit

pytestmark = pytest.mark.real

HELD = (
    *("smallint", "integer", "bigint", "numeric(6,2)", "numeric(30,0)", "numeric", "double precision"),
    *("character varying(5)", "character(3)", "text"),
)
ANY_NUMBER = HELD[:7]
VALUES: dict[str, tuple[Sequence[str], Callable[[str], object], Sequence[str]]] = {
    "STRING": (
        (
            *("1", "-1", " 7 ", "1.5", "1e3", "abc", "", "40000", "99999999999", "9" * 25, "NaN", "Infinity"),
            *("0.005", "9999.994", "9999.995", "12345.6", "true", "\u00e9" * 5, "\u00e9" * 6, "ab    "),
        ),
        str,
        HELD,
    ),
    "INT": (("0", "40000"), int, ("smallint",)),
    "BIGINT": (("0", "40000", "2147483648", "-4611686018427387904"), int, ANY_NUMBER),
    "DECIMAL(20,0)": (("0", "10000", "10000000000000000000"), Decimal, ("bigint", "numeric(6,2)")),
    "DECIMAL(20,3)": (("0.005", "9999.994", "9999.995"), Decimal, ("numeric(6,2)", "numeric")),
    "DOUBLE": (("0.5", "9999.994", "9999.996", "1e300", "NaN"), float, ("numeric(6,2)", "numeric")),
}
"""By Spark's type: values, what Python makes of them, and the types of columns that they are written to."""
CASES = [
    (f"{kind} into {held}", kind, held, text, made)
    for kind, (texts, made, columns) in VALUES.items()
    for held in columns
    for text in texts
]
COLUMNS = {column: (kind, held) for column, kind, held, _, _ in CASES}


def test_a_value_is_refused_exactly_where_the_database_refuses_it(
    spark: SparkBench, postgres: Postgres
) -> None:
    columns = ", ".join(f'"{name}" {held}' for name, (_, held) in COLUMNS.items())
    postgres.query(f"CREATE TABLE checked ({columns})")
    unfit: list[int] = []
    with postgres.session() as connection:
        table = describe_table(connection, "checked")
        assert table is not None
        for number, (column, _, _, text, made) in enumerate(CASES):
            try:
                with (
                    connection.transaction(),
                    connection.cursor().copy(f'COPY checked ("{column}") FROM STDIN'.encode()) as copy,
                ):
                    copy.write_row((made(text),))
            except psycopg.DataError:
                unfit.append(number)

    def written(rows: Any) -> Any:
        import pyspark.sql.functions as F  # noqa: N812

        def column(name: str, kind: str) -> Any:
            return F.when(F.col("column") == name, F.col("value")).cast(kind).alias(name)

        cast = rows.select([column(name, kind) for name, (kind, _) in COLUMNS.items()])
        return storable(cast, table)

    records = pa.table({"column": [case[0] for case in CASES], "value": [case[3] for case in CASES]})
    context: Any = Unit()
    session = spark.runtime.session(Event()).newSession()
    _, failed = sift(records, session, written, context)
    assert [CASES[one.row][:4] for one in failed] == [CASES[number][:4] for number in unfit]
    assert all("does not fit" in str(one.error) for one in failed)


def test_a_null_is_refused_where_the_column_needs_a_value_unless_the_row_is_deleted(
    spark: SparkBench,
) -> None:
    table = Table("t", {"id": "bigint", "name": "text"}, [], {"id": False, "at": True})
    records = pa.table({"id": [1, None, None], "name": [None, "a", "b"], "__deleted": [None, False, True]})
    context: Any = Unit()
    session = spark.runtime.session(Event()).newSession()
    good, [failed] = sift(records, session, lambda rows: storable(rows, table), context)
    assert [table.column("name").to_pylist() for table in good] == [[None, "b"]]
    assert (failed.row, "column id is null, which table t refuses" in str(failed.error)) == (1, True)
    assert missing(["name"], table) == ["id"], "at has a default"


@pytest.mark.parametrize(
    ("made", "held", "refused"),
    [
        ("array(text)", "text[]", True),
        ("named_struct('n', 1, 'deep', array(named_struct('text', text)))", "jsonb", True),
        ("map('k', text)", "jsonb", True),
        ("map(text, 1)", "jsonb", True),
        ("array(named_struct('n', 1), NULL)", "jsonb", False),
        ("named_struct('text', text)", "json", False),
        ('concat(\'{"a": "\\\\u0000"}\', substr(text, 1, 0))', "jsonb", True),
        ('concat(\'{"a": "\\\\\\\\u0000"}\', substr(text, 1, 0))', "jsonb", False),
        ('concat(\'{"a": "\\\\u0000"}\', substr(text, 1, 0))', "text", False),
        ("array('a', NULL)", "text[]", False),
    ],
)
def test_the_character_nul_is_found_at_every_depth_where_the_database_refuses_it(
    spark: SparkBench, postgres: Postgres, made: str, held: str, refused: bool
) -> None:
    session = spark.runtime.session(Event()).newSession()
    rows = session.createDataFrame([("a\0b",)], "text string").selectExpr(f"{made} AS made")
    table = Table("t", {"made": held}, [])
    [[text]] = texts(rows, table.columns).rows.collect()
    with postgres.session() as connection:
        connection.execute(f"CREATE TEMPORARY TABLE held (made {held})".encode())
        try:
            with connection.transaction(), connection.cursor().copy(b"COPY held FROM STDIN") as copy:
                copy.write_row((text,))
            is_held = True
        except (psycopg.DataError, ValueError):
            is_held = False
    assert is_held is not refused, "as the database has it"
    if refused:
        with pytest.raises(
            Exception, match=r"column made contains the (character|escape of the character) U\+0000"
        ):
            storable(rows, table).collect()
    else:
        storable(rows, table).collect()


@pytest.mark.parametrize("table", [None, Table("t", {"a": "text", "b": "bigint"}, [("a", "b")])])
def test_a_null_in_the_key_of_an_upsert_is_refused_whatever_else_the_batch_has(
    spark: SparkBench, table: Table | None
) -> None:
    """A unique index that is no primary key has room for many of them; a batch would keep the last."""
    rows = {"a": ["x", "x", "x", None], "b": [1, None, None, 1], "__deleted": [False, False, True, False]}
    context: Any = Unit()
    session = spark.runtime.session(Event()).newSession()
    good, failed = sift(pa.table(rows), session, lambda found: storable(found, table, ("a", "b")), context)
    assert [each.column("b").to_pylist() for each in good] == [[1]]
    assert [each.row for each in failed] == [1, 2, 3]
    columns = ["b", "b", "a"]
    for column, each in zip(columns, failed, strict=True):
        assert f"column {column} is null, and is in the key by which rows replace others" in str(each.error)


@pytest.mark.parametrize(
    ("kind", "held"),
    [("boolean", "bigint"), ("date", "numeric"), ("array<int>", "integer"), ("double", "integer")],
)
def test_a_column_of_which_no_value_fits_is_refused_as_a_whole(
    spark: SparkBench, kind: str, held: str
) -> None:
    session = spark.runtime.session(Event())
    rows = session.createDataFrame([], f"c {kind}")
    with pytest.raises(OptionError, match=f"has column c as {kind}, which table t has as {held}; cast it"):
        storable(rows, Table("t", {"c": held}, []))
