"""The hour that autumn repeats: a row with a time without zone is read once, in whichever pass it is written.

The database's clock is replaced by one of a schema that is searched before ``pg_catalog``.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from cooperator.connectors.options import parse
from cooperator.connectors.postgres_source import PostgresSourceOptions, SourceTable, described
from tests.runtime.postgres import Postgres

pytestmark = pytest.mark.real

STEP = timedelta(minutes=5)
ZONES = {
    "Europe/Berlin": datetime(2026, 10, 24, 23, 0, tzinfo=UTC),
    "America/St_Johns": datetime(2026, 11, 1, 2, 30, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 13, 0, tzinfo=UTC),  # by half an hour
    "Antarctica/Troll": datetime(2026, 10, 24, 22, 0, tzinfo=UTC),  # by two hours
    "CET-1CEST,M3.5.0,M10.5.0/3": datetime(2026, 10, 24, 23, 0, tzinfo=UTC),
}
"""Zones, and some time before their clocks go back."""


def with_clock(connection: "psycopg.Connection[Any]", schema: str) -> None:
    connection.execute(f"CREATE SCHEMA {schema}".encode())
    connection.execute(f"CREATE TABLE {schema}.clock (at timestamptz)".encode())
    connection.execute(f"INSERT INTO {schema}.clock VALUES (now())".encode())
    body = f"'SELECT at FROM {schema}.clock'"
    made = f"CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS {body}"
    connection.execute(made.encode())
    connection.execute(f"SET search_path = {schema}, pg_catalog".encode())


def read(connection: "psycopg.Connection[Any]", table: SourceTable, position: str) -> tuple[str, list[int]]:
    """Returns the position after a batch, and the numbers of its rows."""
    [(ceiling,)] = connection.execute(b"SELECT " + table.ceiling().as_bytes(connection)).fetchall()
    found = connection.execute(table.end(position, ceiling, 1_000)).fetchone()
    if found is None:
        return position, []
    rows = connection.execute(table.texts(position, found[0]).encode()).fetchall()
    return found[0], [int(row[0]) for row in rows]


@pytest.mark.parametrize("zone", ZONES)
def test_each_row_of_the_double_hour_is_read_once(postgres: Postgres, unique: str, zone: str) -> None:
    schema = unique.replace("-", "_")
    with postgres.session() as connection:
        with_clock(connection, schema)
        connection.execute(f"CREATE TABLE {schema}.rows (id int, at timestamp NOT NULL)".encode())
        config = {"mode": "timestamp", "timestamp.column.name": "at", "timestamp.delay.interval.ms": "0"}
        config |= {"connector.class": "x", "tables": f"{schema}.rows", "db.timezone": zone}
        options = parse(PostgresSourceOptions, {**config, **postgres.config})
        table = described(connection, options, f"{schema}.rows")
        position, seen, repeated = "", list[int](), 0
        locals_ = set[str]()
        for step in range(6 * 12):
            now = ZONES[zone] + step * STEP
            connection.execute(b"UPDATE clock SET at = %s", [now])
            [(local,)] = connection.execute(b"SELECT (%s AT TIME ZONE %s)::text", [now, zone]).fetchall()
            connection.execute(b"INSERT INTO rows VALUES (%s, %s::timestamp)", [step, local])
            repeated += local in locals_
            locals_.add(local)
            position, rows = read(connection, table, position)
            seen += rows
            late = step - min(rows, default=step)
            assert late * STEP <= timedelta(hours=2), "a row waits for no longer than the clock goes back"
        assert repeated >= 6, "the clock has gone back"
        assert sorted(seen) == list(range(6 * 12)), f"{zone}: up to {json.loads(position)}"
