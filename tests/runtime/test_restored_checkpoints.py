"""A checkpoint that is lost, or restored from an older copy, neither loses nor duplicates rows: it is rebuilt
from a sink that has the position, or refused, and recovery is possible.
"""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cooperator.connectors.offset_operations import listed, reset
from cooperator.connectors.output import read_units
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench, query_to_files
from tests.runtime.test_offsets import run, subject

pytestmark = pytest.mark.real


NUMBER = re.compile(r"\d+")


@dataclass
class Pipe:
    """A connector with one unit: its options, the numbers that its sink has, and what makes the first so many
    numbers available."""

    config: dict[str, str]
    unit: str
    found: Callable[[], Counter[int]]
    feed: Callable[[int], None]


def of_table(spark: SparkBench, postgres: Postgres, unique: str) -> Pipe:
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY)")
    spark.create_topic(unique, 1)

    def feed(count: int) -> None:
        for _ in range(int(postgres.query(f"SELECT count(*) FROM {table}")[0][0]), count):
            postgres.query(f"INSERT INTO {table} DEFAULT VALUES")

    config = {
        "connector.class": "postgres-to-kafka",
        "tables": table,
        "topic": unique,
        "mode": "incrementing",
        "batch.max.rows": "5",
        "trigger.interval.ms": "100",
        **postgres.config,
    }
    return Pipe(config, table, lambda: in_topic(spark, unique, first=1), feed)


def in_topic(spark: SparkBench, topic: str, first: int = 0) -> Counter[int]:
    """Numbers from 0 in the values of a topic."""
    values = (NUMBER.search(value.decode()) for _, value in spark.records(topic))
    return Counter(int(found[0]) - first for found in values if found)


@pytest.fixture
def pipe(spark: SparkBench, postgres: Postgres, unique: str) -> Pipe:
    return of_table(spark, postgres, unique)


def test_checkpoints_of_sinks_with_positions_are_rebuilt(
    spark: SparkBench, tmp_path: Path, unique: str, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored from an older copy; lost; on two machines of which each has its own, there and back."""
    task, checkpoint = TaskId(unique, 0), spark.settings.checkpoints / unique
    fed = 0

    def run_to(count: int) -> None:
        nonlocal fed
        fed = count
        pipe.feed(count)
        monkeypatch.setattr(spark, "epoch", Epoch(1, count))
        run(spark, task, pipe.config, pipe.unit, lambda: pipe.found().total() >= count)
        assert pipe.found() == Counter(range(count))

    run_to(7)
    shutil.copytree(checkpoint, tmp_path / "older")
    run_to(19)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "older", checkpoint)
    run_to(26)
    shutil.rmtree(checkpoint)
    run_to(33)
    checkpoint.rename(tmp_path / "first machine")
    run_to(45)
    checkpoint.rename(tmp_path / "second machine")
    (tmp_path / "first machine").rename(checkpoint)
    run_to(52)

    about = subject(spark, unique, pipe.config)
    shutil.rmtree(checkpoint)
    assert len(listed(about)) == 1, "the sink tells it"
    reset(about, dry_run=False)
    monkeypatch.setattr(spark, "epoch", Epoch(1, 1))
    run(spark, task, pipe.config, pipe.unit, lambda: pipe.found().total() >= 104)
    assert pipe.found() == Counter(dict.fromkeys(range(52), 2)), "a reset begins anew"


def test_an_older_copy_is_refused_and_records_are_neither_lost_nor_doubled(
    spark: SparkBench, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's file sink has no position; the connector begins anew in another directory."""
    out = tmp_path / "out"
    config = query_to_files(out, unique, spark.settings.bootstrap_servers)
    config["transform.sql"] = "SELECT CAST(value AS STRING) AS value FROM input"
    config |= {"trigger.interval.ms": "100", "source.options.maxOffsetsPerTrigger": "5"}
    del config["task.units"]

    def rows() -> Counter[str]:
        table = read_units(out)
        return Counter(table["value"].to_pylist() if table.num_rows else [])

    monkeypatch.setattr(spark, "epoch", Epoch(1, 1))
    task, unit = TaskId(unique, 0), "unit-0"
    checkpoint, copy = spark.settings.checkpoints / unique, tmp_path / "copy"
    wanted: Counter[str] = Counter()

    def more(count: int) -> None:
        values = [f"r{number}" for number in range(wanted.total(), wanted.total() + count)]
        wanted.update(values)
        spark.produce(unique, values)

    def refused() -> str:
        attempt = spark.start(task, {**config, "task.units": unit})
        eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, "the task fails")
        return spark.heard.traces[task, attempt]

    more(5)
    run(spark, task, config, unit, lambda: rows() == wanted)
    shutil.copytree(checkpoint, copy)
    more(10)
    run(spark, task, config, unit, lambda: rows() == wanted)
    there = wanted.copy()
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)

    more(7)
    for _ in range(2):
        said = refused()
        assert "the checkpoint was restored from an older copy" in said
        assert "Restore the newest copy of the checkpoint; or stop the Connector, reset its offsets" in said
        assert rows() == there, "nothing is written"

    shutil.move(out, tmp_path / "old")
    monkeypatch.setattr(spark, "epoch", Epoch(1, 2))
    reset(subject(spark, unique, config), dry_run=False)
    run(spark, task, config, unit, lambda: rows().total() >= wanted.total())
    assert rows() == wanted
