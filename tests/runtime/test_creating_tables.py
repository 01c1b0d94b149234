"""Tables that several tasks create at once: each is created once, without errors."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.postgres import Database, PostgresOptions, create_table, identifier
from cooperator.connectors.postgres_target import KafkaToPostgresOptions, target_of
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real


def waiting(postgres: Postgres) -> int:
    """The number of connections that wait for a lock."""
    [(count,)] = postgres.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return int(count)


@contextmanager
def creating(postgres: Postgres, table: str) -> Iterator["psycopg.Connection[Any]"]:
    """Another session is creating the table: it is invisible, and other creators must wait."""
    with postgres.session() as other:
        other.execute(f"CREATE TABLE {table} (id integer)".encode())
        yield other


@pytest.mark.parametrize("creators", [2, 8])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_any_number_of_creators_get_the_table_and_no_error(
    postgres: Postgres, unique: str, creators: int, ends: str
) -> None:
    table = f"t{unique.replace('-', '_')}"
    # One table has several names, and therefore several locks.
    names = [table if number % 4 else f"public.{table}" for number in range(1, creators + 1)]
    statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} (id integer)")
    options = parse(PostgresOptions, {"connector.class": "x", **postgres.config})
    never = threading.Event()

    def create(name: str) -> None:
        database = Database(options, "creator", never, lambda text: None)
        try:
            database.run(
                lambda connection: create_table(connection, name, statement.format(identifier(name)))
            )
        finally:
            database.close()

    with ThreadPoolExecutor(creators) as pool:
        with creating(postgres, table) as other:
            futures: list[Future[None]] = [pool.submit(create, name) for name in names]
            eventually(lambda: waiting(postgres) == creators, what="all have looked, and wait")
            getattr(other, ends)()
        wait(futures)
    assert [future.exception() for future in futures] == [None] * creators
    assert postgres.count(table) == 0
    assert postgres.query("SELECT count(*) FROM pg_class WHERE relname = %s", table) == [(1,)]


def test_two_tasks_that_start_at_once_create_their_table_and_that_of_positions_and_none_fails(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = f"t{unique.replace('-', '_')}"
    positions = f"{table}_positions"
    spark.create_topic(unique, 2)
    spark.produce(unique, [{"value": b"%d" % number, "partition": number % 2} for number in range(10)])
    config = {
        "connector.class": "kafka-to-postgres",
        "trigger.interval.ms": "100",
        "topics": unique,
        "transform.sql": "SELECT INT(value) AS id FROM input",
        "table.name.format": table,
        "positions.table": positions,
        "auto.create": "true",
        **postgres.config,
    }
    tasks = [TaskId(unique, 0), TaskId(unique, 1)]
    with creating(postgres, positions):
        with creating(postgres, table):
            for task in tasks:
                spark.start(task, {**config, "task.units": f"{unique}-{task.task}"})
            eventually(lambda: waiting(postgres) == 2, 60, "both tasks want to create the table")
        created = "SELECT to_regclass(%s) IS NOT NULL"
        eventually(lambda: postgres.query(created, table) == [(True,)], 60)
        eventually(lambda: waiting(postgres) == 2, 60, "both tasks want to create the table of positions")
    eventually(lambda: postgres.count(table) == 10, 60)
    assert spark.unharmed(tasks), spark.heard.traces
    assert postgres.query(f"SELECT id FROM {table} ORDER BY id") == [(number,) for number in range(10)]
    spark.stop(*tasks)


@pytest.mark.parametrize("name", ["c" * 64, "ä" * 32])
def test_a_column_whose_name_the_database_would_cut_is_refused(
    postgres: Postgres, unique: str, name: str
) -> None:
    table = f"t{unique.replace('-', '_')}"
    config = {"connector.class": "kafka-to-postgres", "topics": "t", "bootstrap.servers": "unused:1"}
    config |= {"table.name.format": table, "auto.create": "true"}
    options = parse(KafkaToPostgresOptions, {**config, **postgres.config})
    with closing(Database(options, "creator", threading.Event(), lambda text: None)) as database:
        refused = rf"has the column {name}, of whose name PostgreSQL keeps 63 bytes; select it under"
        with pytest.raises(OptionError, match=refused):
            target_of(database, [("id", "int"), (name, "string")], options, "t")
        [(found,)] = postgres.query(f"SELECT to_regclass('{table}')")
        assert found is None
        target_of(database, [("id", "int"), (name[:-1], "string")], options, "t")
