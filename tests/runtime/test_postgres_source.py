"""A table with many concurrent writers is read row by row, exactly once, on a real PostgreSQL."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest

from cooperator.connectors import postgres_source
from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import PostgresSourceOptions, TableReader
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


def test_no_row_is_skipped_however_commits_overtake_each_other(
    postgres: Postgres, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_source, "_SETTLING_S", 0.001)  # More looks make the test harder.
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (id bigserial PRIMARY KEY)")
    config = {"connector.class": "x", "mode": "incrementing", "tables": table, "batch.max.rows": "100000"}
    options = parse(PostgresSourceOptions, {**config, **postgres.config})
    never = threading.Event()
    seen: list[int] = []
    position = ""

    def step(reader: TableReader) -> bool:
        nonlocal position
        end = reader.next_end(position, never.wait, lambda text: None)
        if end is not None:
            seen.extend(row["id"] for row in reader.read(position, end))
            position = end
        return end is not None

    with closing(Database(options, unique, never, lambda text: None)) as database:
        reader = TableReader(database, options, table)
        with written_by_many(postgres, table):
            for _ in range(LOOKS):
                step(reader)
        while step(reader):
            pass
    assert seen == [number for (number,) in postgres.query(f"SELECT id FROM {table} ORDER BY id")]
