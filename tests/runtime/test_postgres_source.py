"""A table with many concurrent writers is read row by row, exactly once, on a real PostgreSQL."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_jdbc import jdbc_settings
from cooperator.connectors.postgres_source import PostgresSourceOptions, described
from cooperator.connectors.tablelogs.arrivals import NewRows
from cooperator.connectors.tablelogs.database import PostgresTables
from cooperator.connectors.tablelogs.table_log import TableLogs
from tests.runtime.postgres import PASSWORD, Postgres

pytestmark = pytest.mark.real

WRITERS = 8
LOOKS = 1_500


@contextmanager
def written_by_many(postgres: Postgres, table: str) -> Iterator[None]:
    """Writes as fast as possible, so that commits overtake each other again and again."""
    over = threading.Event()

    def insert() -> None:
        url = postgres.url.removeprefix("jdbc:")
        with psycopg.connect(url, user="tester", password=PASSWORD, autocommit=True) as connection:
            while not over.is_set():
                connection.execute(f"INSERT INTO {table} DEFAULT VALUES".encode())

    with ThreadPoolExecutor() as pool:
        inserting = [pool.submit(insert) for _ in range(WRITERS)]
        try:
            yield
        finally:
            over.set()
        for one in inserting:
            one.result()


def test_no_row_is_skipped_however_commits_overtake_each_other(postgres: Postgres, unique: str) -> None:
    name = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {name} (id bigserial PRIMARY KEY)")
    config = {"connector.class": "x", "mode": "incrementing", "tables": name, "batch.max.rows": "100000"}
    options = parse(PostgresSourceOptions, {**config, **postgres.config})
    table = Partition(name, 0)
    seen: list[int] = []

    with closing(Database(options, unique, threading.Event(), lambda text: None)) as database:
        logs, tables = TableLogs({table: name}), PostgresTables(database, options, {table: name})
        # More looks make the test harder.
        rows = NewRows(logs, tables, 0, options.max_rows, lambda text: None, settling_s=0.001)

        def step() -> None:
            log = logs[table]
            [end] = rows.wait({table: log.next}).values()
            query = tables.described[table].texts(log.position, log.at(end)).encode()
            seen.extend(
                int(number) for (number,) in database.run(lambda connection: connection.execute(query))
            )
            log.reach(end)

        with written_by_many(postgres, name):
            for _ in range(LOOKS):
                step()
        while len(seen) < postgres.count(name):
            step()
    assert seen == [number for (number,) in postgres.query(f"SELECT id FROM {name} ORDER BY id")]


def test_a_time_without_a_zone_beside_one_with_a_zone_is_in_that_of_the_option(
    postgres: Postgres, unique: str
) -> None:
    """West of UTC a row would seem older than it is, and be passed over."""
    name = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {name} (id integer, changed timestamptz, made timestamp NOT NULL)")
    postgres.query(f"INSERT INTO {name} VALUES (1, NULL, '2026-07-01 08:00')")
    columns = {"timestamp.column.name": "changed,made", "db.timezone": "America/New_York"}
    config = {"connector.class": "x", "mode": "timestamp", "tables": name, **columns}
    options = parse(PostgresSourceOptions, {**config, **postgres.config})
    with postgres.session() as session:
        session.execute("SET timezone = 'UTC'")
        last = described(session, options, name).last('{"timestamp": "2026-07-02 00:00:00+00"}')
        [(position,)] = session.execute(last).fetchall()
    assert json.loads(position)["timestamp"] == "2026-07-01T12:00:00+00:00"


def test_values_do_not_depend_on_settings_of_the_role(postgres: Postgres) -> None:
    """The member's sessions and those of Spark's tasks get the same settings."""
    odd = {
        "datestyle": "German, DMY",
        "intervalstyle": "iso_8601",
        "bytea_output": "escape",
        "extra_float_digits": "-3",
        "array_nulls": "off",
        "timezone": "Asia/Kathmandu",
    }
    config = {"connector.class": "x", "mode": "incrementing", "tables": "t", **postgres.config}
    options = parse(PostgresSourceOptions, config)
    texts = (
        "date '2026-02-01'::text, interval '1 day 02:00'::text, '\\x00ff'::bytea::text, "
        "(0.1::float8 + 0.2::float8)::text, ('{1,NULL}'::int[])::text, "
        "timestamptz '2026-02-01 12:00+00'::text"
    )
    try:
        for name, value in odd.items():
            postgres.query(f"ALTER ROLE tester SET {name} = '{value}'")
        with closing(Database(options, "settings", threading.Event(), lambda text: None)) as database:
            found = database.run(lambda connection: connection.execute(f"SELECT {texts}".encode()).fetchone())
            handed = database.run(jdbc_settings).properties["options"]
    finally:
        postgres.query("ALTER ROLE tester RESET ALL")
    assert found == (
        *("2026-02-01", "1 day 02:00:00", "\\x00ff", "0.30000000000000004", "{1,NULL}"),
        "2026-02-01 12:00:00+00",
    )
    assert all(f"-c {name}=" in handed for name in odd)
