"""What is refused because a column would take a part of it is what PostgreSQL rounds or cuts, and no more."""

import random
from threading import Event
from typing import Any

import psycopg
import pytest

from cooperator.connectors.postgres_lines import written
from cooperator.connectors.postgres_losses import loses
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

MOMENTS = (
    *("2026-11-28 00:00:00", "2026-11-28 12:30:45", "2026-11-28 12:30:45.1", "2026-11-28 12:30:45.123"),
    *(
        "2026-11-28 12:30:45.123456",
        "1890-01-01 00:00:00.000001",
        "1890-01-01 00:00:00",
        "0001-01-01 00:00:01",
    ),
)
NUMBERS = (
    "0",
    "999999.9999",
    "1",
    "-1",
    "1.5",
    "-0.125",
    "0.01",
    "0.001",
    "99999.99",
    "12.3400",
    "1250",
    "-99",
    "0.1",
    "1e-10",
)
WHOLE = ("0", "1", "-250", "1234", "16777217", "9007199254740993", "2147483647")
TEXTS = ("", "abc", "abcd", "ab ", "abc ", "abc     ", "    ", "äöü ", "abc\t")
GROUPS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("decimal(10,4)", "decimal(38,10)", "double", "float"),
        (
            *("numeric(10,2)", "numeric(5,-2)", "numeric(38,0)", "numeric(38,38)", "numeric"),
            *("real", "double precision"),
        ),
        NUMBERS,
    ),
    (
        ("int", "bigint", "decimal(38,0)"),
        ("numeric(38,10)", "numeric(5,-2)", "real", "double precision", "smallint"),
        WHOLE,
    ),
    (
        ("timestamp", "timestamp_ntz"),
        (
            *("timestamp(0) with time zone", "timestamp(3) with time zone", "timestamp without time zone"),
            *("timestamp(6) without time zone", "date"),
        ),
        MOMENTS,
    ),
    (("string",), ("character varying(3)", "text", "name", '"char"'), (*TEXTS, "a", "ä", "x" * 63, "ä" * 32)),
    (("decimal(10,4)", "double", "int"), ("money",), NUMBERS),
    (("int", "bigint"), ("oid",), WHOLE),
)
"""Spark's types, types of columns, and values of which each goes from each to each."""


def kept(session: psycopg.Connection[Any], kind: str, held: str, text: str) -> bool | None:
    """Whether a column has all of the value; None: the database refuses it."""
    try:
        with session.transaction():
            session.execute("DELETE FROM kept")
            session.execute("INSERT INTO kept VALUES (%s)", [text])  # no cast, which would cut more
            shown = "v::numeric" if held == "money" else "v"
            [(found,)] = session.execute(f"SELECT {shown}::text FROM kept".encode()).fetchall()
            if kind == "string":
                return bool(found == text)
            own = "timestamp" if kind.startswith("timestamp") else "numeric"
            [(same,)] = session.execute(f"SELECT %s::{own} = %s::{own}".encode(), [text, found]).fetchall()
            return bool(same)
    except psycopg.DataError:
        return None


def test_a_value_is_refused_if_and_only_if_the_database_would_take_a_part_of_it(
    spark: SparkBench, postgres: Postgres
) -> None:
    import pyspark.sql.functions as F  # noqa: N812

    chance = random.Random(141)
    session: Any = spark.runtime.session(Event()).newSession()
    lost = 0
    with postgres.session() as connection:
        # A prepared statement would keep the type of the first column.
        connection.prepare_threshold = None
        connection.execute("SET timezone = 'UTC'")
        for kinds, types, values in GROUPS:
            more = [f"{chance.uniform(-1000, 1000):.{chance.randint(0, 6)}f}" for _ in range(20)]
            given = [(each,) for each in (*values, *(more if values is NUMBERS else ()))]
            named = [F.expr(f"try_cast(v AS {kind})").alias(f"v{n}") for n, kind in enumerate(kinds)]
            typed = session.createDataFrame(given, "v string").select(*named)
            pairs = [(n, held) for n in range(len(kinds)) for held in types]
            asked = []
            for number, (n, held) in enumerate(pairs):
                value, kind = F.col(f"v{n}"), typed.schema[n].dataType
                asked.append(written(value, kind, held).alias(f"text{number}"))
                losing = loses(value, kind, held)
                asked.append((F.lit(False) if losing is None else losing).alias(f"lost{number}"))
            rows = typed.select(*asked).collect()
            for number, (n, held) in enumerate(pairs):
                connection.execute("DROP TABLE IF EXISTS kept")
                connection.execute(f"CREATE TABLE kept (v {held})".encode())
                for text, is_lost in [row[2 * number : 2 * number + 2] for row in rows]:
                    is_kept = kept(connection, kinds[n], held, text) if text is not None else None
                    assert is_kept is None or is_kept != bool(is_lost), (kinds[n], held, text)
                    lost += bool(is_lost)
        connection.rollback()
    assert lost > 50, "some of them are"


def test_elements_of_arrays_are_values_too(spark: SparkBench) -> None:
    import pyspark.sql.functions as F  # noqa: N812

    session: Any = spark.runtime.session(Event()).newSession()
    rows = session.sql("SELECT * FROM VALUES (array(1.25, NULL)), (array(1.2, 3.0)), (array()) AS t (v)")
    typed = rows.select(F.col("v").cast("array<decimal(4,2)>").alias("v"))
    losing = loses(F.col("v"), typed.schema["v"].dataType, "numeric(4,1)[]")
    assert losing is not None
    assert [each for (each,) in typed.select(losing).collect()] == [True, False, False]
    assert loses(F.col("v"), typed.schema["v"].dataType, "numeric[]") is None
