"""Lines that Spark makes are what COPY reads: every value arrives as it was."""

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from threading import Event
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cooperator.connectors.microbatch.batches import BatchFailed
from cooperator.connectors.postgres_lines import can_be_lines, texts
from cooperator.connectors.postgres_table import describe_table
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.runtime.copy_tasks import CopyTask
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

TEXTS = [
    *("", "\\", "\\N", "\\.", "\t", "\n", "\r\n", "a\tb\\tc", "'\"{},", "\x01\x7f"),
    *("\u00e9\U0001f600", "NULL", None, "ends with \\", "\\\n", "{}", " spaces ", "\u2028"),
    # The escapes of a value are looked for in words of eight bytes.
    *("1234567\\", "12345678\t", "x" * 70_000 + "\\" * 70_000, "\x1f !\x7f\x80\uffff[]^"),
]
REALS = ["1e300", "CAST('-Infinity' AS DOUBLE)", "0.1D", "CAST(NULL AS DOUBLE)"]
COLUMNS = {
    "number": ("integer", "CAST(offset AS INT)"),
    "text": ("text", "text"),
    "raw": ("bytea", "CAST(text AS BINARY) || X'00FF'"),
    "texts": ("text[]", "IF(text IS NULL, NULL, array(text, NULL, 'x'))"),
    "raws": ("bytea[]", "IF(text IS NULL, NULL, array(CAST(text AS BINARY)))"),
    "numbers": ("integer[]", "IF(text IS NULL, array(), array(CAST(offset AS INT), NULL, -1))"),
    "nested": ("jsonb", "IF(text IS NULL, NULL, named_struct('a', text, 'b', array(text), 'c', NULL))"),
    "yes": ("boolean", "IF(text IS NULL, NULL, offset % 2 = 0)"),
    "real": ("double precision", f"element_at(array({', '.join(REALS)}), CAST(offset % 4 AS INT) + 1)"),
    "money": ("numeric(20,3)", "IF(text IS NULL, NULL, CAST(offset AS DECIMAL(20, 3)) / 1000)"),
    "day": ("date", "IF(text IS NULL, NULL, DATE'2024-02-29')"),
    "at": ("timestamp with time zone", "IF(text IS NULL, NULL, TIMESTAMP'1969-12-31 23:59:59.123456')"),
    "listed": ("jsonb", "IF(text IS NULL, NULL, array(named_struct('x', text)))"),
    "word": ("text", "IF(text IS NULL, NULL, offset % 2 = 0)"),
    "nothing": ("text", "NULL"),
}


@pytest.fixture
def session(spark: SparkBench) -> Any:
    return spark.runtime.session(Event())


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


def row_of(number: int, text: str | None) -> tuple[Any, ...]:
    """The row that a record becomes."""
    real = [1e300, float("-inf"), 0.1, None][number % 4]
    if text is None:
        return (number, None, None, None, None, [], None, None, real, None, None, None, None, None, None)
    return (
        *(number, text, text.encode() + b"\x00\xff", [text, None, "x"], [text.encode()], [number, None, -1]),
        *({"a": text, "b": [text], "c": None}, number % 2 == 0, real, Decimal(number).scaleb(-3)),
        *(date(2024, 2, 29), datetime(1969, 12, 31, 23, 59, 59, 123_456, UTC), [{"x": text}]),
        *(str(number % 2 == 0).lower(), None),
    )


def copied(
    session: Any,
    cluster: Cluster,
    postgres: Postgres,
    name: str,
    columns: dict[str, tuple[str, str]],
    values: Sequence[bytes | None],
) -> CopyTask:
    """Copies records into a table of these columns (types of the table, and SQL with ``text``)."""
    table = name.replace("-", "_")
    [place] = cluster.create(name)
    cluster.produce(place, values)  # type: ignore[arg-type]
    described = ", ".join(f"{column} {kind}" for column, (kind, _) in columns.items())
    postgres.query(f"CREATE TABLE {table} ({described})")
    text = "CAST(value AS STRING)"
    sql = [f"{made.replace('text', text)} AS {column}" for column, (_, made) in columns.items()]
    with CopyTask(session, cluster, postgres, table, [place], sql) as task:
        eventually(lambda: task.error or task.reached(postgres) == {place: len(values)}, 60, f"{task.said}")
    return task


def test_every_value_is_read_back_as_it_was(
    session: Any, cluster: Cluster, postgres: Postgres, unique: str
) -> None:
    values = [None if text is None else text.encode() for text in TEXTS]
    task = copied(session, cluster, postgres, unique, COLUMNS, values)
    assert task.error is None
    with postgres.session() as connection:
        connection.execute("SET timezone = 'UTC'")
        query = f"SELECT * FROM {unique.replace('-', '_')} ORDER BY number"
        rows = connection.execute(query.encode()).fetchall()
    assert rows == [row_of(number, text) for number, text in enumerate(TEXTS)]


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_text_is_read_back_as_it_was(
    session: Any, cluster: Cluster, postgres: Postgres, unique: str, data: st.DataObject
) -> None:
    alphabet = st.one_of(st.sampled_from("\\\t\n\r[ \x1f\x7f\x80\uffff"), st.characters(codec="utf-8"))
    text = st.text(alphabet.filter(lambda each: each != "\0"), max_size=30)
    values = data.draw(st.lists(text, min_size=300, max_size=300))
    name = f"{unique}-{data.draw(st.uuids()).hex[:12]}"
    columns = {"number": ("integer", "CAST(offset AS INT)"), "value": ("text", "text")}
    task = copied(session, cluster, postgres, name, columns, [text.encode() for text in values])
    assert task.error is None
    found = postgres.query(f"SELECT value FROM {name.replace('-', '_')} ORDER BY number")
    assert [value for (value,) in found] == values


TIMES = (
    *("2024-01-01T00:00:00.123456", "1969-12-31T23:59:59.5", "9999-12-31T23:59:59.999999"),
    # Both are half past two in Berlin, and the third is no time of day there.
    *("2024-10-27T00:30:00", "2024-10-27T01:30:00", "2024-03-31T02:30:00"),
    *("+10000-01-01T00:00:00", "+29427-12-31T23:59:59.999999"),
    *("0001-01-01T00:00:00", "0000-12-31T23:59:59.999999", "-0043-03-15T12:00:00", "-4712-01-01T00:00:00"),
)


def as_postgres_has_it(time: str) -> str:
    year, _, rest = time.lstrip("+-").partition("-")
    if time.startswith(("-", "0000")):
        return f"{int(year) + 1:04}-{rest} BC"
    return f"{year}-{rest}"


ZONES = pytest.mark.long(
    "tests/runtime/test_postgres_lines.py::test_a_time_is_the_same_in_every_zone_and_century"
)


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param("UTC", marks=ZONES),
        pytest.param("Europe/Berlin", marks=ZONES),
        "America/St_Johns",
        pytest.param("+14:00", marks=ZONES),
    ],
)
def test_a_time_is_the_same_in_every_zone_and_century(session: Any, postgres: Postgres, zone: str) -> None:
    """The zone is the session's, as ``spec.spark.conf`` may set it, and the database's."""
    import pyspark.sql.functions as F  # noqa: N812

    own = session.newSession()
    own.conf.set("spark.sql.session.timeZone", zone)
    moments = [f"SELECT TIMESTAMP_NTZ'{time}' AS local, TIMESTAMP'{time}Z' AS at" for time in TIMES]
    rows = own.sql(" UNION ALL ".join(moments)).select(
        "at", "local", F.col("local").cast("date").alias("day")
    )
    rows = rows.withColumn("all", F.array("at", F.lit(None)))
    columns = {
        "at": "timestamp with time zone",
        "local": "timestamp without time zone",
        "day": "date",
        "all": "timestamp with time zone[]",
    }
    said = texts(rows, columns).rows.collect()
    with postgres.session() as connection:
        connection.execute(f"SET timezone = '{'UTC' if zone == '+14:00' else zone}'".encode())
        for time, each in zip(TIMES, said, strict=True):
            wanted = as_postgres_has_it(time)
            [found] = connection.execute(
                "SELECT %s::timestamptz AT TIME ZONE 'UTC' = %s::timestamp, %s::timestamp = %s::timestamp, "
                "%s::date = (%s::timestamp)::date, (%s::timestamptz[])[1] = %s::timestamptz",
                (each.at, wanted, each.local, wanted, each.day, wanted, each["all"], each.at),
            ).fetchall()
            assert found == (True, True, True, True), (time, each)


FLOATS = (
    *("15000000512", "0.1", "-16777217", "3.4028235e38", "1.4e-45", "1.1754943e-38", "'-0.0'"),
    "'-Infinity'",
)


def single_of(value: float) -> float:
    """The float of four bytes that is nearest."""
    [nearest] = struct.unpack("f", struct.pack("f", value))
    return float(nearest)


def test_a_float_is_its_exact_value_in_a_double_and_its_own_text_in_others(
    session: Any, cluster: Cluster, postgres: Postgres, unique: str
) -> None:
    floats = ", ".join(f"CAST({each} AS FLOAT)" for each in FLOATS)
    sql = f"element_at(array({floats}), CAST(offset AS INT) + 1)"
    columns = {
        "number": ("integer", "CAST(offset AS INT)"),
        "wide": ("double precision", sql),
        "wide_all": ("double precision[]", f"array({sql})"),
        "exact": ("numeric", f"nullif({sql}, CAST('-Infinity' AS FLOAT))"),
        "single": ("real", sql),
        "word": ("text", sql),
    }
    task = copied(session, cluster, postgres, unique, columns, [b""] * len(FLOATS))
    assert task.error is None
    rows = postgres.query(f"SELECT * FROM {unique.replace('-', '_')} ORDER BY number")
    for (_, wide, wide_all, exact, single, word), written_as in zip(rows, FLOATS, strict=True):
        wanted = single_of(float(written_as.strip("'")))
        assert (wide, wide_all) == (wanted, [wanted])
        assert exact is None or single_of(float(exact)) == wanted
        assert struct.pack("f", single) == struct.pack("f", float(word)) == struct.pack("f", wanted)
    assert [row[3] for row in rows[:2]] == [Decimal(15_000_000_500), Decimal("0.1")]
    assert [row[5] for row in rows[:2]] == ["1.50000005E10", "0.1"]


def test_a_row_with_an_interval_has_its_other_values_as_lines_have_them(session: Any) -> None:
    """Such rows are no lines, and the member writes them."""
    floats = "CAST(15000000512 AS FLOAT) AS a, CAST(0.1 AS FLOAT) AS b"
    rows = session.sql(f"SELECT {floats}, INTERVAL '1' DAY AS c")
    assert not can_be_lines(rows.dtypes, {})
    [row] = texts(rows, {"a": "double precision", "b": "text", "c": "interval"}).rows.collect()
    assert row == ("1.5000000512E10", "0.1", timedelta(days=1))


def test_text_that_is_no_utf_8_gets_replacement_characters(
    session: Any, cluster: Cluster, postgres: Postgres, unique: str
) -> None:
    copied(session, cluster, postgres, unique, {"value": ("text", "text")}, [b"a\xff\tb", b"\xc3"])
    assert postgres.query(f"SELECT value FROM {unique.replace('-', '_')}") == [("a\ufffd\tb",), ("\ufffd",)]


def test_a_value_that_its_column_refuses_fails_the_task_and_its_text_has_no_password(
    session: Any, cluster: Cluster, postgres: Postgres, unique: str
) -> None:
    task = copied(session, cluster, postgres, unique, {"value": ("integer", "text")}, [b"7", b"many"])
    assert isinstance(task.error, BatchFailed)
    assert "many" in str(task.error)
    assert postgres.config["connection.password"] not in str(task.error)
    assert postgres.count(unique.replace("-", "_")) == 0


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
