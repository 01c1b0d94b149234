"""A restored older checkpoint neither loses nor duplicates rows: the sink refuses it, and recovery is
possible.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cooperator.connectors.offset_operations import alter, reset
from cooperator.connectors.offsets import Entry
from cooperator.connectors.output import read_units
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench, query_to_files
from tests.runtime.test_offsets import run, subject

pytestmark = pytest.mark.real


@dataclass
class Sink:
    config: dict[str, str]
    rows: Callable[[], Counter[str]]
    unit: str
    feed: Callable[[list[str]], None]
    end: Callable[[int], list[Entry]]
    """Offsets after that many rows; none: it reads everything again, into another directory."""
    make_room: Callable[[], None] = lambda: None
    """The steps of a user before a reset of offsets."""


@pytest.fixture(params=["kafka", "files"])
def sink(request: pytest.FixtureRequest, spark: SparkBench, tmp_path: Path, unique: str) -> Sink:
    out = tmp_path / "out"

    def in_files() -> Counter[str]:
        table = read_units(out)
        return Counter(table["value"].to_pylist() if table.num_rows else [])

    def write(values: list[str]) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        for value in values:
            (tmp_path / "part").write_text(value)
            (tmp_path / "part").rename(tmp_path / "in" / value)

    def read(count: int) -> list[Entry]:
        return [Entry({"path": f"r{number}"}, {"modified_ms": 0}) for number in range(count)]

    match request.param:
        case "kafka":
            spark.create_topic(unique, 1)
            return Sink(
                {
                    "connector.class": "files-to-kafka",
                    "path": str(tmp_path / "in"),
                    "topic": unique,
                    "units": "1",
                    "record.value": "line",
                    "max.files.per.trigger": "5",
                    "trigger.interval.ms": "100",
                },
                lambda: Counter(value.decode() for _, value in spark.records(unique)),
                "bucket-0-of-1",
                write,
                read,
            )
        case _:
            config = query_to_files(out, unique, spark.settings.bootstrap_servers)
            config["transform.sql"] = "SELECT CAST(value AS STRING) AS value FROM input"
            config |= {"trigger.interval.ms": "100", "source.options.maxOffsetsPerTrigger": "5"}
            del config["task.units"]
            return Sink(
                config,
                in_files,
                "unit-0",
                lambda values: spark.produce(unique, values),
                lambda count: [],
                lambda: shutil.move(out, tmp_path / "old"),
            )


def test_an_older_copy_is_refused_and_records_are_neither_lost_nor_doubled(
    spark: SparkBench, tmp_path: Path, unique: str, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "epoch", Epoch(1, 1))
    task, unit = TaskId(unique, 0), sink.unit
    checkpoint, copy = spark.settings.checkpoints / unique, tmp_path / "copy"
    wanted: Counter[str] = Counter()

    def more(count: int) -> None:
        values = [f"r{number}" for number in range(wanted.total(), wanted.total() + count)]
        wanted.update(values)
        sink.feed(values)

    def refused() -> str:
        attempt = spark.start(task, {**sink.config, "task.units": unit})
        eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, "the task fails")
        return spark.heard.traces[task, attempt]

    more(5)
    run(spark, task, sink.config, unit, lambda: sink.rows() == wanted)
    shutil.copytree(checkpoint, copy)
    more(10)
    run(spark, task, sink.config, unit, lambda: sink.rows() == wanted)
    there = wanted.copy()
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)

    more(7)
    for _ in range(2):
        said = refused()
        assert "the checkpoint was restored from an older copy" in said
        assert "Restore the newest copy of the checkpoint; or stop the Connector, reset its offsets" in said
        assert sink.rows() == there, "nothing is written"

    sink.make_room()
    monkeypatch.setattr(spark, "epoch", Epoch(1, 2))
    about = subject(spark, unique, sink.config)
    reset(about, dry_run=False)
    if offsets := sink.end(there.total()):
        alter(about, offsets, dry_run=False)
    run(spark, task, sink.config, unit, lambda: sink.rows().total() >= wanted.total())
    assert sink.rows() == wanted
