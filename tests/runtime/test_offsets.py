"""Offsets of stopped connectors: the list, the preview of a change, and where the next start reads."""

import json
import shutil
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cooperator.connectors.exactly_once import Replaced, UnitWriter
from cooperator.connectors.files_to_kafka import FilesToKafka
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.offset_operations import Subject, alter, listed, reset
from cooperator.connectors.offsets import Change, Entry, OffsetsError, Where
from cooperator.connectors.offsets.unit_log import read_unit
from cooperator.connectors.output import read_units
from cooperator.connectors.references import Resolver
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench


def subject(spark: SparkBench, name: str, config: dict[str, str]) -> Subject:
    settings = spark.settings
    resolver = Resolver({}, frozenset(), (), settings.bootstrap_servers)
    options = {key: value for key, value in config.items() if key != "connector.class"}
    return Subject(
        name, config["connector.class"], options, settings.group_id, settings.checkpoints, resolver
    )


def kafka(topic: str, partition: int, offset: int | None) -> Entry:
    position = None if offset is None else {"kafka_offset": offset}
    return Entry({"kafka_topic": topic, "kafka_partition": partition}, position)


def run(spark: SparkBench, task: TaskId, config: dict[str, str], unit: str, done: Any) -> None:
    """Runs one unit until ``done`` and until its batch is committed."""
    root = spark.settings.checkpoints / task.connector / unit

    def committed() -> bool:
        log = read_unit(root, lambda query, batch: False)
        return bool(done()) and log.committed == log.newest >= 0

    run_task(spark, task, {**config, "task.units": unit}, committed)


def run_task(spark: SparkBench, task: TaskId, config: dict[str, str], done: Any) -> None:
    """Runs a task until ``done``."""
    spark.start(task, config)
    spark.wait_started(task)
    eventually(done, 120, f"{task} has got so far")
    spark.stop(task)


@pytest.mark.real
def test_a_topic_is_reread_or_skipped_as_requested_into_files(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    spark.produce(unique, [f"r{number}" for number in range(10)])
    out, task = tmp_path / "out", TaskId(unique, 0)
    config = {
        "connector.class": "kafka-to-files",
        "topics": unique,
        "path": str(out),
        "transform.sql": "SELECT value FROM input",
        "trigger.interval.ms": "200",
        "rotate.interval.ms": "0",
        "task.units": f"{unique}-0",
    }
    about = subject(spark, unique, config)

    def found() -> Counter[str]:
        table = read_units(out)
        return Counter(table["value"].to_pylist() if table.num_rows else [])

    # Before the first run, this is where it will begin.
    assert listed(about) == []
    with pytest.raises(OffsetsError, match=r"kafka_offset 11 is out of range; use 0 .* to 10"):
        alter(about, [kafka(unique, 0, 11)], dry_run=True)
    with pytest.raises(OffsetsError, match="does not read other"):
        alter(about, [kafka("other", 0, 1)], dry_run=True)
    alter(about, [kafka(unique, 0, 6)], dry_run=False)
    assert listed(about) == [kafka(unique, 0, 6)]
    run_task(spark, task, config, lambda: found().total() >= 4)
    assert found() == Counter(["r6", "r7", "r8", "r9"])

    [change] = alter(about, [kafka(unique, 0, 8)], dry_run=True)
    assert change == Change(kafka(unique, 0, 8).partition, {"kafka_offset": 10}, {"kafka_offset": 8})
    assert listed(about) == [kafka(unique, 0, 10)], "a dry run changes nothing"
    assert alter(about, [kafka(unique, 0, 8)], dry_run=False) == [change]
    assert alter(about, [kafka(unique, 0, 8)], dry_run=False) == [], "nothing is left to do"
    run_task(spark, task, config, lambda: found().total() >= 6)
    assert found() == Counter(["r6", "r7", "r8", "r8", "r9", "r9"])

    spark.produce(unique, ["left out"])
    reset(about, Where.LATEST, dry_run=False)
    spark.produce(unique, ["last"])
    run_task(spark, task, config, lambda: "last" in found())
    assert found()["left out"] == 0
    reset(about, Where.EARLIEST, dry_run=False)
    run_task(spark, task, config, lambda: found()["last"] >= 2)
    assert (found()["r0"], found()["r9"], found()["left out"]) == (1, 3, 1)

    alter(about, [kafka(unique, 0, None)], dry_run=False)
    assert listed(about) == []
    alter(about, [kafka(unique, 0, 11)], dry_run=False)
    run_task(spark, task, config, lambda: found()["last"] >= 3)
    assert found()["r9"] == 3
    before = found().total()
    assert [change.after for change in reset(about, dry_run=False)] == [None]
    assert listed(about) == []
    run_task(spark, task, config, lambda: found().total() >= before + 12)
    assert found().total() == before + 12


@pytest.mark.real
def test_files_are_reread_or_skipped_as_requested(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    root, task = tmp_path / "in put", TaskId(unique, 0)
    names = ["a/é 1+%.txt", "b.txt", "c;d=e.txt"]

    def write(name: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "part").write_text(name)
        (tmp_path / "part").rename(root / name)

    def file(name: str) -> Entry:
        return Entry({"path": name}, {"modified_ms": (root / name).stat().st_mtime_ns // 1_000_000})

    def found() -> Counter[str]:
        return Counter(value.decode() for _, value in spark.records(unique))

    for name in names:
        write(name)
    spark.create_topic(unique, 1)
    config = {
        "connector.class": "files-to-kafka",
        "path": str(root),
        "topic": unique,
        "units": "1",
        "record.value": "line",
        "trigger.interval.ms": "200",
        "task.units": "bucket-0-of-1",
    }
    about = subject(spark, unique, config)
    run_task(spark, task, config, lambda: found().total() >= 3)
    assert listed(about) == [file(name) for name in sorted(names)]

    forget = Entry({"path": names[0]}, None)
    [change] = alter(about, [forget], dry_run=True)
    assert (change.partition, change.after) == ({"path": names[0]}, None)
    alter(about, [forget], dry_run=False)
    assert listed(about) == [file("b.txt"), file("c;d=e.txt")]
    run_task(spark, task, config, lambda: found().total() >= 4)
    assert found() == Counter({names[0]: 2, names[1]: 1, names[2]: 1})

    write("left out.txt")
    reset(about, Where.LATEST, dry_run=False)
    write("last.txt")
    run_task(spark, task, config, lambda: found()["last.txt"])
    assert found() == Counter({names[0]: 2, names[1]: 1, names[2]: 1, "last.txt": 1})
    reset(about, Where.EARLIEST, dry_run=False)
    run_task(spark, task, config, lambda: found()["left out.txt"])
    assert found() == Counter({names[0]: 3, names[1]: 2, names[2]: 2, "last.txt": 2, "left out.txt": 1})

    with pytest.raises(OffsetsError, match=r'write \{"path": "<below '):
        alter(about, [Entry({"file": "b.txt"}, None)], dry_run=True)
    with pytest.raises(OffsetsError, match=r'write \{"modified_ms": <number of at least 0>\}'):
        alter(about, [Entry({"path": "b.txt"}, {"position": 1})], dry_run=True)
    assert len(reset(about, dry_run=False)) == 5
    assert listed(about) == []
    assert not (spark.settings.checkpoints / unique).exists(), "positions are in Kafka alone"


@pytest.mark.real
def test_positions_of_files_of_an_earlier_release_are_taken_over(
    spark: SparkBench, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in markers, and the earlier release can write nothing more."""
    root, task = tmp_path / "in", TaskId(unique, 0)
    root.mkdir()
    wanted: Counter[str] = Counter()

    def write(*names: str) -> None:
        for name in names:
            (tmp_path / "part").write_text(name)
            (tmp_path / "part").rename(root / name)
            wanted[name] += 1

    def found() -> Counter[str]:
        return Counter(value.decode() for _, value in spark.records(unique))

    spark.create_topic(unique, 1)
    config = {
        "connector.class": "files-to-kafka",
        "path": str(root),
        "topic": unique,
        "units": "2",
        "record.value": "line",
        "trigger.interval.ms": "200",
        "task.units": "bucket-0-of-2,bucket-1-of-2",
    }
    about = subject(spark, unique, config)
    write(*(f"earlier {number}" for number in range(5)))
    with monkeypatch.context() as earlier:
        earlier.setattr(FilesToKafka, "loop", lambda self, options: None)
        run_task(spark, task, config, lambda: found() == wanted)
    assert len(listed(about)) == 5, "before the first start, markers tell them"
    alter(about, [Entry({"path": "earlier 0"}, None)], dry_run=False)
    wanted["earlier 0"] += 1
    run_task(spark, task, config, lambda: found() == wanted)
    shutil.rmtree(spark.settings.checkpoints / unique)
    write("later 1", "later 2")
    run_task(spark, task, config, lambda: found() == wanted)
    assert len(listed(about)) == 7

    write("last")
    with monkeypatch.context() as earlier:
        earlier.setattr(FilesToKafka, "loop", lambda self, options: None)
        attempt = spark.start(task, config)
        eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, "the task fails")
        assert "restore the SELECT; or stop the connector and reset" in spark.heard.traces[task, attempt]
    with_state = subject(spark, unique, {**config, "transform.sql": "SELECT DISTINCT value FROM input"})
    with pytest.raises(OffsetsError, match=r"positions are those of a SELECT without state"):
        listed(with_state)
    run_task(spark, task, config, lambda: found() == wanted)


@pytest.mark.real
def test_a_query_of_the_class_spark_is_moved_by_the_offsets_of_its_source(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    spark.produce(unique, ["0", "1", "2"])
    name, out = f"{unique}-spark", tmp_path / "out"
    generic = {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.kafka.bootstrap.servers": spark.settings.bootstrap_servers,
        "source.options.assign": json.dumps({unique: [0]}),
        "source.options.startingOffsets": "earliest",
        "sink.format": "json",
        "sink.options.path": str(out / "unit-0"),
        "transform.sql": "SELECT CAST(value AS STRING) AS value FROM input",
    }
    about = subject(spark, name, generic)
    unit = Entry({"unit": "unit-0", "source": 0}, {unique: {"0": 3}})
    run(spark, TaskId(name, 0), generic, "unit-0", lambda: read_units(out).num_rows >= 3)
    assert listed(about) == [unit]
    alter(about, [Entry(unit.partition, {unique: {"0": 1}})], dry_run=False)
    run(spark, TaskId(name, 0), generic, "unit-0", lambda: read_units(out).num_rows >= 5)
    assert Counter(read_units(out)["value"].to_pylist()) == {"0": 1, "1": 2, "2": 2}
    with pytest.raises(OffsetsError, match="reset without --to"):
        reset(about, Where.EARLIEST, dry_run=True)
    with pytest.raises(OffsetsError, match="move the directory away"):
        reset(about, dry_run=True)


@pytest.mark.real
def test_a_table_is_reread_or_skipped_as_requested(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    table, topic = unique.replace("-", "_"), unique
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY)")

    def insert(count: int) -> None:
        for _ in range(count):
            postgres.query(f"INSERT INTO {table} DEFAULT VALUES")

    def found() -> list[int]:
        return [json.loads(value)["id"] for _, value in spark.records(topic)]

    spark.create_topic(topic, 1)
    insert(3)
    config = {
        "connector.class": "postgres-to-kafka",
        "tables": table,
        "topic": topic,
        "mode": "incrementing",
        "trigger.interval.ms": "200",
        "batch.max.rows": "2",
        **postgres.config,
    }
    about, task = subject(spark, unique, config), TaskId(unique, 0)
    config["task.units"] = table

    def row(number: int) -> Entry:
        return Entry({"table": table}, {"incrementing": number})

    alter(about, [row(1)], dry_run=False)
    run_task(spark, task, config, lambda: len(found()) >= 2)
    assert (found(), listed(about)) == ([2, 3], [row(3)])
    [change] = reset(about, Where.EARLIEST, dry_run=True)
    assert (change.before, change.after) == ({"incrementing": 3}, None)
    assert reset(about, Where.EARLIEST, dry_run=False) == [change]
    run_task(spark, task, config, lambda: len(found()) >= 5)
    insert(3)
    reset(about, Where.LATEST, dry_run=False)
    assert listed(about) == [row(6)]
    insert(1)
    run_task(spark, task, config, lambda: len(found()) >= 6)
    assert found() == [2, 3, 1, 2, 3, 7]

    with pytest.raises(OffsetsError, match=r'write \{"incrementing": <number>\}'):
        alter(about, [Entry({"table": table}, {"timestamp": "now"})], dry_run=True)
    with pytest.raises(OffsetsError, match="the connector does not read this table; it reads"):
        alter(about, [Entry({"table": "other"}, {"incrementing": 1})], dry_run=True)
    assert len(reset(about, dry_run=False)) == 1
    assert listed(about) == []


class Claimed:
    """The claim of an attempt of an earlier release."""

    claim = "000000000001-000000000001-000000000001"

    def check(self) -> None: ...


@pytest.mark.real
def test_positions_of_tables_of_an_earlier_release_are_taken_over(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    """They are in markers, and the earlier release can write nothing more."""
    table, task = unique.replace("-", "_"), TaskId(unique, 0)
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY)")
    postgres.query(f"INSERT INTO {table} SELECT FROM generate_series(1, 5)")
    spark.create_topic(unique, 1)
    config = {
        "connector.class": "postgres-to-kafka",
        "tables": table,
        "topic": unique,
        "mode": "incrementing",
        "trigger.interval.ms": "200",
        "task.units": table,
        **postgres.config,
    }
    about = subject(spark, unique, config)

    def found() -> list[int]:
        return [json.loads(value)["id"] for _, value in spark.records(unique)]

    def writer_of_then(owner: str) -> UnitWriter:
        cancelled = threading.Event()
        logs = KafkaLogs(
            spark.settings.group_id, unique, table, unique, spark.client, {}, 10_000, cancelled, print
        )
        return UnitWriter(logs, owner, cancelled, Claimed())

    with closing(writer_of_then("earlier")) as writer:
        writer.claim()
        rows = [(None, b'{"id":1}'), (None, b'{"id":2}')]
        writer.write("query", 0, lambda: rows, "content", '{"incrementing" : 2}')
        assert listed(about) == [Entry({"table": table}, {"incrementing": 2})]
        run_task(spark, task, config, lambda: len(found()) >= 5)
        assert found() == [1, 2, 3, 4, 5]
        with pytest.raises(Replaced):
            writer.write("query", 1, lambda: rows, "content", '{"incrementing" : 4}')
    with closing(writer_of_then("later")) as writer, pytest.raises(Replaced, match="claimed the unit later"):
        writer.claim()
    postgres.query(f"INSERT INTO {table} DEFAULT VALUES")
    run_task(spark, task, config, lambda: len(found()) >= 6)
    assert found() == [1, 2, 3, 4, 5, 6]
    assert listed(about) == [Entry({"table": table}, {"incrementing": 6})]
