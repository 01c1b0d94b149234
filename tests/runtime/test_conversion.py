"""With ``errors.tolerance`` = all, each record becomes a row or a dead letter, whichever columns the SELECT
uses."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from cooperator.connectors import failing_rows, files_task, kafka_to_kafka
from cooperator.connectors.base import UnitContext
from cooperator.connectors.conversion import Conversion
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.options import parse
from cooperator.connectors.output import read_units
from cooperator.connectors.parts import as_relation, in_order
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.connectors.postgres_task import as_rows
from cooperator.connectors.records import as_records
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS = pa.schema(
    [
        *(("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32())),
        *(("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("headers", HEADERS)),
    ]
)
SCHEMA = "id LONG, at TIMESTAMP"
GOOD = (b'{"id": 1}', b'{"id": 2, "at": "2020-01-01T00:00:00Z"}', b"{}", None)
BAD = (b"notjson", b'{"id": 3, "at": "garbage"}', b'{"id": "x"}', b"[1]")
ENVELOPE = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}


@dataclass(frozen=True)
class Sink:
    options: type[Any]
    config: dict[str, str]
    conversion: Callable[[Any, UnitContext], Conversion]
    gives_columns: bool = True


SINKS = {
    "files": Sink(
        KafkaToFilesOptions,
        {"path": "/nowhere"},
        files_task.conversion,
    ),
    "kafka": Sink(
        kafka_to_kafka.KafkaToKafkaOptions,
        {"topic": "out"},
        lambda o, c: Conversion(o, c, as_records, kafka_to_kafka.COLUMNS),
        gives_columns=False,
    ),
    "postgres": Sink(
        KafkaToPostgresOptions,
        {"connection.url": "jdbc:postgresql://nowhere/db"},
        lambda o, c: Conversion(o, c, lambda rows: as_rows(rows, o, None)),
    ),
}
USES: dict[str, tuple[tuple[str, str], ...]] = {
    "key": (("key.id AS k", ""), ("struct(key) AS k", ""), ("1 AS k", "key.id IS NULL OR key.id > 0")),
    "value": (
        ("value.id AS v", ""),
        ("to_json(value) AS v", ""),
        ("1 AS v", "value.id IS NULL OR value.id > 0"),
    ),
}
"""Expressions and conditions that use a column; the conditions are true for all records."""


def batch(spark: SparkBench, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Any:
    rows = [
        {"key": key, "value": value, "topic": "t", "partition": 0, "offset": offset, "headers": None}
        for offset, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    session = spark.runtime.session(Event()).newSession()
    return session.createDataFrame(pa.Table.from_pylist(rows, RECORDS))


def converted(
    tmp_path: Path, sink: Sink, config: dict[str, str], records: Any
) -> tuple[list[int], list[int], list[str]]:
    """The offsets of the rows and of the dead letters, and the messages."""
    said: list[str] = []
    context = UnitContext(
        group_id="g",
        task=TaskId("c", 0),
        unit="t-0",
        owner="m/i/1",
        checkpoint=tmp_path,
        cancelled=Event(),
        session=lambda: records.sparkSession,
        say=said.append,
    )
    common = {
        "connector.class": "any",
        "topics": "t",
        "task.units": "t-0",
        "bootstrap.servers": "nowhere:9092",
    }
    options = parse(sink.options, {**common, **sink.config, **config})
    parts, left_out = sink.conversion(options, context).table(records.toArrow(), records.sparkSession)
    rows = [dict(zip(part.rows.column_names, row, strict=True)) for part, _, row in in_order(parts)]
    offsets = [row["offset"] if sink.gives_columns else json.loads(row["value"])["offset"] for row in rows]
    return offsets, [letter.row["offset"] for letter in left_out], said


def select(sink: Sink, expressions: Sequence[str], conditions: Sequence[str]) -> str:
    columns = ", ".join(["offset", *expressions])
    chosen = columns if sink.gives_columns else f"to_json(struct({columns})) AS value"
    where = " AND ".join(f"({condition})" for condition in conditions if condition)
    return f"SELECT {chosen} FROM input" + (f" WHERE {where}" if where else "")


ADD_UP = (
    "tests/runtime/test_conversion.py::"
    "test_rows_and_dead_letters_add_up_to_the_records_whatever_the_select_uses"
)
EVERY_SEED = range(4)
BRIEFLY = {"kafka": (1,), "postgres": (2,), "files": EVERY_SEED}
"""In every run: all combinations for one sink, and an unused column that fails for each."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=[] if seed in BRIEFLY[name] else [pytest.mark.long(ADD_UP)])
        for name in SINKS
        for seed in EVERY_SEED
    ],
)
def test_rows_and_dead_letters_add_up_to_the_records_whatever_the_select_uses(
    spark: SparkBench, tmp_path: Path, name: str, seed: int
) -> None:
    chance, sink = random.Random(f"{name} {seed}"), SINKS[name]
    # Each seed runs one of four combinations, so that every sink meets an unused column that fails.
    used = [column for number, column in enumerate(USES) if seed >> number & 1]
    converters = {
        column: "json" if column not in used else chance.choice(("json", "string")) for column in USES
    }
    if len(used) == 2:
        converters[chance.choice(used)] = "json"
    config = {"errors.tolerance": "all"}
    expressions, conditions = [], []
    for column, converter in converters.items():
        config[f"{column}.converter"] = converter
        if converter == "json":
            config[f"{column}.schema"] = SCHEMA
        if column in used:
            expression, condition = chance.choice(USES[column])
            if converter == "string":
                expression, condition = f"CAST({column} AS BIGINT) AS {column[0]}", ""
            expressions.append(expression)
            conditions.append(condition)
    good = {column: (b"1", None) if converters[column] == "string" else GOOD for column in USES}
    records: dict[str, list[bytes | None]] = {"key": [], "value": []}
    wanted: list[int] = []
    for offset in range(40):
        fails = False
        for column, found in records.items():
            is_bad = chance.random() < 0.2 or offset == 3
            found.append(chance.choice(BAD if is_bad else good[column]))
            fails |= is_bad and column in used
        if fails:
            wanted.append(offset)
    config["transform.sql"] = select(sink, expressions, conditions)
    rows, letters, said = converted(tmp_path, sink, config, batch(spark, records["key"], records["value"]))
    assert letters == wanted, config
    assert rows == [offset for offset in range(40) if offset not in wanted], config
    assert bool(said) is bool(wanted), "there is a search exactly where a conversion fails"
    assert said[-1:] in ([], [""])


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_with_types_of_each_record_an_unused_column_of_json_is_not_converted_either(
    spark: SparkBench, tmp_path: Path, tolerance: str
) -> None:
    value = json.dumps({"schema": ENVELOPE, "payload": {"id": 1}}).encode()
    config = {
        "errors.tolerance": tolerance,
        "key.converter": "json",
        "key.schema": SCHEMA,
        "value.converter": "json-schema",
        "transform.sql": "SELECT value.id, offset FROM input",
    }
    records = batch(spark, list(BAD), [value] * len(BAD))
    assert converted(tmp_path, SINKS["files"], config, records) == ([0, 1, 2, 3], [], [])


def test_rows_that_only_the_last_conversion_fails_for_are_dead_letters_too(
    spark: SparkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_rows, "_searched", lambda *search: [])
    values = [b"%d" % n if n % 7 else b"bad" for n in range(15)]
    config = {"errors.tolerance": "all", "transform.sql": "SELECT INT(value) AS v, offset FROM input"}
    rows, letters, _ = converted(tmp_path, SINKS["files"], config, batch(spark, values, values))
    assert letters == [0, 7, 14]
    assert rows == [n for n in range(15) if n % 7]


def test_rows_of_several_partitions_keep_their_order(
    spark: SparkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_rows, "_PARTITION_BYTES", 100)
    values = [b"%d" % n for n in range(100)]
    config = {"errors.tolerance": "all", "transform.sql": "SELECT INT(value) AS v, offset FROM input"}
    records = batch(spark, values, values)
    assert failing_rows.frame_of(records.toArrow(), records.sparkSession).rdd.getNumPartitions() > 10
    assert converted(tmp_path, SINKS["files"], config, records) == (list(range(100)), [], [])


def test_an_unused_column_stops_no_task_with_either_tolerance(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    values = [b'{"id": 1}', b'{"id": 2, "at": "garbage"}', b"broken", b'{"id": 3}']
    spark.produce(unique, values)
    tasks = {tolerance: TaskId(f"{unique}-{tolerance}", 0) for tolerance in ("none", "all")}
    for tolerance, task in tasks.items():
        config = {
            "connector.class": "kafka-to-files",
            "rotate.interval.ms": "0",
            "trigger.interval.ms": "100",
            "topics": unique,
            "path": str(tmp_path / tolerance),
            "value.converter": "json",
            "value.schema": SCHEMA,
            "errors.tolerance": tolerance,
            "transform.sql": "SELECT partition, offset, key FROM input",
            "task.units": f"{unique}-0",
        }
        spark.start(task, config)
    for tolerance in tasks:
        output = tmp_path / tolerance
        found = eventually(lambda output=output: read_units(output).to_pylist(), 60)
        assert sorted(row["offset"] for row in found or ()) == [0, 1, 2, 3]
    assert spark.unharmed(list(tasks.values()))
    spark.stop(*tasks.values())


def test_a_time_without_a_zone_stays_one_whatever_the_sessions_zone_is(spark: SparkBench) -> None:
    session = spark.runtime.session(Event()).newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    skipped = datetime.fromisoformat("2026-03-29T02:30")  # Berlin's clocks skip this hour.
    kind = pa.struct([("at", pa.timestamp("us")), ("all", pa.list_(pa.timestamp("us")))])
    rows = pa.table({"one": pa.array([{"at": skipped, "all": [skipped]}], kind)})
    relation = as_relation(rows, session)
    assert dict(relation.dtypes) == {"one": "struct<at:timestamp_ntz,all:array<timestamp_ntz>>"}
    assert relation.toArrow().to_pylist() == rows.to_pylist()
