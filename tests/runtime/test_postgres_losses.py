"""What is refused because a column would take a part of it is what PostgreSQL rounds or cuts, and no more."""

import random
from threading import Event
from typing import Any

import psycopg
import pytest

from cooperator.connectors.postgres_lines import texts
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
PAIRS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    *(
        (kind, held, NUMBERS)
        for kind in ("decimal(10,4)", "decimal(38,10)", "double", "float")
        for held in ("numeric(10,2)", "numeric(5,-2)", "numeric(38,0)", "numeric(38,38)", "numeric", "real")
    ),
    *((kind, "double precision", NUMBERS) for kind in ("decimal(38,10)", "double", "float")),
    *(
        (kind, held, WHOLE)
        for kind in ("int", "bigint", "decimal(38,0)")
        for held in ("numeric(38,10)", "numeric(5,-2)", "real", "double precision", "smallint")
    ),
    *(
        (kind, f"{held} time zone", MOMENTS)
        for kind in ("timestamp", "timestamp_ntz")
        for held in ("timestamp(0) with", "timestamp(3) with", "timestamp(6) without", "timestamp without")
    ),
    *((kind, "date", MOMENTS) for kind in ("timestamp", "timestamp_ntz")),
    ("string", "character varying(3)", TEXTS),
    ("string", "text", TEXTS),
)


def kept(session: psycopg.Connection[Any], kind: str, held: str, text: str) -> bool | None:
    """Whether a column has all of the value; None: the database refuses it."""
    try:
        with session.transaction():
            session.execute("DELETE FROM kept")
            session.execute("INSERT INTO kept VALUES (%s)", [text])  # no cast, which would cut more
            [(found,)] = session.execute("SELECT v::text FROM kept").fetchall()
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
        connection.execute("SET timezone = 'UTC'")
        for kind, held, values in PAIRS:
            more = [f"{chance.uniform(-1000, 1000):.{chance.randint(0, 6)}f}" for _ in range(20)]
            given = [*values, *(more if values is NUMBERS else ())]
            rows = session.createDataFrame([(each,) for each in given], "v string")
            typed = rows.select(F.expr(f"try_cast(v AS {kind})").alias("v")).where("v IS NOT NULL")
            losing = loses(F.col("v"), typed.schema["v"].dataType, held)
            written = texts(typed, {"v": held}).rows
            found = [text for (text,) in written.collect()]
            if losing is None:
                told = [False] * len(found)
            else:
                told = [bool(each) for (each,) in typed.select(F.coalesce(losing, F.lit(False))).collect()]
            connection.execute("DROP TABLE IF EXISTS kept")
            connection.execute(f"CREATE TABLE kept (v {held})".encode())
            for text, is_lost in zip(found, told, strict=True):
                is_kept = kept(connection, kind, held, text)
                assert is_kept is None or is_kept != is_lost, (kind, held, text)
                lost += is_lost
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
