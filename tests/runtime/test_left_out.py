"""Values of all converters reach tables and files; unreadable records go to a dead-letter topic."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from cooperator.connectors.output import read_units
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from tests.harness.encoders import AvroWriter, json_schema_encoder
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench, member

pytestmark = pytest.mark.real

ORDER = pa.struct([("id", pa.int64()), ("amount", pa.decimal128(8, 2))])
NOTED = pa.struct([*ORDER, ("note", pa.string())])
HEADER = "__connect.errors."


def order(number: int) -> bytes:
    return json_schema_encoder(ORDER)({"id": number, "amount": Decimal(number)})


def config(class_name: str, **options: object) -> dict[str, str]:
    named = {name.replace("_", "."): str(value) for name, value in options.items()}
    return {"connector.class": class_name, "trigger.interval.ms": "100", **named}


def left_out(spark: SparkBench, topic: str) -> list[tuple[bytes | None, str, str]]:
    """The value, stage and message of each record in the dead-letter topic."""
    found = []
    for message in spark.messages(topic):
        given = dict(message.headers() or [])
        stage, why = given[f"{HEADER}stage"], given[f"{HEADER}exception.message"]
        found.append((message.value(), stage.decode(), why.decode()))
    return found


def rows_of(output: Path) -> list[dict[str, Any]]:
    return list(read_units(output).to_pylist())


def test_avro_becomes_rows_of_a_table_while_its_schema_grows(
    spark: SparkBench, postgres: Postgres, registry: Registry, unique: str
) -> None:
    table, dead = unique.replace("-", "_"), f"{unique}-dead"
    postgres.query(f"CREATE TABLE {table} (id bigint PRIMARY KEY, amount numeric(8, 2), note text)")
    client = SchemaRegistryClient({"url": registry.url})
    old = AvroWriter(client, unique, ORDER, "order", False)
    new = AvroWriter(client, unique, NOTED, "order", False)
    spark.produce(
        unique,
        [
            old({"id": 1, "amount": None}),
            b"no avro",
            new({"id": 2, "amount": None, "note": "n"}),
            old({"id": 1, "amount": Decimal(7)}),
        ],
    )
    options = config(
        "kafka-to-postgres",
        topics=unique,
        value_converter="avro",
        schema_registry_url=registry.url,
        insert_mode="upsert",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
    )
    options |= {**postgres.config, "table.name.format": table}
    tasks = spark.start_connector(unique, options, 1)

    def rows() -> list[tuple[Any, ...]]:
        return postgres.query(f"SELECT id, amount::int, note FROM {table} ORDER BY id")

    eventually(lambda: len(rows()) == 2, 60)
    assert rows() == [(1, 7, None), (2, None, "n")]
    # Letters follow the rows that are committed with them.
    [(value, stage, why)] = eventually(lambda: left_out(spark, dead), 60)
    assert (value, stage) == (b"no avro", "VALUE_CONVERTER")
    assert "does not begin with a zero byte" in why
    spark.stop(*tasks)


COLUMNS = (
    "tests/runtime/test_left_out.py::"
    "test_envelopes_and_json_become_columns_of_files_and_other_records_are_left_out"
)


@pytest.mark.parametrize(
    "file_format",
    [
        "parquet",
        pytest.param("json", marks=pytest.mark.long(COLUMNS)),
        pytest.param("csv", marks=pytest.mark.long(COLUMNS)),
    ],
)
def test_envelopes_and_json_become_columns_of_files_and_other_records_are_left_out(
    spark: SparkBench, tmp_path: Path, unique: str, file_format: str
) -> None:
    write, dead = json_schema_encoder(ORDER), f"{unique}-dead"
    spark.produce(
        f"{unique}-a", [write({"id": n, "amount": Decimal(n)}) if n != 2 else b"{}" for n in range(4)]
    )
    spark.produce(f"{unique}-b", [b'{"id": 5, "amount": 5}', b'{"id": "x"}', b'{"id": 6, "amount": 6}'])
    common = {
        "errors_tolerance": "all",
        "errors_deadletterqueue_topic_name": dead,
        "max_offsets_per_trigger": 1,
        "format": file_format,
        "partition_by": "slot",
        "rotate_interval_ms": 0,
        "transform_sql": "SELECT value.id, INT(value.amount) AS amount, value.id % 2 AS slot FROM input",
    }
    first = config("kafka-to-files", topics=f"{unique}-a", value_converter="json-schema", **common)
    second = config("kafka-to-files", topics=f"{unique}-b", value_converter="json", **common)
    second["value.schema"] = "id LONG, amount DECIMAL(8, 2)"
    tasks: list[TaskId] = []
    for name, options in (("a", first), ("b", second)):
        tasks += spark.start_connector(f"{unique}-{name}", {**options, "path": str(tmp_path / name)}, 1)
    eventually(lambda: len(rows_of(tmp_path / "a")) == 3, 90)
    eventually(lambda: len(rows_of(tmp_path / "b")) == 2, 90)
    for name, numbers in (("a", [0, 1, 3]), ("b", [5, 6])):
        rows = sorted((row["id"], row["amount"], row["slot"]) for row in rows_of(tmp_path / name))
        assert rows == [(number, number, number % 2) for number in numbers]
    found = sorted(left_out(spark, dead))
    assert [value for value, _, _ in found] == [b'{"id": "x"}', b"{}"]
    assert "Cannot parse the field name 'id' and the value x" in found[0][2]
    assert "not an object with exactly schema and payload" in found[1][2]
    spark.stop(*tasks)
    # Without tolerance Spark's tasks write on their own, in the same directory.
    spark.produce(f"{unique}-b", [b'{"id": 7, "amount": 7}'])
    del second["errors.tolerance"], second["errors.deadletterqueue.topic.name"]
    tasks = spark.start_connector(f"{unique}-b", {**second, "path": str(tmp_path / "b")}, 1)
    eventually(lambda: len(rows_of(tmp_path / "b")) == 3, 90)
    spark.stop(*tasks)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"value.converter": "json-schema"},
            "-0, offset 0: option 'value.converter' = 'json-schema': cannot read the value: it is not an "
            "object with exactly schema and payload",
        ),
        ({"value.converter": "json", "value.schema": "id LONG"}, "MALFORMED_RECORD_IN_PARSING"),
    ],
)
def test_without_tolerance_a_record_that_cannot_be_read_fails_the_task(
    spark: SparkBench, tmp_path: Path, unique: str, options: dict[str, str], problem: str
) -> None:
    spark.produce(unique, [b'{"id": "x"}'])
    task = TaskId(unique, 0)
    given = config("kafka-to-files", topics=unique, path=tmp_path / "out", task_units=f"{unique}-0")
    spark.start(task, {**given, **options})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert problem in spark.heard.traces[task, 1]


CHANCE = "tests/runtime/test_left_out.py::test_a_select_with_chance_loses_and_doubles_no_record"


@pytest.mark.parametrize(
    "sink", ["kafka-to-files", pytest.param("kafka-to-kafka", marks=pytest.mark.long(CHANCE))]
)
def test_a_select_with_chance_loses_and_doubles_no_record(
    spark: SparkBench, tmp_path: Path, unique: str, sink: str
) -> None:
    """Each conversion fails for other records: each of them is a row or a letter nevertheless."""
    values = [b"bad %d" % number if number % 20 == 7 else b"%d" % number for number in range(160)]
    spark.produce(unique, values)
    dead = f"{unique}-dead"
    options = config(
        sink,
        topics=unique,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
        max_offsets_per_trigger=40,
        transform_sql="SELECT STRING(INT(IF(rand() < 0.02, 'bad', STRING(value)))) AS value FROM input",
    )
    target = {"topic": f"{unique}-out"}
    if sink == "kafka-to-files":
        target = {"path": str(tmp_path / "out"), "rotate.interval.ms": "0"}
    tasks = spark.start_connector(unique, {**options, **target}, 1)

    def found() -> list[bytes]:
        letters = [value or b"" for value, _, _ in left_out(spark, dead)]
        if sink == "kafka-to-files":
            return sorted([*(row["value"].encode() for row in rows_of(tmp_path / "out")), *letters])
        return sorted([*(value or b"" for _, value in spark.records(target["topic"])), *letters])

    eventually(lambda: len(found()) >= len(values), 90)
    spark.stop(*tasks)
    assert found() == sorted(values)


@pytest.mark.long("tests/microbatch/test_letters.py::test_each_letter_is_written_once")
@pytest.mark.timeout(600)
def test_members_killed_in_mid_stream_leave_each_bad_record_out_once(
    broker: EmbeddedBroker, spark: SparkBench, postgres: Postgres, tmp_path: Path, unique: str
) -> None:
    table, count = unique.replace("-", "_"), 1_200
    postgres.query(f"CREATE TABLE {table} (id bigint, amount numeric(8, 2))")
    common = {"topics": unique, "value_converter": "json-schema", "errors_tolerance": "all"}
    common["max_offsets_per_trigger"] = "50"
    dead = {name: f"{unique}-dead-{name}" for name in ("rows", "files")}
    rows = config("kafka-to-postgres", **common) | {**postgres.config, "table.name.format": table}
    files = config("kafka-to-files", **common, path=tmp_path / "out", rotate_interval_ms=0)
    tasks = []
    for name, options in (("rows", rows), ("files", files)):
        spark.create_topic(dead[name], 1)
        own = {"task.units": f"{unique}-0", "errors.deadletterqueue.topic.name": dead[name]}
        tasks.append([name, 0, {**options, **own}])
    settings: dict[str, object] = {
        "checkpoints": str(tmp_path / "checkpoints"),
        "group_id": unique,
        "bootstrap_servers": broker.bootstrap_servers,
        "tasks": tasks,
    }
    bad = [n for n in range(count) if n % 10 == 3]
    values = [b"bad %d" % n if n in set(bad) else order(n) for n in range(count)]
    spark.produce(unique, values)
    log, wanted = tmp_path / "member.log", sorted(set(range(count)) - set(bad))

    def incarnation(number: int) -> dict[str, object]:
        own = {
            "incarnation": f"incarnation-{number}",
            "epoch": [1, number],
            "state_dir": str(tmp_path / f"{number}"),
        }
        return {**settings, **own}

    def done() -> int:
        """The progress of the slower one."""
        return min(postgres.count(table), len(rows_of(tmp_path / "out")))

    for number in range(2):
        before = done()
        with member(incarnation(number), log):
            eventually(lambda before=before: done() > before + 100, 180, "both go on")
        assert done() < len(wanted), "the members were not killed in mid-stream"
    with member(incarnation(2), log):
        eventually(lambda: done() >= len(wanted), 180, "everything is there")
    assert postgres.query(f"SELECT id FROM {table} ORDER BY id") == [(n,) for n in wanted]
    assert sorted(row["id"] for row in rows_of(tmp_path / "out")) == wanted
    for topic in dead.values():
        assert [value for value, _, _ in left_out(spark, topic)] == [b"bad %d" % n for n in bad]
    assert "failed" not in log.read_text()
