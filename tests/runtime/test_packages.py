"""A Worker's own libraries on a real Spark: used by a connector, or refused before any start."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from cooperator.artifacts import SPARK_VERSION
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from tests.harness.support import eventually
from tests.runtime.heard import Heard
from tests.runtime.spark_bench import SparkBench

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

AVRO = f"org.apache.spark:spark-avro_2.13:{SPARK_VERSION}"


def to_avro(bootstrap_servers: str, topic: str, path: Path) -> dict[str, str]:
    return {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.kafka.bootstrap.servers": bootstrap_servers,
        "source.options.subscribe": topic,
        "source.options.startingOffsets": "earliest",
        "transform.sql": "SELECT CAST(value AS STRING) AS line FROM input",
        "sink.format": "avro",
        "sink.options.path": str(path),
        "task.units": "unit-0",
    }


def test_a_package_adds_a_format(
    broker: EmbeddedBroker, settings: RuntimeSettings, heard: Heard, tmp_path: Path, unique: str
) -> None:
    settings = replace(settings, bootstrap_servers=broker.bootstrap_servers, spark_packages=(AVRO,))
    runtime = SparkRuntime(settings, heard)
    spark = SparkBench(runtime, heard, settings)
    spark.produce(unique, ["a", "b", "c"])
    task = TaskId(unique, 0)
    spark.start(task, to_avro(broker.bootstrap_servers, unique, tmp_path / "out"))
    spark.wait_started(task)

    def lines() -> list[str]:
        written = list((tmp_path / "out").glob("*.avro"))
        if not written or not (tmp_path / "out" / "_spark_metadata" / "0").exists():
            return []
        rows = runtime.session(Event()).read.format("avro").load(str(tmp_path / "out"))
        return sorted(row.line for row in rows.collect())

    eventually(lambda: lines() == ["a", "b", "c"], 120)
    spark.stop(task)
    assert runtime.close(30)


def test_a_package_that_does_not_exist_fails_tasks_before_they_start(
    settings: RuntimeSettings, heard: Heard, tmp_path: Path
) -> None:
    wrong = f"org.apache.spark:spark-avroo_2.13:{SPARK_VERSION}"
    settings = replace(settings, spark_packages=(wrong,), bootstrap_servers="nowhere:1")
    runtime = SparkRuntime(settings, heard)
    task = TaskId("orders", 0)
    SparkBench(runtime, heard, settings).start(task, to_avro("nowhere:1", "orders", tmp_path / "out"))
    eventually(lambda: heard.of(task) == [("failed", 1)], 180)
    trace = heard.traces[task, 1]
    assert f"spec.spark.packages: {wrong} is not in the registry: check group, artifact" in trace
    assert not (settings.checkpoints / "orders").exists()
    assert runtime.close(30)


def test_a_jar_that_a_member_lacks_is_named(settings: RuntimeSettings, heard: Heard, tmp_path: Path) -> None:
    settings = replace(settings, spark_jars=(tmp_path / "mine.jar",), bootstrap_servers="nowhere:1")
    runtime = SparkRuntime(settings, heard)
    task = TaskId("orders", 0)
    SparkBench(runtime, heard, settings).start(task, to_avro("nowhere:1", "orders", tmp_path / "out"))
    eventually(lambda: heard.of(task) == [("failed", 1)], 60)
    assert "mine.jar does not exist on member lake-0: add it" in heard.traces[task, 1]
    assert runtime.close(30)
