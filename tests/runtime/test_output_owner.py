"""A file sink's directory belongs to one checkpoint; a real Spark refuses every other one with a clear
error."""

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from cooperator.connectors.output import committed_files
from cooperator.connectors.units import checkpoint
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.sinks import open_sink, opens, race
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

ROWS = 20


@pytest.fixture
def session(spark: SparkBench) -> Any:
    return spark.runtime.session(threading.Event())


def source(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    lines = "\n".join(json.dumps({"id": number}) for number in range(ROWS))
    (root / "data.json").write_text(lines)
    return root


def ids_in(directory: Path) -> list[int]:
    """The committed ids in the directory, as its readers see them."""
    import pyarrow.parquet as pq

    if not (directory / "_spark_metadata").exists():
        return []
    tables = [pq.read_table(file) for file in committed_files(directory)]
    return sorted(value for table in tables for value in table["id"].to_pylist())


def copying(root: Path, path: str) -> dict[str, str]:
    return {
        "connector.class": "spark",
        "source.format": "json",
        "source.schema": "id LONG",
        "source.options.path": str(source(root / "in")),
        "sink.format": "parquet",
        "sink.options.path": path,
        "trigger.interval.ms": "100",
        "task.units": "unit-0",
    }


def run(spark: SparkBench, name: str, config: dict[str, str]) -> TaskId:
    task = TaskId(name, 0)
    spark.start(task, config)
    spark.wait_started(task)
    return task


def refused(spark: SparkBench, name: str, config: dict[str, str]) -> str:
    """The text of the task's failure."""
    task = TaskId(name, 0)
    attempt = spark.start(task, config)
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, f"{name} is refused")
    return spark.heard.traces[task, attempt]


def test_a_second_connector_is_refused_and_the_first_goes_on(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    out, link = tmp_path / "out", tmp_path / "link"
    first = run(spark, f"{unique}-a", copying(tmp_path, str(out)))
    eventually(lambda: len(ids_in(out)) == ROWS, 60)
    link.symlink_to(out)
    for spelling in (f"file:{out}", f"{out}/", f"{tmp_path}/x/../out", str(link)):
        trace = refused(spark, f"{unique}-b", copying(tmp_path, spelling))
        assert f"Connector {unique}-a, unit unit-0, of the group {spark.settings.group_id}" in trace
        assert "Set another directory for this Connector" in trace
        assert "Traceback" not in trace, "the message is a sentence"
    nested = run(spark, f"{unique}-n", copying(tmp_path, f"{out}/nested"))
    eventually(lambda: ids_in(out / "nested") == list(range(ROWS)), 60)
    (tmp_path / "in" / "more.json").write_text(json.dumps({"id": ROWS}))
    eventually(lambda: ids_in(out) == list(range(ROWS + 1)), 60, "the first goes on")
    spark.stop(first, nested)


def test_a_connector_recreated_under_another_name_loses_nothing_silently(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    out = tmp_path / "out"
    config = copying(tmp_path, str(out))
    first = run(spark, f"{unique}-a", config)
    eventually(lambda: len(ids_in(out)) == ROWS, 60)
    spark.stop(first)

    assert f"{out} belongs to another checkpoint" in refused(spark, f"{unique}-b", config)
    # Both remedies work: under its old name it continues; into an empty directory the new one writes.
    (tmp_path / "in" / "more.json").write_text(json.dumps({"id": ROWS}))
    first = run(spark, f"{unique}-a", config)
    eventually(lambda: ids_in(out) == list(range(ROWS + 1)), 60)
    spark.stop(first)
    out.rename(tmp_path / "away")
    other = run(spark, f"{unique}-b", config)
    eventually(lambda: ids_in(out) == list(range(ROWS + 1)), 60)
    spark.stop(other)

    # A new checkpoint is another owner, under any name.
    shutil.rmtree(spark.settings.checkpoints / f"{unique}-b")
    assert f"batches of Connector {unique}-b" in refused(spark, f"{unique}-b", config)


def test_a_directory_of_a_release_without_owners_is_continued(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    out = tmp_path / "out"
    config = copying(tmp_path, str(out))
    first = run(spark, unique, config)
    eventually(lambda: len(ids_in(out)) == ROWS, 60)
    spark.stop(first)
    owner = out / "_spark_metadata" / "owner"
    own = owner.read_text()
    owner.unlink()
    trace = refused(spark, f"{unique}-b", config)
    assert "a checkpoint that is not known (its newest batch is 0, that of this unit -1)" in trace
    spark.stop(run(spark, unique, config))
    assert owner.read_text() == own
    assert (
        own.split("\n")[1]
        == json.loads((checkpoint(spark.settings.checkpoints, unique, "unit-0") / "metadata").read_text())[
            "id"
        ]
    )


def test_one_of_many_first_sinks_opens(session: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for number in range(10):
        paths = [f"{tmp_path}/real/{number}", f"file:{tmp_path}/link/{number}/"] * 3
        assert len(race(session, paths)) == 1
        assert os.listdir(tmp_path / "real" / str(number) / "_spark_metadata") == ["owner"]


def test_a_directory_without_an_owner_goes_to_the_checkpoint_of_its_newest_batch(
    session: Any, tmp_path: Path
) -> None:
    """Spark begins a batch in the checkpoint, writes it to the sink, then marks it as done in the checkpoint:
    at every point of that order the checkpoint gets its directory; one in another state does not."""
    for latest in (0, 3, 9, 11):  # From 9 on there is an entry that repeats all earlier ones.
        path, owner = str(tmp_path / str(latest)), tmp_path / str(latest) / "_spark_metadata" / "owner"
        sink = open_sink(session, path, "own")
        for batch in range(latest + 1):
            sink.add(batch)
        for committed, newest in ((latest - 1, latest), (latest, latest), (latest, latest + 1)):
            owner.unlink()
            assert opens(session, path, "own", committed, newest), (latest, committed, newest)
        owner.unlink()
        for committed, newest in ((-1, -1), (latest - 1, latest - 1), (latest + 1, latest + 1)):
            assert not opens(session, path, "other", committed, newest), (latest, committed, newest)
        assert not owner.exists()


def test_a_checkpoint_that_was_reset_before_it_wrote_anything_begins_anew(
    session: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    sink = open_sink(session, path, "own/1")
    assert not opens(session, path, "other/1")
    sink = open_sink(session, path, "own/2")
    assert not opens(session, path, "other/2")
    sink.add(0, None)
    assert not opens(session, path, "own/3"), "the sink would skip its first batch"
    assert opens(session, path, "own/2", committed=-1, newest=0)
    assert not opens(session, path, "own/2", newest=-1), "an older copy of the checkpoint"


def test_an_incomplete_owner_file_is_named_with_the_remedy(session: Any, tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "owner").write_text("v1\nhalf")
    with pytest.raises(Exception, match=r"owner is not whole, or of an unknown version.*remove that file"):
        open_sink(session, str(tmp_path / "out"), "own")


def test_reading_the_output_of_another_is_no_claim(session: Any, tmp_path: Path) -> None:
    import pyarrow as pa

    open_sink(session, str(tmp_path / "out"), "own").add(0, pa.table({"id": [1]}))
    reader = session.newSession()
    reader.conf.set(
        "spark.sql.streaming.checkpointFileManagerClass", "dev.cooperator.spark.FencedCheckpointFileManager"
    )
    reader.conf.set("cooperator.output.query", "other")
    assert [row.id for row in reader.read.parquet(str(tmp_path / "out")).collect()] == [1]
