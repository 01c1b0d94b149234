"""``kafka-to-files`` with real Spark and Kafka: plain files that rotate, and what it refuses."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from cooperator.connectors.intents.moves import positions
from cooperator.connectors.intents.stores import LocalStore
from cooperator.connectors.offset_operations import alter, listed
from cooperator.connectors.topics import partition_counts
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from tests.harness.plain_files import read_plainly
from tests.harness.support import eventually
from tests.runtime.s3_server import S3Server
from tests.runtime.spark_bench import SparkBench, spark_bench
from tests.runtime.test_offsets import kafka, run_task, subject

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def archive(topic: str, path: object, units: int = 1, **options: object) -> dict[str, str]:
    config = {
        "connector.class": "kafka-to-files",
        "topics": topic,
        "path": str(path),
        "transform.sql": "SELECT value, partition, offset FROM input",
        "trigger.interval.ms": "100",
        "task.units": ",".join(f"{topic}-{number}" for number in range(units)),
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    return {name: str(value) for name, value in config.items()}


def values(path: Path) -> Counter[str]:
    """Returns the rows that a plain reader finds."""
    if not path.exists():
        return Counter()
    table = read_plainly(path)
    return Counter(table["value"].to_pylist() if table.num_rows else [])


def numbered(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def test_full_files_appear_at_once_and_the_rest_after_the_interval(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    spark.create_topic(unique, 2)
    spark.produce(unique, [{"value": n, "partition": 0} for n in numbered(250)])
    spark.produce(unique, [{"value": "alone", "partition": 1}])
    out, task = tmp_path / "out", TaskId(unique, 0)
    waiting = archive(unique, out, 2, flush_size=100, rotate_interval_ms=3_600_000)
    run_task(spark, task, waiting, lambda: values(out).total() >= 200)
    files = sorted(out.glob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [100, 100]
    assert all(file.name.startswith(f"{unique}+0+00000000000000000000.") for file in files)
    assert values(out) == Counter(numbered(200)), "records of files that are not full wait in the topic"
    soon = archive(unique, out, 2, rotate_interval_ms=500)
    run_task(spark, task, soon, lambda: values(out).total() >= 251)
    assert values(out) == Counter([*numbered(250), "alone"])


@pytest.mark.long(
    "tests/intents/test_rotation.py::test_bytes_of_a_file_are_limited_by_what_earlier_records_took"
)
def test_files_are_cut_before_they_exceed_their_size(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    out, task = tmp_path / "out", TaskId(unique, 0)
    config = archive(unique, out, max_file_bytes=20_000, format="json", rotate_interval_ms=0)
    spark.produce(unique, ["x" * 980] * 10)

    def rows() -> int:
        return sum(len(file.read_text().splitlines()) for file in out.glob("*.json")) if out.exists() else 0

    run_task(spark, task, config, lambda: rows() >= 10)
    spark.start(task, config)
    spark.wait_started(task)
    spark.produce(unique, ["x" * 980])
    eventually(lambda: rows() >= 11, 60, "the size of its records is known")
    spark.produce(unique, ["x" * 980] * 100)
    eventually(lambda: rows() >= 111, 60)
    spark.stop(task)
    assert max(file.stat().st_size for file in out.glob("*.json")) <= 21_000


def test_a_topic_that_was_created_again_is_reported_or_read_from_its_beginning(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    out, task = tmp_path / "out", TaskId(unique, 0)
    spark.produce(unique, ["old 0", "old 1"])
    config = archive(unique, out, rotate_interval_ms=0)
    run_task(spark, task, config, lambda: values(out).total() >= 2)
    admin = AdminClient(spark.client)
    admin.delete_topics([unique])[unique].result(30)
    eventually(lambda: not partition_counts(spark.client, [unique])[unique], 30)
    spark.produce(unique, ["new 0", "new 1", "new 2"])
    attempt = spark.start(task, config)
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
    assert "was deleted and created again" in spark.heard.traces[task, attempt]
    tolerant = {**config, "fail.on.data.loss": "false"}
    run_task(spark, task, tolerant, lambda: values(out).total() >= 5)
    assert values(out) == Counter(["old 0", "old 1", "new 0", "new 1", "new 2"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"transform.sql": "SELECT count(*) AS n FROM input"}, "'transform.sql' = 'SELECT count"),
        ({"partition.by": "day"}, "'partition.by' = 'day': does not name a column of the rows"),
        (
            {"partition.by": "_day", "transform.sql": "SELECT offset, 1 AS _day FROM input"},
            "'partition.by' = '_day': begins as names of directories do that most readers pass over",
        ),
        ({"path": "hdfs://names/out"}, "'path' = 'hdfs://names/out': is neither in a file system"),
        (
            {"format": "csv", "transform.sql": "SELECT STRING(value) AS text FROM input"},
            "'format' = 'csv': cannot have text as its only column: its null is an empty line",
        ),
    ],
    ids=[
        "rows that move",
        "a missing column",
        "a hidden directory",
        "another file system",
        "rows that may be empty lines",
    ],
)
def test_a_configuration_that_cannot_work_is_refused_with_its_option(
    spark: SparkBench, tmp_path: Path, unique: str, options: dict[str, str], problem: str
) -> None:
    spark.create_topic(unique, 1)
    task = TaskId(unique, 0)
    attempt = spark.start(task, {**archive(unique, tmp_path / "out"), **options})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
    assert problem in spark.heard.traces[task, attempt]
    assert spark.heard.reasons[task, attempt] == "InvalidOption"


def test_a_directory_has_one_connector(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    spark.produce(unique, ["1"])
    out = tmp_path / "out"
    config = archive(unique, out, rotate_interval_ms=0)
    run_task(spark, TaskId(unique, 0), config, lambda: values(out).total() >= 1)
    for task, path in ((TaskId(f"{unique}-b", 0), out), (TaskId(f"{unique}-c", 0), tmp_path / "old")):
        (tmp_path / "old" / f"{unique}-0" / "_spark_metadata").mkdir(parents=True, exist_ok=True)
        attempt = spark.start(task, {**config, "path": str(path)})
        eventually(lambda task=task, attempt=attempt: spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
        assert spark.heard.reasons[task, attempt] == "InvalidOption"
    assert (
        f"is the directory of Connector {unique} of the group"
        in spark.heard.traces[TaskId(f"{unique}-b", 0), 1]
    )
    assert "migrate its offsets" in spark.heard.traces[TaskId(f"{unique}-c", 0), 1]
    assert positions(LocalStore(out), [f"{unique}-0"])[f"{unique}-0"].next == 1
    assert values(out) == Counter(["1"])


@pytest.mark.long(
    "tests/intents/test_s3.py::test_a_successor_finishes_a_cut_and_a_woken_attempt_brings_no_object_back"
)
def test_a_store_needs_no_shared_directory_and_its_offsets_no_spark(
    broker: EmbeddedBroker, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = S3Server(tmp_path / "s3")
    try:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        conf = {"spark.hadoop.fs.s3a.connection.maximum": "32"}
        with spark_bench(broker, tmp_path / "member", spark_conf=conf) as spark:
            spark.produce(unique, numbered(30))
            task, path = TaskId(unique, 0), f"s3a://{server.bucket}/{unique}"
            config = archive(unique, path, rotate_interval_ms=0)

            def found() -> Counter[str]:
                store, rows = server.store(), Counter[str]()
                for page in store.list(f"{unique}/"):
                    for each in (entry["path"] for entry in page if entry["path"].endswith(".parquet")):
                        content = pa.BufferReader(bytes(store.get(each).bytes()))
                        rows.update(pq.read_table(content)["value"].to_pylist())
                return rows

            run_task(spark, task, config, lambda: found().total() >= 30)
            about = subject(spark, unique, config)
            assert listed(about) == [kafka(unique, 0, 30)]
            alter(about, [kafka(unique, 0, 28)], dry_run=False)
            assert listed(about) == [kafka(unique, 0, 28)]
            run_task(spark, task, config, lambda: found().total() >= 32)
            assert found() == Counter([*numbered(30), "28", "29"])
            assert not (tmp_path / "member" / "checkpoints" / unique).exists()
    finally:
        server.stop()
