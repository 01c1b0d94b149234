"""A checkpoint that is restored from an older copy neither loses nor duplicates rows: it is refused, and
recovery is possible.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from cooperator.connectors.offset_operations import reset
from cooperator.connectors.output import read_units
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench, query_to_files
from tests.runtime.test_offsets import run, subject

pytestmark = pytest.mark.real


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
