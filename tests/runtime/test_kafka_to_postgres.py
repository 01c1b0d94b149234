"""Topics to tables on a real broker, a real Spark and a real PostgreSQL: tables have every row once."""

import os
import signal
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Epoch, TaskId
from cooperator.runtime import TaskSpec
from tests.harness.support import eventually, freeze_group
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.spark_bench import SparkBench, member

pytestmark = pytest.mark.real


NOW_MS = int(time.time()) * 1000
"""The broker would delete older records (retention) before a slow test has read them."""
ORDERS = (
    "SELECT CAST(key AS LONG) AS id, CAST(get_json_object(value, '$.amount') AS DECIMAL(10, 2)) AS amount, "
    "get_json_object(value, '$.note') AS note, timestamp AS at, value IS NULL AS __deleted FROM input"
)
NUMBERS = "SELECT CAST(value AS INT) AS number, CAST(value AS INT) % 7 AS slot FROM input"


def sink(postgres: Postgres, **options: object) -> dict[str, str]:
    config = {
        "connector.class": "kafka-to-postgres",
        "trigger.interval.ms": 100,
        "units.refresh.interval.ms": 200,
        **postgres.config,
    }
    config |= {name.replace("_", "."): value for name, value in options.items()}
    return {name: str(value) for name, value in config.items()}


def table_of(unique: str) -> str:
    return unique.replace("-", "_")


def test_rows_take_the_place_of_those_with_their_key_and_go_when_their_record_has_no_value(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, amount numeric(10, 2), note text, "
        "at timestamptz, kept integer DEFAULT 7)"
    )
    spark.produce(
        unique,
        [
            {"key": "1", "value": '{"amount": "1.50", "note": "é\\t\\\\N"}', "timestamp": NOW_MS + 1_000},
            {"key": "2", "value": '{"amount": "2.00"}', "timestamp": NOW_MS + 2_000},
            {"key": "1", "value": '{"amount": "9.99"}', "timestamp": NOW_MS + 3_000},
            {"key": "3", "value": '{"note": "gone soon"}', "timestamp": NOW_MS + 4_000},
            {"key": "3", "value": None, "timestamp": NOW_MS + 5_000},
        ],
    )
    config = sink(postgres, topics=unique, insert_mode="upsert", transform_sql=ORDERS)
    config["table.name.format"] = table
    tasks = spark.start_connector(unique, config, 1)

    def rows() -> list[tuple[object, ...]]:
        return postgres.query(f"SELECT id, amount, note, at, kept FROM {table} ORDER BY id")

    def at(second: int) -> datetime:
        return datetime.fromtimestamp(NOW_MS // 1000 + second, UTC)

    expected = [(1, Decimal("9.99"), None, at(3), 7), (2, Decimal("2.00"), None, at(2), 7)]
    eventually(lambda: len(rows()) == 2, 60)
    assert rows() == expected
    postgres.query(f"UPDATE {table} SET kept = 8")
    spark.produce(
        unique,
        [
            {"key": "2", "value": None},
            {"key": "1", "value": '{"note": "é\\t\\\\N"}', "timestamp": NOW_MS + 6_000},
        ],
    )
    eventually(lambda: len(rows()) == 1, 60)
    assert rows() == [(1, None, "é\t\\N", at(6), 8)], "a column outside of the SELECT has changed"
    eventually(lambda: spark.heard.progress_of(tasks[1]).get("rows_out") == 7)
    spark.stop(*tasks)


def test_a_null_in_the_key_of_an_upsert_fails_the_task_or_makes_a_letter_wherever_batches_end(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (id bigint UNIQUE, note text)")
    spark.produce(
        unique, [{"key": None, "value": "a"}, {"key": "1", "value": "b"}, {"key": None, "value": "c"}]
    )
    sql = "SELECT CAST(CAST(key AS STRING) AS BIGINT) AS id, CAST(value AS STRING) AS note FROM input"
    config = sink(postgres, insert_mode="upsert", pk_fields="id", transform_sql=sql, topics=unique)
    config |= {"table.name.format": table, "task.units": f"{unique}-0"}
    task = TaskId(unique, 0)
    attempt = spark.start(task, config)
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
    assert (
        "column id is null, and is in the key by which rows replace others"
        in spark.heard.traces[task, attempt]
    )
    assert postgres.query(f"SELECT count(*) FROM {table}") == [(0,)]

    dead = f"{unique}-dead"
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    spark.create_topic(dead, 1)
    spark.start(task, {**config, **tolerant})
    eventually(lambda: len(spark.messages(dead)) == 2, 60)
    eventually(lambda: postgres.query(f"SELECT * FROM {table}") == [(1, "b")], 60)
    spark.stop(task)


def test_every_type_finds_its_column_in_a_table_that_is_created(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    sql = (
        "SELECT true AS yes, 1 AS number, 2L AS big, 1.5D AS real, 12.30 AS money, value AS text, "
        "CAST(value AS BINARY) AS raw, DATE'2024-02-29' AS day, TIMESTAMP'2024-02-29 12:00:00' AS at, "
        "TIMESTAMP_NTZ'2024-02-29 12:00:00' AS clock, array(1, NULL, 3) AS numbers, "
        "named_struct('a', 1, 'b', array('x')) AS nested, CAST(NULL AS STRING) AS nothing FROM input"
    )
    spark.produce(unique, [b"tab\tquote'back\\slash"])
    config = sink(postgres, topics=unique, transform_sql=sql, auto_create="true")
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: postgres.count(f'"{unique}"') == 1, 60)
    moment = datetime(2024, 2, 29, 12, tzinfo=UTC)
    text = "tab\tquote'back\\slash"
    assert postgres.query(f'SELECT * FROM "{unique}"') == [
        (
            *(True, 1, 2, 1.5, Decimal("12.30"), text, text.encode(), moment.date(), moment),
            *(moment.replace(tzinfo=None), [1, None, 3], {"a": 1, "b": ["x"]}, None),
        )
    ]
    spark.stop(*tasks)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "option 'table.name.format' = '{topic}': table "),
        ({}, '("number" integer, "slot" integer)'),
        ({"table.name.format": "refusing"}, "option 'transform.sql'"),
        (
            {"table.name.format": "refusing"},
            "has columns that table refusing does not have: slot; select only columns",
        ),
        (
            {"table.name.format": "keyless", "insert.mode": "upsert"},
            "option 'pk.fields': table keyless has no primary key; add a primary key",
        ),
        (
            {"table.name.format": "keyed", "insert.mode": "upsert"},
            "option 'pk.fields': rows lack the key columns id of table keyed",
        ),
        (
            {"table.name.format": "keyed", "insert.mode": "upsert", "pk.fields": "slot"},
            "option 'pk.fields' = 'slot': table keyed has no unique index over slot",
        ),
        ({"connection.url": "jdbc:postgresql://h/d?loginTimeout=1"}, "option 'connection.url'"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused_at_the_start(
    spark: SparkBench, postgres: Postgres, unique: str, options: dict[str, str], problem: str
) -> None:
    postgres.query("CREATE TABLE IF NOT EXISTS refusing (number integer)")
    postgres.query("CREATE TABLE IF NOT EXISTS keyless (number integer, slot integer)")
    postgres.query("CREATE UNIQUE INDEX IF NOT EXISTS some_of ON keyless (number) WHERE slot = 1")
    postgres.query(
        "CREATE TABLE IF NOT EXISTS keyed (id integer PRIMARY KEY DEFAULT 1, number integer, slot integer)"
    )
    spark.create_topic(unique, 1)
    task = TaskId(unique, 0)
    config = {**sink(postgres, topics=unique, transform_sql=NUMBERS), **options}
    spark.start(task, {**config, "task.units": f"{unique}-0"})
    eventually(lambda: spark.heard.of(task) == [("failed", 1)], 60)
    assert problem in spark.heard.traces[task, 1]


@pytest.mark.parametrize(
    ("span", "parameter"),
    [("make_dt_interval(1)", ""), ("'1 day'", "?require_auth=scram-sha-256")],
    ids=["a type without lines", "a parameter that the JDBC driver lacks"],
)
def test_rows_that_no_task_of_spark_can_copy_are_written_by_the_member(
    spark: SparkBench, postgres: Postgres, unique: str, span: str, parameter: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (number integer, span interval)")
    spark.produce(unique, [b"%d" % number for number in range(20)])
    sql = f"SELECT CAST(value AS INT) AS number, {span} AS span FROM input"
    config = sink(postgres, topics=unique, transform_sql=sql, max_offsets_per_trigger=7)
    config |= {"table.name.format": table, "connection.url": f"{postgres.url}{parameter}"}
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: postgres.count(table) == 20, 60, f"{spark.heard.texts}")
    rows = postgres.query(f"SELECT number, span::text FROM {table} ORDER BY number")
    assert rows == [(number, "1 day") for number in range(20)]
    spark.stop(*tasks)


def test_topics_are_copied_into_tables_of_their_own(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    """Lines differ by a table's types, so these topics do not share a query."""
    names = [f"{table_of(unique)}_{number}" for number in range(4)]
    for number, name in enumerate(names):
        kind = "jsonb" if number % 2 else "integer[]"
        postgres.query(f"CREATE TABLE {name} (number integer, listed {kind})")
        spark.produce(name, [b"%d" % value for value in range(50)])
    sql = "SELECT CAST(value AS INT) AS number, array(CAST(value AS INT)) AS listed FROM input"
    config = sink(postgres, topics=",".join(names), transform_sql=sql, max_offsets_per_trigger=20)
    tasks = spark.start_connector(unique, config, 4)
    for name in names:
        eventually(lambda name=name: postgres.count(name) == 50, 60, f"{spark.heard.texts}")
        rows = postgres.query(f"SELECT * FROM {name} ORDER BY number")
        assert rows == [(number, [number]) for number in range(50)]
    spark.stop(*tasks)


def test_an_attempt_of_an_older_epoch_is_refused(spark: SparkBench, postgres: Postgres, unique: str) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (number integer, slot integer)")
    spark.produce(unique, [b"1"])
    task = TaskId(unique, 0)
    config = sink(postgres, topics=unique, transform_sql=NUMBERS)
    config |= {"task.units": f"{unique}-0", "table.name.format": table}
    spark.runtime.start(TaskSpec(task, config, epoch=Epoch(2, 5)), 1)
    eventually(lambda: postgres.count(table) == 1, 60)
    spark.runtime.stop(task, 1)
    eventually(lambda: spark.heard.of(task)[-1] == ("stopped", 1), 60)
    spark.runtime.start(TaskSpec(task, config, epoch=Epoch(1, 9)), 2)
    eventually(lambda: spark.heard.of(task)[-1] == ("failed", 2), 60)
    trace = spark.heard.traces[task, 2]
    assert "was claimed under epoch 2.5 by attempt 2-5-" in trace
    assert "stop the connector, and reset or alter its offsets" in trace


def test_a_password_is_a_reference_and_appears_in_no_failure(
    spark: SparkBench, postgres: Postgres, unique: str, tmp_path: Path
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (number integer NOT NULL, slot integer)")
    spark.produce(unique, [b"1"])
    secrets = tmp_path / "secrets"
    secrets.write_text(f"right={PASSWORD}\nwrong=Tr0ub4dor\n")
    task = TaskId(unique, 0)
    config = sink(postgres, topics=unique, transform_sql=NUMBERS)
    config |= {"task.units": f"{unique}-0", "table.name.format": table}
    spark.start(task, {**config, "connection.password": f"${{file:{secrets}:wrong}}"})
    eventually(lambda: "password authentication failed" in spark.heard.texts.get(task, ""), 60)
    assert "Tr0ub4dor" not in spark.heard.texts[task]
    spark.stop(task)
    spark.start(task, {**config, "connection.password": f"${{file:{secrets}:right}}"})
    eventually(lambda: postgres.count(table) == 1, 60)
    spark.produce(unique, [b"many"])
    eventually(lambda: spark.heard.of(task)[-1] == ("failed", 2), 60)
    assert PASSWORD not in spark.heard.traces[task, 2]


def test_a_database_that_is_away_for_a_while_stops_no_task(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (number integer, slot integer)")
    spark.produce(unique, [b"%d" % number for number in range(200)])
    config = sink(postgres, topics=unique, transform_sql=NUMBERS, max_offsets_per_trigger=20)
    config["table.name.format"] = table
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: postgres.count(table) > 0, 60)
    postgres.stop()
    spark.produce(unique, [b"%d" % number for number in range(200, 300)])
    eventually(lambda: "waiting for PostgreSQL" in spark.heard.waits_of(tasks[1]), 60)
    postgres.start()
    eventually(lambda: postgres.count(table) >= 300, 60)
    assert postgres.query(f"SELECT number FROM {table} ORDER BY number") == [(n,) for n in range(300)]
    eventually(lambda: not spark.heard.waits_of(tasks[1]), 60)
    assert spark.unharmed(tasks)
    spark.stop(*tasks)


def member_settings(
    broker: EmbeddedBroker, tmp_path: Path, unique: str, tasks: list[list[object]]
) -> dict[str, object]:
    return {
        "checkpoints": str(tmp_path / "checkpoints"),
        "group_id": unique,
        "bootstrap_servers": broker.bootstrap_servers,
        "tasks": tasks,
    }


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
@pytest.mark.timeout(600)
def test_members_killed_in_mid_stream_neither_lose_nor_double_a_row(
    broker: EmbeddedBroker, spark: SparkBench, postgres: Postgres, tmp_path: Path, unique: str
) -> None:
    added, replaced, count = f"{table_of(unique)}_a", f"{table_of(unique)}_u", 2_000
    postgres.query(f"CREATE TABLE {added} (number integer, slot integer)")
    postgres.query(f"CREATE TABLE {replaced} (number integer, slot integer PRIMARY KEY)")
    spark.create_topic(unique, 2)
    numbers = sink(postgres, topics=unique, transform_sql=NUMBERS, max_offsets_per_trigger=100)
    append = {**numbers, "table.name.format": added}
    upsert = {**numbers, "table.name.format": replaced, "insert.mode": "upsert"}
    partitions = [f"{unique}-{number}" for number in range(2)]
    settings = member_settings(
        broker,
        tmp_path,
        unique,
        [
            ["add", 0, {**append, "task.units": ",".join(partitions)}],
            ["replace", 0, {**upsert, "task.units": ",".join(partitions)}],
        ],
    )
    log = tmp_path / "member.log"
    # All numbers of one slot are in one partition, so the newest is known.
    spark.produce(unique, [{"value": b"%d" % n, "partition": int(n % 7 > 3)} for n in range(count)])
    newest = {number % 7: number for number in range(count)}
    for turn in range(2):
        before = postgres.count(added)
        lived = {
            "incarnation": f"incarnation-{turn}",
            "epoch": [1, turn],
            "state_dir": str(tmp_path / "state"),
        }
        with member({**settings, **lived}, log):
            eventually(lambda before=before: postgres.count(added) > before + 200, 180, "it writes")
        assert postgres.count(added) < count, "the member was not killed in mid-stream"

    def contents() -> dict[int, int]:
        return dict(postgres.query(f"SELECT slot, number FROM {replaced}"))

    lived = {"incarnation": "last", "epoch": [1, 9], "state_dir": str(tmp_path / "state")}
    with member({**settings, **lived}, log):
        eventually(lambda: postgres.count(added) >= count and contents() == newest, 180, "it is all there")
    assert postgres.query(f"SELECT number FROM {added} ORDER BY number") == [(n,) for n in range(count)]
    assert "failed" not in log.read_text()


@pytest.mark.timeout(600)
@pytest.mark.long(
    "tests/runtime/test_copy_batches.py::"
    "test_a_backend_that_is_terminated_before_its_commit_has_written_nothing"
)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_member_killed_with_a_batch_in_flight_leaves_none_of_it_and_the_next_one_writes_it_once(
    broker: EmbeddedBroker, spark: SparkBench, postgres: Postgres, tmp_path: Path, unique: str, mode: str
) -> None:
    """The database has uncommitted rows of the batch and waits for a lock."""
    table, count = table_of(unique), 200
    key = " PRIMARY KEY" if mode == "upsert" else ""
    postgres.query(f"CREATE TABLE {table} (number integer, slot integer{key})")
    config = sink(postgres, topics=unique, transform_sql=NUMBERS, max_offsets_per_trigger=100)
    config |= {"table.name.format": table, "insert.mode": mode, "task.units": f"{unique}-0"}
    settings = member_settings(broker, tmp_path, unique, [[unique, 0, config]])
    log = tmp_path / "member.log"

    def incarnation(number: int) -> dict[str, object]:
        own = {"incarnation": f"incarnation-{number}", "epoch": [1, number]}
        return {**settings, **own, "state_dir": str(tmp_path / "state")}

    def waits() -> bool:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        # A table without keys is copied into directly.
        return postgres.query(asked, f"%{'INSERT INTO' if key else 'COPY'}%{table}%") == [(1,)]

    if mode == "upsert":
        postgres.query(f"INSERT INTO {table} VALUES (-1, 3)")
    at_first = postgres.query(f"SELECT number, slot FROM {table}")
    spark.produce(unique, [b"%d" % number for number in range(count)])
    with postgres.session() as other:
        # Keys are taken in order: slots 0 to 2 are written when the batch reaches 3.
        held = (
            f"SELECT * FROM {table} WHERE slot = 3 FOR UPDATE" if key else f"LOCK TABLE {table} IN SHARE MODE"
        )
        other.execute(held.encode())
        with member(incarnation(1), log):
            eventually(waits, 180, "the batch is in flight")
    assert postgres.query(f"SELECT number, slot FROM {table}") == at_first
    every = [(number, number % 7) for number in range(count)]

    def contents() -> bool:
        found = sorted(postgres.query(f"SELECT number, slot FROM {table}"))
        wanted = sorted({slot: (number, slot) for number, slot in every}.values()) if key else every
        return found == wanted

    with member(incarnation(2), log):
        eventually(contents, 180, "all batches are there")
    with member(incarnation(3), log):
        more = [(number, number % 7) for number in range(count, count + 50)]
        every += more
        spark.produce(unique, [b"%d" % number for number, _ in more])
        eventually(contents, 180, "later rows are there, too, and no row is there again")
    assert "failed" not in log.read_text()


@pytest.mark.long(
    "tests/runtime/test_copy_batches.py::test_an_attempt_that_lost_its_units_in_mid_copy_writes_nothing"
)
@pytest.mark.timeout(600)
def test_a_frozen_member_that_wakes_commits_nothing(
    broker: EmbeddedBroker, spark: SparkBench, postgres: Postgres, tmp_path: Path, unique: str
) -> None:
    table, count = table_of(unique), 2_000
    postgres.query(f"CREATE TABLE {table} (number integer, slot integer)")
    config = sink(postgres, topics=unique, transform_sql=NUMBERS, max_offsets_per_trigger=50)
    config |= {"table.name.format": table, "task.units": f"{unique}-0", "transaction.timeout.ms": "1000"}
    settings = member_settings(broker, tmp_path, unique, [[unique, 0, config]])
    spark.produce(unique, [b"%d" % number for number in range(count)])
    frozen_log, log = tmp_path / "frozen.log", tmp_path / "member.log"
    first = {**settings, "incarnation": "a", "epoch": [1, 1], "state_dir": str(tmp_path / "a")}
    second = {**settings, "incarnation": "b", "epoch": [1, 2], "state_dir": str(tmp_path / "b")}
    with member(first, frozen_log) as frozen:
        eventually(lambda: postgres.count(table) > 100, 180, "it writes")
        freeze_group(frozen)
        seen = postgres.count(table)
        assert seen < count, "the member was not frozen in mid-stream"
        with member(second, log):
            eventually(lambda: postgres.count(table) > seen + 200, 180, "its successor writes")
            os.killpg(frozen, signal.SIGCONT)
            eventually(lambda: "failed" in frozen_log.read_text(), 60, "it ends")
            eventually(lambda: postgres.count(table) >= count, 180, "everything is there")
    assert postgres.query(f"SELECT number FROM {table} ORDER BY number") == [(n,) for n in range(count)]
    assert "failed" not in log.read_text()
