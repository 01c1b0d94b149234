"""Topics to topics on a real broker and a real Spark: the copy has every record once."""

import time
from random import Random

import pytest

from cooperator.connectors import find
from cooperator.connectors.options import resolved_options
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import ensure_topic
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

NOW_MS = int(time.time() * 1000)
"""The broker would delete older records (retention) before a slow test has read them."""
DOUBLED = (
    "SELECT key, CAST(2 * CAST(CAST(value AS STRING) AS INT) AS STRING) AS value, headers, timestamp "
    "FROM input WHERE key IS NULL OR key != 'skip'"
)


def copy(**options: object) -> dict[str, str]:
    config = {
        "connector.class": "kafka-to-kafka",
        "trigger.interval.ms": 100,
        "units.refresh.interval.ms": 200,
    }
    config |= {name.replace("_", "."): value for name, value in options.items()}
    return {name: str(value) for name, value in config.items()}


def records_of(spark: SparkBench, topic: str) -> list[tuple[object, ...]]:
    return [
        (message.partition(), message.key(), message.value(), message.headers() or [], message.timestamp()[1])
        for message in spark.messages(topic)
    ]


def test_a_copied_record_is_complete_and_the_target_follows_the_source(
    spark: SparkBench, unique: str
) -> None:
    source, target = f"{unique}-a", f"copy.{unique}-a"
    spark.create_topic(source, 2)
    first = [
        {
            "key": b"k",
            "value": b"\x00\xff",
            "headers": [("h", b"1"), ("h", None), ("i", b"")],
            "partition": 1,
        },
        {"key": None, "value": b"no key", "partition": 0},
        {"key": b"gone", "value": None, "partition": 1},
    ]
    spark.produce(source, [{**record, "timestamp": NOW_MS + n} for n, record in enumerate(first)])
    config = copy(topics_regex=f"{unique}-.*", topic="copy.{topic}", record_partition="keep", tasks_max=1)
    [instance, task] = spark.start_connector(unique, config, 2)
    eventually(lambda: len(records_of(spark, target)) >= 3, 60)
    assert records_of(spark, target) == [
        (0, None, b"no key", [], NOW_MS + 1),
        (1, b"k", b"\x00\xff", [("h", b"1"), ("h", None), ("i", b"")], NOW_MS),
        (1, b"gone", None, [], NOW_MS + 2),
    ]
    spark.create_topic(f"{unique}-b", 3)
    eventually(lambda: len(spark.messages(f"copy.{unique}-b")) == 0)
    configs = spark.heard.configs[unique]
    eventually(lambda: configs[-1][0]["task.units"].count(f"{unique}-b-") == 3, 60)
    spark.stop(instance, task)


def test_rows_that_cannot_be_converted_are_left_out_and_reported_with_the_reason(
    spark: SparkBench, unique: str
) -> None:
    source, target, dead = unique, f"{unique}-out", f"{unique}-dead"
    values = [b"many" if number in (3, 4) else b"%d" % number for number in range(20)]
    values[17] = b"2000000000"
    records = [{"key": b"%d" % n, "value": value, "timestamp": NOW_MS} for n, value in enumerate(values)]
    records += [{"key": b"skip", "value": b"7"}, {"key": None, "value": b"none", "headers": [("h", b"1")]}]
    spark.produce(source, records)
    config = copy(
        topics=source,
        topic=target,
        transform_sql=DOUBLED,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
    )
    tasks = spark.start_connector(unique, config, 1)
    eventually(lambda: len(spark.messages(dead)) >= 4, 60)
    assert spark.records(target) == [(b"%d" % n, b"%d" % (2 * n)) for n in range(20) if n not in (3, 4, 17)]
    assert {message.timestamp()[1] for message in spark.messages(target)} == {NOW_MS}
    letters = spark.messages(dead)
    assert [(letter.key(), letter.value()) for letter in letters] == [
        (b"3", b"many"),
        (b"4", b"many"),
        (b"17", b"2000000000"),
        (None, b"none"),
    ]
    [(own, one), *headers] = letters[3].headers() or []
    assert (own, one) == ("h", b"1")
    reasons = {name.removeprefix("__connect.errors."): value.decode() for name, value in headers}
    message = reasons.pop("exception.message")
    assert "CAST_INVALID_INPUT" in message
    assert "none" in message
    assert reasons == {
        "topic": source,
        "partition": "0",
        "offset": "21",
        "connector.name": unique,
        "task.id": "0",
        "stage": "TRANSFORMATION",
        "exception.class.name": "NumberFormatException",
    }
    spark.stop(*tasks)


def test_without_tolerance_such_a_row_fails_the_task_and_nothing_of_its_batch_is_written(
    spark: SparkBench, unique: str
) -> None:
    spark.produce(unique, [b"1", b"many"])
    spark.create_topic(f"{unique}-out", 1)
    task = TaskId(unique, 0)
    config = {
        **copy(topics=unique, topic=f"{unique}-out", transform_sql=DOUBLED),
        "task.units": f"{unique}-0",
    }
    spark.start(task, config)
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert "CAST_INVALID_INPUT" in spark.heard.traces[task, 1]
    assert spark.heard.reasons[task, 1] == "", "that is the record's fault"
    assert spark.records(f"{unique}-out") == []


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT nothing AS value FROM input", "is refused by Spark: [UNRESOLVED_COLUMN"),
        ("SELECT key FROM input", "has no column value"),
        ("SELECT value, 5L AS timestampMs FROM input", "has the unknown columns timestampMs"),
        ("SELECT value, timestampMs AS offset FROM input", "timestampMs"),
        ("SELECT 1 AS value FROM input", "has value as int, not as string or binary"),
    ],
)
@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_select_that_cannot_work_fails_the_task_when_it_starts(
    spark: SparkBench, unique: str, sql: str, problem: str, tolerance: str
) -> None:
    spark.create_topic(unique, 1)
    task = TaskId(unique, 0)
    config = copy(topics=unique, topic=f"{unique}-out", transform_sql=sql, errors_tolerance=tolerance)
    spark.start(task, {**config, "task.units": f"{unique}-0"})
    eventually(lambda: spark.heard.of(task) == [("failed", 1)], 60)
    trace = spark.heard.traces[task, 1]
    assert "option 'transform.sql'" in trace
    assert problem in trace
    assert spark.heard.reasons[task, 1] == "InvalidOption"


def test_what_one_topic_takes_fits_into_another_one_and_a_refusal_names_the_topic_and_the_option(
    spark: SparkBench, unique: str
) -> None:
    """The target of the second connector has a smaller limit, as its option does not."""
    source, small = f"{unique}-in", f"{unique}-small"
    spark.create_topic(source, 1)
    # Kafka counts 72 bytes more, and the copy's compression of what cannot be compressed some 90.
    large = Random(1).randbytes(1_048_588 - 200)
    spark.produce(source, [large])
    ensure_topic(spark.client, small, 1, -1, {"max.message.bytes": "500000"})
    configs = {
        name: copy(topics=source, topic=target, task_units=f"{source}-0", isolation_level="read_committed")
        for name, target in ((f"{unique}-copied", f"{unique}-out"), (f"{unique}-refused", small))
    }
    spark.create_topic(f"{unique}-out", 1)
    tasks = {name: TaskId(name, 0) for name in configs}
    for name, task in tasks.items():
        spark.start(task, configs[name])
    eventually(lambda: [value for _, value in spark.records(f"{unique}-out")] == [large], 60)
    refused = tasks[f"{unique}-refused"]
    eventually(lambda: spark.heard.of(refused)[-1:] == [("failed", 1)], 60)
    assert (
        f"exceeds option 'message.max.bytes', or max.message.bytes of topic {small}; raise both"
        in spark.heard.traces[refused, 1]
    )
    spark.stop(tasks[f"{unique}-copied"])


def test_a_topic_whose_target_cannot_exist_is_left_out_and_named(broker: EmbeddedBroker, unique: str) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    odd, long_one = f"{unique}.odd", f"{unique}-{'x' * (248 - len(unique))}"
    # Kafka refuses names that differ in dots and underscores only.
    for topic in (f"{unique}-good", odd, long_one, f"to-{unique}_odd"):
        ensure_topic(client, topic, 2, 1)
    config = {
        "connector.class": "kafka-to-kafka",
        "topics.regex": f"{unique}.*",
        "topic": "to-{topic}",
    }
    connector, said = find("kafka-to-kafka"), list[str]()
    resolver = Resolver({}, bootstrap_servers=broker.bootstrap_servers)
    options, _, _ = resolved_options(connector.options, config, resolver)
    units = connector.units(options, said.append)
    assert set(units) == {f"{unique}-good-0", f"{unique}-good-1"}
    assert "(and 1 more) cannot be written, so its source waits: " in said[-1]
    assert "option topic" in said[-1]
