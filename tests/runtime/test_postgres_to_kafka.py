"""Tables to topics on a real PostgreSQL, a real broker and a real Spark: every row arrives once."""

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient

from cooperator.connectors.registry import AvroReader
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import INSTANCE, TaskId
from tests.harness.support import eventually, freeze_group
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench, member

pytestmark = pytest.mark.real


def source(postgres: Postgres, **options: object) -> dict[str, str]:
    config = {
        "connector.class": "postgres-to-kafka",
        "mode": "incrementing",
        "trigger.interval.ms": 100,
        "units.refresh.interval.ms": 200,
        "topic.partitions": 1,
        **postgres.config,
    }
    config |= {name.replace("_", "."): value for name, value in options.items()}
    return {name: str(value) for name, value in config.items()}


def table_of(unique: str) -> str:
    return unique.replace("-", "_")


def values(spark: SparkBench, topic: str) -> list[Any]:
    return [json.loads(value) for _, value in spark.records(topic)]


def numbers(spark: SparkBench, topic: str) -> list[int]:
    return [value["id"] for value in values(spark, topic)]


def test_new_rows_come_with_all_their_types_and_the_primary_key(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(
        f"CREATE TABLE {table} (id serial PRIMARY KEY, small smallint, yes boolean, real double precision, "
        "money numeric(10, 2), free numeric, text varchar(9), raw bytea, day date, at timestamptz, "
        "clock timestamp, doc jsonb, id2 uuid, numbers integer[], words text[])"
    )
    row = (
        "1, true, 1.5, 12.30, 1e-20, 'é\"', '\\x00ff', '2024-02-29', '2024-02-29 12:00:00.123456+01', "
        "'2024-02-29 12:00', '{\"a\": 1}', '00000000-0000-0000-0000-00000000000a', '{1,NULL}', '{a}'"
    )
    columns = "small, yes, real, money, free, text, raw, day, at, clock, doc, id2, numbers, words"
    postgres.query(f"INSERT INTO {table} ({columns}) VALUES ({row})")
    postgres.query(f"INSERT INTO {table} DEFAULT VALUES")
    config = source(postgres, tables=table, topic=unique, tasks_max=1)
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: len(spark.records(unique)) == 2, 60)
    [(first, _), (second, _)] = spark.records(unique)
    assert (first, second) == (b"1", b"2")
    full, empty = values(spark, unique)
    assert full == {
        "id": 1,
        "small": 1,
        "yes": True,
        "real": 1.5,
        "money": "12.30",
        "free": "0.00000000000000000001",
        "text": 'é"',
        "raw": "AP8=",
        "day": "2024-02-29",
        "at": "2024-02-29T11:00:00.123456+00:00",
        "clock": "2024-02-29T12:00:00",
        "doc": '{"a": 1}',
        "id2": "00000000-0000-0000-0000-00000000000a",
        "numbers": [1, None],
        "words": ["a"],
    }
    assert empty == {name: 2 if name == "id" else None for name in full}
    postgres.query(f"INSERT INTO {table} (small) VALUES (7)")
    eventually(lambda: numbers(spark, unique) == [1, 2, 3], 60)
    eventually(lambda: spark.heard.progress_of(tasks[1]).get("rows_out") == 3)
    spark.stop(*tasks)


def test_a_row_that_is_committed_late_is_not_skipped(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    tasks = spark.start_connector(unique, source(postgres, tables=table, topic=unique), 1)
    late = psycopg.connect(postgres.url.removeprefix("jdbc:"), user="tester", password=PASSWORD)
    try:
        late.execute(f"INSERT INTO {table} DEFAULT VALUES".encode())
        postgres.query(f"INSERT INTO {table} DEFAULT VALUES")
        waits = "waiting for the end of transactions that write to it"
        eventually(lambda: waits in spark.heard.waits_of(tasks[1]), 60)
        assert numbers(spark, unique) == []
        late.commit()
    finally:
        late.close()
    eventually(lambda: len(numbers(spark, unique)) == 2, 60)
    assert numbers(spark, unique) == [1, 2]
    eventually(lambda: not spark.heard.waits_of(tasks[1]), 60)
    spark.stop(*tasks)


def test_changed_rows_come_again_and_many_with_one_timestamp_come_together(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    both, alone = f"{table_of(unique)}_b", f"{table_of(unique)}_a"
    for table in (both, alone):
        postgres.query(
            f"CREATE TABLE {table} (id integer PRIMARY KEY, made timestamp NOT NULL, changed timestamp)"
        )
        postgres.query(
            f"INSERT INTO {table} SELECT n, '2024-01-01'::timestamp + n / 10 * interval '1 second' "
            "FROM generate_series(1, 25) AS n"
        )
    options = {"timestamp.column.name": "changed,made", "batch.max.rows": "4"}
    first = {**source(postgres, tables=alone, mode="timestamp", topic=f"{unique}-a"), **options}
    second = source(postgres, tables=both, mode="timestamp+incrementing", topic=f"{unique}-b")
    second |= {**options, "incrementing.column.name": "id"}
    tasks = spark.start_connector(f"{unique}-1", first, 1) + spark.start_connector(f"{unique}-2", second, 1)
    for topic in (f"{unique}-a", f"{unique}-b"):
        eventually(lambda topic=topic: len(numbers(spark, topic)) >= 25, 60)
        assert sorted(numbers(spark, topic)) == list(range(1, 26))
    assert numbers(spark, f"{unique}-b") == list(range(1, 26)), "rows are in the order of their positions"
    for table in (both, alone):
        postgres.query(f"UPDATE {table} SET changed = now() AT TIME ZONE 'UTC' WHERE id IN (3, 4)")
        postgres.query(f"UPDATE {table} SET changed = '9999-01-01' WHERE id = 5")
    for topic in (f"{unique}-a", f"{unique}-b"):
        eventually(lambda topic=topic: len(numbers(spark, topic)) >= 27, 60)
        assert sorted(numbers(spark, topic)[25:]) == [3, 4], "rows with future timestamps have to wait"
    spark.stop(*tasks)


def test_a_row_waits_for_the_delay_after_its_timestamp(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (id integer, at timestamptz NOT NULL)")
    postgres.query(f"INSERT INTO {table} VALUES (1, now() - interval '1 hour'), (2, now())")
    config = source(postgres, tables=table, topic=unique, mode="timestamp")
    config |= {"timestamp.column.name": "at", "timestamp.delay.interval.ms": "1800000"}
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: numbers(spark, unique) == [1], 60)
    postgres.query(f"INSERT INTO {table} VALUES (3, now() - interval '40 minutes')")
    eventually(lambda: len(numbers(spark, unique)) == 2, 60)
    assert numbers(spark, unique) == [1, 3], "a late row was skipped, or the newest did not wait"
    spark.stop(*tasks)


def test_tables_that_are_created_later_become_units_with_topics_of_their_own(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    schema = table_of(unique)
    postgres.query(f"CREATE SCHEMA {schema}")
    postgres.query(f"CREATE TABLE {schema}.first (id serial PRIMARY KEY)")
    postgres.query(f"INSERT INTO {schema}.first DEFAULT VALUES")
    config = source(postgres, topic="{schema}.{table}", tasks_max=4, **{"tables.regex": f"{schema}[.].*"})
    [instance, task] = spark.start_connector(unique, config, 1)
    postgres.query(f"CREATE TABLE {schema}.second (id serial PRIMARY KEY)")
    postgres.query(f"INSERT INTO {schema}.second DEFAULT VALUES")
    configs = spark.heard.configs[unique]
    wanted = [f"{schema}.first", f"{schema}.second"]
    eventually(lambda: [one["task.units"] for one in configs[-1]] == wanted, 60)
    spark.start(TaskId(unique, 1), configs[-1][1])
    for topic in wanted:
        eventually(lambda topic=topic: numbers(spark, topic) == [1], 60)
    assert spark.unharmed([instance, task])
    spark.stop(instance, task, TaskId(unique, 1))


def test_a_table_of_any_name_is_read_by_a_pattern(spark: SparkBench, postgres: Postgres, unique: str) -> None:
    schema = f"{table_of(unique)} $ß"
    names = ["größe x", "1st", "pay$me", 'say ""hi""', "a.b", "50%%", "it's {table}"]
    postgres.query(f'CREATE SCHEMA "{schema}"')
    for number, name in enumerate(names):
        postgres.query(f'CREATE TABLE "{schema}"."{name}" (id serial PRIMARY KEY, number integer)')
        postgres.query(f'INSERT INTO "{schema}"."{name}" (number) VALUES ({number})')
    config = source(postgres, topic=unique, **{"tables.regex": f"{table_of(unique)} [$]ß[.].*"})
    tasks = spark.start_connector(unique, config, len(names))
    eventually(lambda: {value["number"] for value in values(spark, unique)} == set(range(len(names))), 60)
    assert spark.unharmed(tasks)
    spark.stop(*tasks)


def test_tables_of_one_name_get_no_topic_together_unless_that_is_said(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    one, other = (f"{table_of(unique)}_{letter}" for letter in "ab")
    for schema in (one, other):
        postgres.query(f"CREATE SCHEMA {schema}")
        postgres.query(f"CREATE TABLE {schema}.orders (id serial PRIMARY KEY)")
    config = source(postgres, **{"tables.regex": f"{table_of(unique)}_.[.]orders"})
    instance = TaskId(unique, INSTANCE)
    spark.start(instance, config)
    eventually(lambda: spark.heard.of(instance)[-1:] == [("failed", 1)], 60)
    said = f"'topic' = '{{table}}': stands for orders for both {one}.orders and {other}.orders; write"
    assert said in spark.heard.traces[instance, 1]


def test_a_select_makes_the_records_and_the_envelope_tells_their_schema(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(
        f"CREATE TABLE {table} (id serial, kind text, amount numeric(6, 2), at timestamptz, day date)"
    )
    postgres.query(f"ALTER TABLE {table} ADD PRIMARY KEY (kind, id)")
    # The broker would delete older records (retention) before a slow test has read them.
    at_ms = int(time.time()) * 1000 + 500
    row = f"'a', -1.28, to_timestamp({at_ms} / 1000.0), '1970-01-03'"
    postgres.query(f"INSERT INTO {table} (kind, amount, at, day) VALUES ({row})")
    sql = "SELECT kind AS key, to_json(struct(id, 2 * amount AS twice)) AS value, at AS timestamp FROM input"
    config = source(postgres, tables=table, topic=f"{unique}-sql", transform_sql=sql)
    tasks = spark.start_connector(f"{unique}-1", config, 1)
    config = source(postgres, tables=table, topic=f"{unique}-schema")
    config |= {"key.converter": "json-schema", "value.converter": "json-schema"}
    tasks += spark.start_connector(f"{unique}-2", config, 1)
    eventually(lambda: len(spark.records(f"{unique}-sql")) == 1, 60)
    [message] = spark.messages(f"{unique}-sql")
    assert (message.key(), json.loads(message.value())) == (b"a", {"id": 1, "twice": -2.56})
    assert message.timestamp()[1] == at_ms
    eventually(lambda: len(spark.records(f"{unique}-schema")) == 1, 60)
    [(key, value)] = spark.records(f"{unique}-schema")
    text = {"type": "string", "optional": True}
    number = {"type": "int32", "optional": True}
    assert json.loads(key or b"") == {
        "schema": {
            "type": "struct",
            "fields": [{**text, "field": "kind"}, {**number, "field": "id"}],
            "optional": True,
        },
        "payload": {"kind": "a", "id": 1},
    }
    envelope = json.loads(value)
    assert envelope["payload"] == {
        "id": 1,
        "kind": "a",
        "amount": "gA==",  # -128 hundredths as one byte.
        "at": f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.500000Z",
        "day": 2,
    }
    fields = {field.pop("field"): field for field in envelope["schema"]["fields"]}
    assert fields["amount"] == {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2"},
    }
    logical = {name: field["name"].rpartition(".")[2] for name, field in fields.items() if "name" in field}
    assert logical == {"amount": "Decimal", "at": "ZonedTimestamp", "day": "Date"}
    spark.stop(*tasks)


def test_avro_is_written_with_schemas_of_the_tables_columns(
    spark: SparkBench, postgres: Postgres, registry: Registry, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY, amount numeric(6, 2), clock timestamp)")
    postgres.query(
        f"INSERT INTO {table} (amount, clock) VALUES (-1.28, '2024-01-01 00:00:01.5'), (NULL, NULL)"
    )
    config = source(postgres, tables=table, topic=unique, schema_registry_url=registry.url)
    config |= {"key.converter": "avro", "value.converter": "avro"}
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: len(spark.records(unique)) == 2, 60)
    read = AvroReader(SchemaRegistryClient({"url": registry.url}))
    assert [(read(key or b"")[1], read(value)[1]) for key, value in spark.records(unique)] == [
        (1, {"id": 1, "amount": Decimal("-1.28"), "clock": datetime(2024, 1, 1, 0, 0, 1, 500_000, UTC)}),
        (2, {"id": 2, "amount": None, "clock": None}),
    ]
    spark.stop(*tasks)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {},
            "option 'incrementing.column.name': is required: table refused has 0 identity or serial",
        ),
        ({"incrementing.column.name": "n"}, "= 'n': is not a column of table refused; use one of a, b, at"),
        ({"incrementing.column.name": "b"}, "= 'b': may be null in table refused; declare it NOT NULL"),
        ({"mode": "timestamp", "timestamp.column.name": "at"}, "'timestamp.column.name' = 'at': may be null"),
        (
            {"incrementing.column.name": "a", "transform.sql": "SELECT c AS value FROM input"},
            "option 'transform.sql' = 'SELECT c AS value FROM input': is refused by Spark",
        ),
    ],
)
def test_columns_that_the_table_lacks_are_refused_at_the_start(
    spark: SparkBench, postgres: Postgres, unique: str, options: dict[str, str], problem: str
) -> None:
    postgres.query("CREATE TABLE IF NOT EXISTS refused (a integer PRIMARY KEY, b integer, at timestamptz)")
    task = TaskId(unique, 0)
    spark.start(task, {**source(postgres, tables="refused"), **options, "task.units": "refused"})
    eventually(lambda: spark.heard.of(task) == [("failed", 1)], 60)
    assert problem in spark.heard.traces[task, 1]


@contextmanager
def growing(postgres: Postgres, table: str) -> Iterator[None]:
    """Several sessions insert rows all the time, and commit in another order than that of their numbers."""
    over = threading.Event()

    def insert() -> None:
        url = postgres.url.removeprefix("jdbc:")
        with psycopg.connect(url, user="tester", password=PASSWORD) as connection:
            while not over.wait(0.05):
                connection.execute(f"INSERT INTO {table} (text) VALUES ('x'), ('y')".encode())
                over.wait(0.05)
                connection.execute(f"INSERT INTO {table} (text) VALUES ('z')".encode())
                connection.commit()

    with ThreadPoolExecutor() as pool:
        inserting = [pool.submit(insert) for _ in range(3)]
        try:
            yield
        finally:
            over.set()
        for one in inserting:
            one.result()


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
@pytest.mark.timeout(600)
def test_members_killed_or_frozen_in_mid_stream_neither_lose_nor_double_a_row(
    broker: EmbeddedBroker, spark: SparkBench, postgres: Postgres, tmp_path: Path, unique: str
) -> None:
    table = table_of(unique)
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY, text text)")
    spark.create_topic(unique, 2)
    config = source(postgres, tables=table, topic=unique, batch_max_rows=20, trigger_interval_ms=0)
    settings: dict[str, object] = {
        "checkpoints": str(tmp_path / "checkpoints"),
        "group_id": unique,
        "bootstrap_servers": broker.bootstrap_servers,
        "tasks": [[unique, 0, {**config, "task.units": table}]],
    }

    def incarnation(number: int) -> dict[str, object]:
        own = {
            "incarnation": f"incarnation-{number}",
            "epoch": [1, number],
            "state_dir": str(tmp_path / f"{number}"),
        }
        return {**settings, **own}

    def goes_on(what: str) -> None:
        """Waits until the topic's ends are some batches further on."""
        consumer = Consumer({**spark.client, "group.id": unique})
        partitions = [TopicPartition(unique, number) for number in range(2)]

        def written() -> int:
            try:
                return sum(consumer.get_watermark_offsets(one, timeout=5)[1] for one in partitions)
            except KafkaException:  # The topic is new, and not every thread of the broker knows it.
                return 0

        try:
            before = written()
            eventually(lambda: written() > before + 100, 180, what)
        finally:
            consumer.close()

    log, frozen_log = tmp_path / "member.log", tmp_path / "frozen.log"
    with growing(postgres, table):
        for number in range(2):
            with member(incarnation(number), log):
                goes_on("it writes")
        with member(incarnation(2), frozen_log) as frozen:
            goes_on("its successor writes")
            freeze_group(frozen)
            with member(incarnation(3), log):
                goes_on("the next one writes")
                os.killpg(frozen, signal.SIGCONT)
                eventually(lambda: "failed" in frozen_log.read_text(), 60, "it ends")
                goes_on("the next one is not disturbed")
    with member(incarnation(4), log):
        eventually(lambda: len(spark.records(unique)) >= postgres.count(table), 180, "it is all there")
    wanted = Counter(number for (number,) in postgres.query(f"SELECT id FROM {table}"))
    assert Counter(numbers(spark, unique)) == wanted
    assert "failed" not in log.read_text()
