"""A path that cannot be written to fails a real sink with an error that begins with its cause."""

import json
from pathlib import Path

import pytest

from cooperator.model import TaskId
from cooperator.model.trace import error_of
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench, to_files

pytestmark = pytest.mark.real


def test_a_path_below_a_file_is_named_by_the_first_words_of_the_error(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    """Root may write anywhere, but to no directory below a file."""
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data.json").write_text(json.dumps({"id": 1}))
    spark.produce(unique, [b"1"])
    path = tmp_path / "taken" / "out"
    by_batch = {"errors.tolerance": "all", "sql": "SELECT INT(value) AS number FROM input"}
    reading = {"source.format": "json", "source.schema": "id LONG", "task.units": "unit-0"}
    reading |= {"source.options.path": str(tmp_path / "in"), "connector.class": "spark"}
    configs = {
        "stream": to_files(path, unique),
        "batches": {**to_files(path, unique), **by_batch},
        "spark": {**reading, "sink.format": "parquet", "sink.options.path": str(path)},
        "spark-csv": {**reading, "sink.format": "csv", "sink.options.path": str(path)},
    }
    tasks = {name: TaskId(f"{unique}-{name}", 0) for name in configs}
    for name, task in tasks.items():
        spark.start(task, configs[name])
    for name, task in tasks.items():
        eventually(lambda task=task: spark.heard.of(task)[-1:] == [("failed", 1)], 60, name)
        error = error_of(spark.heard.traces[task, 1])
        assert spark.heard.traces[task, 1].startswith(error), name
        assert str(tmp_path / "taken") in error, name
        first = "org.apache.hadoop.fs.ParentNotDirectoryException: " if "spark" in name else "cooperator."
        assert error.startswith(first), name
        assert "calling o" not in error, name
        assert "Py4J" not in error, name
