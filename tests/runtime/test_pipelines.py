"""Files to Kafka to files on a real broker and a real Spark: every line arrives once."""

import logging
import os
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cooperator.connectors.intents.moves import positions
from cooperator.connectors.intents.stores import LocalStore
from cooperator.connectors.output import read_units
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import INSTANCE, TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import LINES_SQL, SparkBench, lines_in, member, write_files

pytestmark = pytest.mark.real


def source(root: Path, topic: str, **options: object) -> dict[str, str]:
    """Small, frequent batches, so that tests can interrupt the stream."""
    config = {
        "connector.class": "files-to-kafka",
        "path": str(root),
        "topic": topic,
        "units": 3,
        "topic.partitions": 3,
        "max.files.per.trigger": 1,
        "trigger.interval.ms": 100,
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    return {name: str(value) for name, value in config.items()}


def sink(root: Path, topic: str, **options: object) -> dict[str, str]:
    config = {
        "connector.class": "kafka-to-files",
        "path": str(root),
        "topics": topic,
        "sql": LINES_SQL,
        "rotate.interval.ms": 0,
        "trigger.interval.ms": 300,
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    return {name: str(value) for name, value in config.items()}


def test_every_line_arrives_once_over_pauses_and_regrouping(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    root, output = tmp_path / "in", tmp_path / "out"
    wanted = write_files(root, [f"{number % 4}/é {number}+%.txt" for number in range(24)], 50)
    sources, sinks = f"{unique}-in", f"{unique}-out"
    reading = spark.start_connector(sources, source(root, unique, tasks_max=2), 3)
    writing = spark.start_connector(sinks, sink(output, unique, tasks_max=1, partition_by="partition"), 3)
    eventually(lambda: lines_in(output).total() > 0, 180, "something came through")

    paused = [*reading[1:], *writing[1:]]
    for task in paused:
        spark.runtime.pause(task)
    for task in paused:
        eventually(lambda task=task: spark.heard.of(task)[-1] == ("paused", 1))
    for task in paused:
        spark.runtime.resume(task)
    spark.stop(*reading, *writing)
    wanted += write_files(root, [f"later/{number}.txt" for number in range(6)], 50)

    reading = spark.start_connector(sources, source(root, unique, tasks_max=3), 3)
    writing = spark.start_connector(sinks, sink(output, unique, tasks_max=2, partition_by="partition"), 3)
    eventually(lambda: lines_in(output).total() >= wanted.total(), 180, "everything is there")
    assert lines_in(output) == wanted

    assert spark.unharmed([*reading, *writing])

    def delivered() -> int:
        """The rows that the reading tasks report as delivered since their restart."""
        return sum(spark.heard.progress_of(task).get("rows_out", 0) for task in reading[1:])

    eventually(lambda: delivered() >= 6 * 50, what="progress is told")
    spark.stop(*reading, *writing)


def test_a_batch_whose_end_spark_did_not_record_is_not_delivered_again(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    """This is the state after a kill between Kafka's commit and Spark's: the newest entry of the commit log
    is missing."""
    wanted = write_files(tmp_path / "in", ["one.txt", "two.txt", "three.txt"], 40)
    spark.create_topic(unique, 2)
    as_a_query = "WITH a AS (SELECT key, value FROM input) SELECT key, value FROM a"
    options = source(tmp_path / "in", unique, units=1, transform_sql=as_a_query)
    config = {**options, "task.units": "bucket-0-of-1"}
    task = TaskId(unique, 0)
    commits = spark.settings.checkpoints / unique / "bucket-0-of-1" / "commits"
    for _ in range(2):
        spark.start(task, config)
        spark.wait_started(task)
        eventually(lambda: (commits / "2").exists())
        spark.stop(task)
        assert len(spark.records(unique)) == wanted.total()
        for entry in (commits / "2", commits / ".2.crc"):
            entry.unlink()


def test_a_line_that_kafka_does_not_take_fails_the_task_and_is_named(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "wide.txt").write_text("x" * 5_000)
    spark.create_topic(unique, 1)
    config = source(tmp_path / "in", unique, units=1, message_max_bytes=2000)
    task = TaskId(unique, 0)
    spark.start(task, {**config, "task.units": "bucket-0-of-1"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    trace = spark.heard.traces[task, 1]
    assert "with key wide.txt exceeds option 'message.max.bytes'" in trace
    assert "units bucket-0-of-1:" in trace


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
@pytest.mark.timeout(600)
def test_members_killed_in_mid_stream_neither_lose_nor_double_a_line(
    broker: EmbeddedBroker, spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    units = 2
    spark.create_topic(unique, units)
    reading = source(tmp_path / "in", unique, units=units)
    writing = sink(tmp_path / "out", unique)
    buckets = [f"bucket-{number}-of-{units}" for number in range(units)]
    partitions = [f"{unique}-{number}" for number in range(units)]
    tasks = [
        ["in", 0, {**reading, "task.units": ",".join(buckets[:1])}],
        ["in", 1, {**reading, "task.units": ",".join(buckets[1:])}],
        ["out", 0, {**writing, "task.units": ",".join(partitions)}],
    ]
    member_settings: dict[str, object] = {
        "checkpoints": str(tmp_path / "checkpoints"),
        "state_dir": str(tmp_path / "state"),
        "group_id": unique,
        "bootstrap_servers": broker.bootstrap_servers,
        "tasks": tasks,
    }
    log = tmp_path / "member.log"

    def written() -> int:
        """The number of records in the topic, including those of open and aborted transactions."""
        config = {"group.id": unique, "isolation.level": "read_uncommitted"}
        consumer = Consumer({**spark.client, **config})
        topic = [TopicPartition(unique, number) for number in range(units)]
        try:
            return sum(consumer.get_watermark_offsets(partition, timeout=5)[1] for partition in topic)
        except KafkaException:  # The topic is new, and not every thread of the broker knows it.
            return 0
        finally:
            consumer.close()

    wanted = write_files(tmp_path / "in", [f"first/{number}.txt" for number in range(20)], 80)
    for turn in range(3):
        before = written()
        with member({**member_settings, "incarnation": f"incarnation-{turn}"}, log):
            eventually(lambda before=before: written() > before, 180, "it writes")
            wanted += write_files(tmp_path / "in", [f"{turn}/{number}.txt" for number in range(12)], 80)
            seen = written()
            eventually(lambda seen=seen: written() > seen + 200, 180, "it is in the middle of the new ones")
    with member({**member_settings, "incarnation": "last"}, log):
        eventually(lambda: lines_in(tmp_path / "out").total() >= wanted.total(), 180, "everything is there")
    assert lines_in(tmp_path / "out") == wanted
    assert len(spark.records(unique)) == wanted.total()
    assert "failed" not in log.read_text()


def test_a_broker_that_is_away_for_a_while_stops_no_task(
    broker: EmbeddedBroker,
    spark: SparkBench,
    tmp_path: Path,
    unique: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    wanted = write_files(tmp_path / "in", [f"{number}.txt" for number in range(20)], 50)
    output = tmp_path / "out"
    reading = spark.start_connector(f"{unique}-in", source(tmp_path / "in", unique), 3)
    writing = spark.start_connector(f"{unique}-out", sink(output, unique), 3)
    eventually(lambda: lines_in(output).total() > 0, 180, "something came through")
    broker.kill()
    wanted += write_files(tmp_path / "in", [f"later/{number}.txt" for number in range(10)], 50)
    eventually(lambda: spark.heard.waits_of(reading[1]), 180, "it is said")
    broker.start()
    eventually(lambda: lines_in(output).total() >= wanted.total(), 180, "everything is there")
    assert lines_in(output) == wanted
    assert spark.unharmed([*reading, *writing])
    assert "Connect to" not in caplog.text, "attempts at connections do not fill the log"
    spark.stop(*reading, *writing)


def test_new_partitions_become_new_units(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    spark.create_topic(unique, 1)
    instance = TaskId(unique, INSTANCE)
    config = sink(tmp_path / "out", unique, tasks_max=4, units_refresh_interval_ms=200)
    spark.start(instance, config)
    eventually(lambda: spark.heard.configs.get(unique))
    admin = AdminClient(spark.client)
    admin.create_partitions([NewPartitions(unique, 3)])[unique].result()
    eventually(lambda: len(spark.heard.configs[unique][-1]) == 3)
    units = [[task["task.units"] for task in configs] for configs in spark.heard.configs[unique]]
    assert units == [[f"{unique}-0"], [f"{unique}-0", f"{unique}-1", f"{unique}-2"]]
    spark.stop(instance)


def test_topics_that_are_created_later_are_read_and_no_running_task_is_touched(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    first, later, other = f"{unique}-a", f"{unique}-b", f"other-{unique}"
    for topic in (first, other):
        spark.create_topic(topic, 1)
    config = sink(tmp_path / "out", first, tasks_max=8, units_refresh_interval_ms=200)
    del config["topics"]
    config |= {"topics.regex": f"{unique}-.*", "starting.offsets": "latest", "sql": "SELECT value FROM input"}
    [instance, running] = spark.start_connector(unique, config, 1)
    spark.produce(later, ["b0", "b1"])
    spark.produce(other, ["not read"])
    configs = spark.heard.configs[unique]
    eventually(lambda: [task["task.units"] for task in configs[-1]] == [f"{first}-0", f"{later}-0"], 60)
    assert configs[-1][0] == configs[0][0], "the running task was reconfigured"
    spark.start(TaskId(unique, 1), configs[-1][1])
    spark.wait_started(TaskId(unique, 1))
    store = LocalStore(tmp_path / "out")
    eventually(lambda: positions(store, [f"{first}-0"]), 60, "where it begins is written down")
    spark.produce(first, ["a0"])

    def values() -> list[str]:
        table = read_units(tmp_path / "out")
        return sorted(table["value"].to_pylist()) if table.num_rows else []

    eventually(lambda: len(values()) >= 3, 60)
    assert values() == ["a0", "b0", "b1"], "a later topic is read from its beginning"
    assert spark.unharmed([instance, running])
    spark.stop(instance, running, TaskId(unique, 1))


def test_a_jvm_that_dies_is_replaced_and_its_tasks_go_on_in_the_same_attempt(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    wanted = write_files(tmp_path / "in", ["a.txt", "b.txt"], 10)
    spark.create_topic(unique, 1)
    config = {**source(tmp_path / "in", unique, units=1), "task.units": "bucket-0-of-1"}
    task = TaskId(unique, 0)
    spark.start(task, config)
    spark.wait_started(task)
    dead = spark.jvm_pid()
    os.kill(dead, signal.SIGKILL)
    wanted += write_files(tmp_path / "in", ["later.txt"], 10)
    with spark.explaining(task, unique):
        eventually(lambda: not spark.unharmed([task]) or len(spark.records(unique)) >= wanted.total(), 180)
        assert spark.unharmed([task])
        assert spark.jvm_pid() != dead
    spark.stop(task)
    assert len(spark.records(unique)) == wanted.total()
    shutil.rmtree(tmp_path / "in")


def test_a_unit_starts_again_after_a_death_while_it_planned_its_first_batch(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    wanted = write_files(tmp_path / "in", ["a.txt"], 10)
    spark.create_topic(unique, 1)
    for log in ("offsets", "commits"):
        left = spark.settings.checkpoints / unique / "bucket-0-of-1" / log / ".0.5b1c04e2.tmp"
        left.parent.mkdir(parents=True)
        left.write_text("v1\n{")
    task = TaskId(unique, 0)
    spark.start(task, {**source(tmp_path / "in", unique, units=1), "task.units": "bucket-0-of-1"})
    spark.wait_started(task)
    eventually(lambda: not spark.unharmed([task]) or len(spark.records(unique)) >= wanted.total(), 60)
    assert spark.unharmed([task]), spark.heard.traces
    spark.stop(task)
    assert len(spark.records(unique)) == wanted.total()
