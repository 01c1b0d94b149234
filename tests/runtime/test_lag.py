"""A task's lag and last error, reported while it runs and while it is paused."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from cooperator.connectors.query import behind
from cooperator.model import TaskId
from cooperator.runtime.lag import LAG_S, VALID_S, LagPool
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench, lines_in


def test_records_between_two_positions_of_a_topic_are_counted_over_its_partitions() -> None:
    assert behind('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7,"2":3}}') == 7
    assert behind('{"logOffset":3}', '{"logOffset":9}') is None
    assert behind("", "") is None


def test_a_lag_that_can_no_longer_be_measured_is_unknown() -> None:
    now_s, answers = 100.0, threading.Event()
    answers.set()

    def measure(ends: Mapping[str, str]) -> int:
        answers.wait()
        return 11_247

    pool = LagPool(lambda: now_s)
    lag = pool.of(measure)
    eventually(lambda: lag.look({}) == 11_247)
    answers.clear()
    now_s += LAG_S
    assert lag.look({}) == 11_247, "the next measurement is under way"
    now_s += VALID_S + 0.1
    assert lag.look({}) is None
    answers.set()
    eventually(lambda: lag.look({}) == 11_247)
    pool.close()


@pytest.mark.real
def test_lag_falls_to_zero_at_the_end_and_grows_while_the_task_is_paused(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    spark.produce(unique, [str(number) for number in range(40)])
    config = {
        "connector.class": "kafka-to-files",
        "path": str(tmp_path / "out"),
        "topics": unique,
        "sql": "SELECT 'one' AS path, value AS line FROM input",
        "trigger.interval.ms": "200",
        "rotate.interval.ms": "0",
    }
    instance, task = spark.start_connector(unique, config, 1)
    eventually(lambda: spark.heard.progress_of(task).get("lag") == 0, 60, "all is delivered")
    assert lines_in(tmp_path / "out").total() == 40

    spark.runtime.pause(task)
    eventually(lambda: spark.heard.of(task)[-1] == ("paused", 1))
    for sent in (30, 42):
        spark.produce(unique, ["more"] * (sent - (30 if sent == 42 else 0)))
        eventually(lambda sent=sent: spark.heard.progress_of(task).get("lag") == sent, 30, "it grows")
    assert lines_in(tmp_path / "out").total() == 40

    spark.runtime.resume(task)
    eventually(lambda: lines_in(tmp_path / "out").total() == 82, 60)
    eventually(lambda: spark.heard.progress_of(task).get("lag") == 0, 30, "all is delivered")
    spark.stop(instance, task)


@pytest.mark.real
def test_spark_reports_the_lag_of_its_own_sources(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    spark.produce(unique, [f"line {number}" for number in range(12)])
    config = {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.kafka.bootstrap.servers": spark.settings.bootstrap_servers,
        "source.options.subscribe": unique,
        "source.options.startingOffsets": "earliest",
        "source.options.maxOffsetsPerTrigger": "1",
        "trigger.interval.ms": "1000",
        "sink.format": "json",
        "sink.options.path": str(tmp_path / "out"),
    }
    instance, task = spark.start_connector(unique, config, 1)
    seen: list[int] = []

    def down_to_zero() -> bool:
        lag = spark.heard.progress_of(task).get("lag")
        if lag is not None and [lag] != seen[-1:]:
            seen.append(lag)
        return lag == 0

    eventually(down_to_zero, 120, "one record after the other")
    assert len(seen) > 2
    assert seen == sorted(set(seen), reverse=True)
    assert seen[0] < 12
    spark.stop(instance, task)


@pytest.mark.real
def test_the_last_error_is_reported_while_the_task_runs_again(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    spark.produce(unique, ["17"])
    config = {
        "connector.class": "kafka-to-files",
        "path": str(tmp_path / "out"),
        "topics": unique,
        "sql": "SELECT 'one' AS path, CAST(raise_error('no such order') AS STRING) AS line FROM input",
        "task.units": f"{unique}-0",
    }
    task = TaskId(unique, 0)
    spark.start(task, config)
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert "no such order" in spark.heard.traces[task, 1]

    spark.start(task, {**config, "sql": "SELECT 'one' AS path, value AS line FROM input"})
    spark.wait_started(task)
    eventually(lambda: spark.heard.progress_of(task).get("lag") == 0, 60)
    progress = spark.heard.progress_of(task)
    assert progress["failures"] == 1
    assert "no such order" in progress["last_error"]["text"]
    assert progress["last_error"]["at_ms"] > 0
    spark.stop(task)
