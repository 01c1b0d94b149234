"""Positions of ``kafka-to-kafka`` are where the rows are: tasks go on there, offsets are changed there."""

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from cooperator.connectors.offset_operations import alter, listed, reset
from cooperator.connectors.offsets import Change, OffsetsError, Where
from cooperator.connectors.topics import partition_counts
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_kafka import copy
from tests.runtime.test_offsets import kafka, subject

pytestmark = pytest.mark.real


def values(spark: SparkBench, topic: str) -> Counter[bytes]:
    return Counter(value for _, value in spark.records(topic))


def run(spark: SparkBench, task: TaskId, config: dict[str, str], units: list[str], done: Any) -> None:
    spark.start(task, {**config, "task.units": ",".join(units)})
    spark.wait_started(task)
    eventually(done, 90, f"{task} has got so far: {spark.heard.texts.get(task)}")
    spark.stop(task)


def test_a_task_goes_on_where_it_was_without_a_checkpoint_and_tells_what_it_has_done(
    spark: SparkBench, unique: str
) -> None:
    source, target, task = unique, f"{unique}-out", TaskId(unique, 0)
    for topic in (source, target):
        spark.create_topic(topic, 3)
    config = copy(topics=source, topic=target)
    units = [f"{source}-{number}" for number in range(3)]
    spark.produce(source, [{"value": b"%d" % n, "partition": n % 3} for n in range(30)])
    spark.start(task, {**config, "task.units": ",".join(units)})
    spark.wait_started(task)

    def told() -> bool:
        progress = spark.heard.progress_of(task)
        return (progress.get("rows_in"), progress.get("rows_out"), progress.get("lag")) == (30, 30, 0)

    eventually(told, 60, f"{spark.heard.texts}")
    spark.stop(task)
    spark.produce(source, [{"value": b"%d" % n, "partition": n % 3} for n in range(30, 60)])
    # Another grouping of the same units.
    run(spark, task, config, units[:2], lambda: len(spark.records(target)) == 50)
    run(spark, TaskId(unique, 1), config, units[2:], lambda: len(spark.records(target)) == 60)
    assert values(spark, target) == Counter(b"%d" % n for n in range(60))
    assert not (spark.settings.checkpoints / unique).exists(), "nothing is kept there"


def test_offsets_are_listed_altered_and_reset_where_the_rows_are(spark: SparkBench, unique: str) -> None:
    source, target, task = unique, f"{unique}-out", TaskId(unique, 0)
    spark.produce(source, [b"0", b"1", b"2"])
    spark.create_topic(target, 1)
    config, units = copy(topics=source, topic=target), [f"{source}-0"]
    about = subject(spark, unique, config)
    assert listed(about) == []
    with pytest.raises(OffsetsError, match=r"kafka_offset 4 is out of range; use 0 .* to 3"):
        alter(about, [kafka(source, 0, 4)], dry_run=True)
    alter(about, [kafka(source, 0, 1)], dry_run=False)
    assert listed(about) == [kafka(source, 0, 1)]
    run(spark, task, config, units, lambda: len(spark.records(target)) == 2)

    [change] = alter(about, [kafka(source, 0, 2)], dry_run=True)
    assert change == Change(kafka(source, 0, 2).partition, {"kafka_offset": 3}, {"kafka_offset": 2})
    assert listed(about) == [kafka(source, 0, 3)], "a dry run changes nothing"
    assert alter(about, [kafka(source, 0, 2)], dry_run=False) == [change]
    assert alter(about, [kafka(source, 0, 2)], dry_run=False) == [], "nothing is left to do"
    run(spark, task, config, units, lambda: len(spark.records(target)) == 3)

    spark.produce(source, [b"left out"])
    reset(about, Where.LATEST, dry_run=False)
    spark.produce(source, [b"last"])
    run(spark, task, config, units, lambda: values(spark, target)[b"last"] == 1)
    assert values(spark, target) == Counter([b"1", b"2", b"2", b"last"])
    assert [change.after for change in reset(about, dry_run=False)] == [None]
    assert listed(about) == []
    run(spark, task, config, units, lambda: len(spark.records(target)) == 9)


def test_an_attempt_that_runs_while_offsets_are_reset_commits_nothing_more(
    spark: SparkBench, unique: str
) -> None:
    source, target, task = unique, f"{unique}-out", TaskId(unique, 0)
    spark.produce(source, [b"0"])
    spark.create_topic(target, 1)
    config = {**copy(topics=source, topic=target), "task.units": f"{source}-0"}
    attempt = spark.start(task, config)
    eventually(lambda: len(spark.records(target)) == 1, 60)
    reset(subject(spark, unique, config), dry_run=False)
    spark.produce(source, [b"1"])
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, "it is refused")
    assert "its offsets were reset" in spark.heard.traces[task, attempt]
    assert values(spark, target) == Counter([b"0"])


def test_an_attempt_of_an_older_epoch_is_refused(
    spark: SparkBench, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, task = unique, f"{unique}-out", TaskId(unique, 0)
    spark.produce(source, [b"0"])
    spark.create_topic(target, 1)
    config = copy(topics=source, topic=target)
    monkeypatch.setattr(spark, "epoch", Epoch(2, 1))
    run(spark, task, config, [f"{source}-0"], lambda: len(spark.records(target)) == 1)
    spark.produce(source, [b"1"])
    monkeypatch.setattr(spark, "epoch", Epoch(1, 7))
    attempt = spark.start(task, {**config, "task.units": f"{source}-0"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
    assert "is claimed by attempt 2-1-" in spark.heard.traces[task, attempt]
    assert len(spark.records(target)) == 1


@pytest.mark.long(
    "tests/microbatch/test_mirror.py::"
    "test_positions_are_written_at_most_every_ten_seconds_and_only_if_they_have_moved"
)
def test_positions_are_offsets_of_a_consumer_group_for_tools(spark: SparkBench, unique: str) -> None:
    target, task = f"{unique}-out", TaskId(unique, 0)
    spark.produce(unique, [b"0", b"1"])
    spark.create_topic(target, 1)
    group = ConsumerGroupTopicPartitions(f"{spark.settings.group_id}/{unique}")
    admin = AdminClient(spark.client)

    def mirrored() -> bool:
        found = admin.list_consumer_group_offsets([group])[group.group_id].result(30)
        return {each.partition: each.offset for each in found.topic_partitions} == {0: 2}

    run(spark, task, copy(topics=unique, topic=target), [f"{unique}-0"], mirrored)


@pytest.mark.long("tests/microbatch/test_loop.py::test_no_slot_reads_two_topics_if_they_go_to_different_ones")
def test_topics_with_targets_of_their_own_are_told_apart_also_after_a_select(
    spark: SparkBench, unique: str
) -> None:
    topics = [f"{unique}-{letter}" for letter in "abc"]
    for topic in topics:
        spark.produce(topic, [f"{topic} {number}" for number in range(5)])
        spark.create_topic(f"copy.{topic}", 1)
    config = copy(topics=",".join(topics), topic="copy.{topic}", transform_sql="SELECT value FROM input")
    task = TaskId(unique, 0)
    spark.start(task, {**config, "task.units": ",".join(f"{topic}-0" for topic in topics)})
    for topic in topics:
        wanted = Counter(f"{topic} {number}".encode() for number in range(5))
        eventually(lambda topic=topic, wanted=wanted: values(spark, f"copy.{topic}") == wanted, 60)
    spark.stop(task)


def test_a_target_that_is_a_topic_of_the_workers_group_is_refused(spark: SparkBench, unique: str) -> None:
    group, task = spark.settings.group_id, TaskId(unique, 0)
    spark.produce(group, [b"0"])
    config = copy(topics=group, topic="{topic}-positions")
    spark.start(task, {**config, "task.units": f"{group}-0"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert f"stands for {group}-positions, a topic of the Worker's own group" in spark.heard.traces[task, 1]


@pytest.mark.long("tests/microbatch/test_transactions.py::test_a_batch_without_rows_moves_the_positions")
def test_a_select_without_rows_moves_the_positions(spark: SparkBench, unique: str) -> None:
    spark.produce(unique, [b"0", b"1"])
    config = copy(topics=unique, topic=f"{unique}-out", transform_sql="SELECT value FROM input WHERE FALSE")
    spark.create_topic(f"{unique}-out", 1)
    about = subject(spark, unique, config)
    run(spark, TaskId(unique, 0), config, [f"{unique}-0"], lambda: listed(about) == [kafka(unique, 0, 2)])
    assert spark.records(f"{unique}-out") == []


@pytest.mark.long(
    "tests/runtime/test_pipelines.py::"
    "test_topics_that_are_created_later_are_read_and_no_running_task_is_touched"
)
def test_records_from_the_time_of_creation_on_are_copied_if_that_is_asked_for(
    spark: SparkBench, unique: str
) -> None:
    spark.produce(unique, [b"before"])
    spark.create_topic(f"{unique}-out", 1)
    config = copy(topics=unique, topic=f"{unique}-out", starting_offsets="latest")
    tasks = spark.start_connector(unique, config, 1)
    about = subject(spark, unique, config)
    eventually(lambda: listed(about) == [kafka(unique, 0, 1)], 60)
    spark.stop(*tasks)
    spark.produce(unique, [b"after"])
    run(spark, TaskId(unique, 0), config, [f"{unique}-0"], lambda: len(spark.records(f"{unique}-out")) == 1)
    assert values(spark, f"{unique}-out") == Counter([b"after"])


@pytest.mark.long(
    "tests/runtime/test_lag.py::test_lag_falls_to_zero_at_the_end_and_grows_while_the_task_is_paused"
)
def test_a_paused_task_tells_its_lag_by_the_stored_positions(spark: SparkBench, unique: str) -> None:
    spark.produce(unique, [b"0", b"1"])
    spark.create_topic(f"{unique}-out", 1)
    config, task = copy(topics=unique, topic=f"{unique}-out"), TaskId(unique, 0)
    spark.start(task, {**config, "task.units": f"{unique}-0"})
    eventually(lambda: len(spark.records(f"{unique}-out")) == 2, 60)
    spark.runtime.pause(task)
    eventually(lambda: spark.heard.of(task)[-1][0] == "paused", 60)
    spark.produce(unique, [b"2", b"3", b"4"])
    eventually(lambda: spark.heard.progress_of(task).get("lag") == 3, 60)
    spark.runtime.resume(task)
    eventually(lambda: len(spark.records(f"{unique}-out")) == 5, 60)
    spark.stop(task)


@pytest.mark.long(
    "tests/runtime/test_kafka_to_files.py::"
    "test_a_topic_that_was_created_again_is_reported_or_read_from_its_beginning"
)
def test_a_topic_that_was_created_again_is_refused_or_read_from_its_beginning(
    spark: SparkBench, unique: str
) -> None:
    """The new topic is longer than the old one, so offsets alone do not tell."""
    source, target, task = unique, f"{unique}-out", TaskId(unique, 0)
    spark.produce(source, [b"old 0", b"old 1"])
    spark.create_topic(target, 1)
    config = copy(topics=source, topic=target)
    # The id is known with the first look, and committed with the records after that.
    run(spark, task, config, [f"{source}-0"], lambda: len(spark.records(target)) == 2)
    admin = AdminClient(spark.client)
    admin.delete_topics([source])[source].result(30)
    eventually(lambda: partition_counts(spark.client, [source])[source] == 0, 30)
    spark.produce(source, [b"new %d" % number for number in range(5)])
    attempt = spark.start(task, {**config, "task.units": f"{source}-0"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
    assert f"topic {source} was deleted and created again" in spark.heard.traces[task, attempt]
    assert values(spark, target) == Counter([b"old 0", b"old 1"])
    config["fail.on.data.loss"] = "false"
    run(spark, task, config, [f"{source}-0"], lambda: len(spark.records(target)) == 7)
    assert values(spark, target) == Counter([b"old 0", b"old 1", *(b"new %d" % n for n in range(5))])


@pytest.mark.long(
    "tests/runtime/test_converters.py::"
    "test_nulls_take_the_types_that_are_remembered_also_in_the_next_incarnation"
)
def test_types_of_records_are_remembered_from_one_attempt_to_the_next(spark: SparkBench, unique: str) -> None:
    """A batch of null values alone has no type of its own, and the SELECT names a field."""
    target, task = f"{unique}-out", TaskId(unique, 0)
    fields = [{"field": "id", "type": "int64"}]
    value = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"id": 7}}).encode()
    spark.produce(unique, [{"key": b"a", "value": value}])
    spark.create_topic(target, 1)
    config = copy(
        topics=unique,
        topic=target,
        value_converter="json-schema",
        transform_sql="SELECT key, CAST(value.id AS STRING) AS value FROM input",
    )
    run(spark, task, config, [f"{unique}-0"], lambda: spark.records(target) == [(b"a", b"7")])
    spark.produce(unique, [{"key": b"b", "value": None}])
    run(spark, task, config, [f"{unique}-0"], lambda: len(spark.records(target)) == 2)
    assert [(message.key(), message.value()) for message in spark.messages(target)][1] == (b"b", None)
    assert not (spark.settings.checkpoints / unique).exists()
