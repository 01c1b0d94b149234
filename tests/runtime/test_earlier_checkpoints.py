"""Checkpoints that an earlier Spark has written go on with this one: no row is lost, and none is doubled."""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cooperator.connectors.offset_operations import migrate
from tests.harness.support import eventually
from tests.runtime.recorded import pipelines
from tests.runtime.recorded.pipelines import Recorded
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_offsets import subject

pytestmark = pytest.mark.real

ARCHIVES = sorted((Path(__file__).parent / "recorded").glob("*.zip"))
MORE = 2
"""Batches that the source gets afterwards."""


@dataclass(frozen=True)
class Restored:
    pipeline: Recorded
    unit: Path
    output: Path

    @property
    def newest(self) -> int:
        return self.pipeline.batches - 1


def restore(archive: Path, spark: SparkBench, home: Path, name: str) -> Restored:
    """Unpacks a recorded connector under another name, group and place."""
    kind = archive.name.partition("-")[0]
    pipeline = next(each for each in pipelines.ALL if each.kind == kind)
    checkpoint, was = spark.settings.checkpoints / name, f"recorded-{kind}"
    words = {"@CHECKPOINT@": checkpoint, "@HOME@": home, was: name, "recorded-group": spark.settings.group_id}
    with zipfile.ZipFile(archive) as recorded:
        for entry in recorded.namelist():
            place, _, path = entry.partition("/")
            file = (checkpoint if place == "checkpoint" else home) / path.replace(was, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            content = recorded.read(entry)
            if not path.endswith((".parquet", ".delta")):
                for word, meaning in words.items():
                    content = content.replace(word.encode(), str(meaning).encode())
            file.write_bytes(content)
            # Spark forgets files that are a week older than the newest one, and takes none of that age.
            os.utime(file, (0, 0))
    return Restored(pipeline, checkpoint / pipeline.unit(name), home / "out")


def stopped(restored: Restored) -> None:
    """The query was stopped between two batches."""


def written(restored: Restored) -> None:
    """It was killed when the sink had the newest batch, and the checkpoint did not know yet."""
    (restored.unit / "commits" / str(restored.newest)).unlink()


def begun(restored: Restored) -> None:
    """It was killed when the newest batch was planned, and nothing of it was in place."""
    written(restored)
    for log in restored.output.rglob("_spark_metadata"):
        (log / str(restored.newest)).unlink()
    for delta in restored.unit.glob(f"state/*/*/{restored.pipeline.batches}.delta"):
        delta.unlink()


GOES_ON = "tests/runtime/test_earlier_checkpoints.py::test_a_checkpoint_of_an_earlier_spark_goes_on"


@pytest.mark.parametrize(
    "interruption",
    [
        pytest.param(stopped, marks=pytest.mark.long(GOES_ON)),
        pytest.param(written, marks=pytest.mark.long(GOES_ON)),
        begun,
    ],
    ids=lambda each: each.__name__,
)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_a_checkpoint_of_an_earlier_spark_goes_on(
    spark: SparkBench, tmp_path: Path, unique: str, archive: Path, interruption: Callable[[Restored], None]
) -> None:
    restored = restore(archive, spark, tmp_path, unique)
    interruption(restored)
    pipeline = restored.pipeline
    spark.produce(unique, [])
    if pipeline is pipelines.TOPIC:
        for batch in range(pipeline.batches):
            pipeline.feed(spark, tmp_path, unique, batch)
        migrate(subject(spark, unique, pipeline.config(tmp_path, unique)), dry_run=False)
    (tmp_path / "in").mkdir(exist_ok=True)

    tasks = spark.start_connector(unique, pipeline.config(tmp_path, unique), 1)
    for more in range(MORE):
        number = pipeline.batches + more
        pipeline.feed(spark, tmp_path, unique, number)
        if pipeline is pipelines.TOPIC:
            wanted = pipeline.wanted(number + 1)
            eventually(lambda wanted=wanted: pipeline.found(spark, tmp_path, unique) >= wanted, 60)
            continue
        eventually((restored.unit / "commits" / str(number)).exists, 60, f"batch {number}")
    spark.stop(*tasks)

    assert pipeline.found(spark, tmp_path, unique) == pipeline.wanted(pipeline.batches + MORE)
