"""Lines that Spark makes are what COPY reads: every value arrives as it was."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Event
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from cooperator.connectors.postgres import describe_table
from cooperator.connectors.postgres_lines import can_be_lines, lines
from cooperator.connectors.postgres_sink import Lines, TargetTable, move, stage
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

TEXTS = [
    *("", "\\", "\\N", "\\.", "\t", "\n", "\r\n", "a\tb\\tc", "'\"{},", "\x01\x7f"),
    *("\u00e9\U0001f600", "NULL", None, "ends with \\", "\\\n", "{}", " spaces ", "\u2028"),
]
COLUMNS = {
    "number": "integer",
    "text": "text",
    "raw": "bytea",
    "texts": "text[]",
    "numbers": "integer[]",
    "nested": "jsonb",
    "yes": "boolean",
    "real": "double precision",
    "money": "numeric(20,3)",
    "day": "date",
    "at": "timestamp with time zone",
    "listed": "jsonb",
}


def records() -> pa.Table:
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(TEXTS):
        is_null = text is None
        rows.append(
            {
                "number": number,
                "text": text,
                "raw": None if is_null else text.encode() + b"\x00\xff",
                "texts": None if is_null else [text, None, "x"],
                "numbers": [] if is_null else [number, None, -1],
                "nested": None if is_null else {"a": text, "b": [text], "c": None},
                "yes": None if is_null else number % 2 == 0,
                "real": [1e300, float("-inf"), 0.1, None][number % 4],
                "money": None if is_null else Decimal(number).scaleb(-3),
                "day": None if is_null else date(2024, 2, 29),
                "at": None if is_null else datetime(1969, 12, 31, 23, 59, 59, 123_456, UTC),
                "listed": None if is_null else [{"x": text}],
            }
        )
    nested = pa.struct([("a", pa.string()), ("b", pa.list_(pa.string())), ("c", pa.int32())])
    types = {
        "number": pa.int32(),
        "text": pa.string(),
        "raw": pa.binary(),
        "texts": pa.list_(pa.string()),
        "numbers": pa.list_(pa.int32()),
        "nested": nested,
        "yes": pa.bool_(),
        "real": pa.float64(),
        "money": pa.decimal128(20, 3),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "listed": pa.list_(pa.struct([("x", pa.string())])),
    }
    return pa.Table.from_pylist(rows, pa.schema(list(types.items())))


def test_every_value_is_read_back_as_it_was(spark: SparkBench, postgres: Postgres, unique: str) -> None:
    given, table = records(), unique.replace("-", "_")
    session = spark.runtime.session(Event())
    frame = session.createDataFrame(given)
    assert can_be_lines(frame.dtypes, COLUMNS)
    found = lines(frame, COLUMNS).toArrow()
    postgres.query(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    chunks = [Lines(TargetTable(table, tuple(COLUMNS)), part) for part in (found.slice(0, 5), found.slice(5))]
    with postgres.session() as connection:
        connection.execute("SET timezone = 'UTC'")
        assert stage(connection, chunks) == len(TEXTS)
        move(connection, chunks)
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY number".encode()).fetchall()
    wanted = [tuple(row.values()) for row in given.to_pylist()]
    assert rows == wanted


def test_text_that_is_no_utf_8_is_refused_and_not_replaced(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (text text)")
    rows = spark.runtime.session(Event()).sql("SELECT CAST(X'61ff62' AS STRING) AS text")
    chunk = Lines(TargetTable(table, ("text",), direct=True), lines(rows, {"text": "text"}).toArrow())
    with postgres.session() as connection, pytest.raises(psycopg.DataError, match="invalid byte sequence"):
        stage(connection, [chunk])


@pytest.mark.parametrize("direct", [False, True])
def test_rows_are_added_in_their_order(postgres: Postgres, unique: str, direct: bool) -> None:
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (place serial, text text)")
    # More than a sort of the server holds in memory.
    texts = pa.table({"line": [f"{n} {'x' * 200}\n" for n in range(40_000)]})
    chunk = Lines(TargetTable(table, ("text",), direct=direct), texts)
    with postgres.session() as connection:
        assert stage(connection, [chunk, chunk]) == 80_000
        move(connection, [chunk, chunk])
        is_in_order = "(place - 1) % 40000 = split_part(text, ' ', 1)::int"
        query = f"SELECT count(*), count(*) FILTER (WHERE {is_in_order}) FROM {table}"
        assert connection.execute(query.encode()).fetchone() == (80_000, 80_000)


@pytest.mark.parametrize(
    ("columns", "more", "waits"),
    [
        ("id integer, text text", "", False),
        ("id integer CHECK (id > 0) DEFAULT 7, place serial", "CREATE INDEX ON {table} (id)", False),
        ("id integer PRIMARY KEY", "", True),
        ("id integer", "CREATE UNIQUE INDEX ON {table} (lower(id::text)) WHERE id > 3", True),
        ("id integer, EXCLUDE (id WITH =)", "", True),
        ("id integer GENERATED ALWAYS AS IDENTITY", "", True),
        ("id integer", "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", True),
        ("id integer", "CREATE RULE r AS ON INSERT TO {table} DO ALSO NOTHING", True),
        ("id integer, CONSTRAINT f FOREIGN KEY (id) REFERENCES {table}_keys", "", True),
        ("id integer) PARTITION BY RANGE (id", "", True),
    ],
)
def test_rows_are_copied_directly_only_where_none_waits_for_another(
    postgres: Postgres, unique: str, columns: str, more: str, waits: bool
) -> None:
    table = unique.replace("-", "_")
    with postgres.session() as connection:
        connection.execute(f"CREATE TABLE {table}_keys (id integer PRIMARY KEY)".encode())
        connection.execute(f"CREATE TABLE {table} ({columns})".format(table=table).encode())
        if more:
            connection.execute(more.format(table=table).encode())
        found = describe_table(connection, table)
        assert found is not None
        assert found.inserts_wait == waits


def test_lines_of_a_key_keep_the_last_row(postgres: Postgres, unique: str) -> None:
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (id integer PRIMARY KEY, text text)")
    texts = pa.table({"line": [f"{n % 3}\t{n}\n" for n in range(10)]})
    chunk = Lines(TargetTable(table, ("id", "text"), ("id",)), texts)
    with postgres.session() as connection:
        stage(connection, [chunk])
        move(connection, [chunk])
        rows = connection.execute(f"SELECT id, text FROM {table} ORDER BY id".encode()).fetchall()
    assert rows == [(0, "9"), (1, "7"), (2, "8")]


@pytest.mark.parametrize(
    ("kind", "held", "is_line"),
    [
        ("array<array<int>>", "integer[]", True),
        ("array<struct<a:int>>", "jsonb", True),
        ("array<struct<a:int>>", "jsonb[]", True),
        ("struct<a:int>", "text", False),
        ("map<string,int>", "json", True),
        ("interval day to second", "interval", False),
        ("struct<a:interval day to second>", "jsonb", False),
        ("string collate UNICODE", "text", False),
        ("variant", "jsonb", False),
    ],
)
def test_types_without_a_text_of_the_database_are_no_lines(kind: str, held: str, is_line: bool) -> None:
    assert can_be_lines([("a", kind)], {"a": held}) == is_line


def test_a_refused_line_names_no_password(postgres: Postgres, unique: str) -> None:
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (id integer)")
    chunk = Lines(TargetTable(table, ("id",)), pa.table({"line": ["many\n"]}))
    with postgres.session() as connection, pytest.raises(psycopg.DataError, match="many"):
        stage(connection, [chunk])
    assert json.dumps(postgres.query(f"SELECT * FROM {table}")) == "[]"
