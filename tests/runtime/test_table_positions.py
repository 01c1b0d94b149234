"""Positions of ``kafka-to-postgres`` are in the database of the rows: tasks go on there, offsets are changed
there, and those of earlier releases are taken over."""

from collections import Counter
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from cooperator.connectors import fence
from cooperator.connectors.offset_operations import Subject, alter, listed, migrate, reset
from cooperator.connectors.offsets import Change, OffsetsError, Where
from cooperator.connectors.units import Owner, settle_layout
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_postgres import sink, table_of
from tests.runtime.test_offsets import kafka, subject
from tests.runtime.test_positions import run

pytestmark = pytest.mark.real

QUERY = "5f0c2a4e-query"
VALUES = "SELECT CAST(value AS STRING) AS value FROM input"


def config_of(postgres: Postgres, unique: str, **options: object) -> dict[str, str]:
    postgres.query(f"CREATE TABLE {table_of(unique)} (value text)")
    config = sink(postgres, topics=unique, transform_sql=VALUES, **options)
    return {**config, "table.name.format": table_of(unique)}


def values(postgres: Postgres, unique: str) -> Counter[str]:
    return Counter(value for (value,) in postgres.query(f"SELECT value FROM {table_of(unique)}"))


def test_a_task_goes_on_where_it_was_without_a_checkpoint_and_tells_what_it_has_done(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    task, units = TaskId(unique, 0), [f"{unique}-{number}" for number in range(3)]
    spark.create_topic(unique, 3)
    config = config_of(postgres, unique)
    spark.produce(unique, [{"value": b"%d" % n, "partition": n % 3} for n in range(30)])
    spark.start(task, {**config, "task.units": ",".join(units)})
    spark.wait_started(task)

    def told() -> bool:
        progress = spark.heard.progress_of(task)
        return (progress.get("rows_in"), progress.get("rows_out"), progress.get("lag")) == (30, 30, 0)

    eventually(told, 60, f"{spark.heard.texts}")
    spark.stop(task)
    spark.produce(unique, [{"value": b"%d" % n, "partition": n % 3} for n in range(30, 60)])
    # Another grouping of the same units.
    run(spark, task, config, units[:2], lambda: values(postgres, unique).total() == 50)
    run(spark, TaskId(unique, 1), config, units[2:], lambda: values(postgres, unique).total() == 60)
    assert values(postgres, unique) == Counter(str(n) for n in range(60))
    assert not (spark.settings.checkpoints / unique).exists(), "nothing is kept there"


def test_offsets_are_listed_altered_and_reset_where_the_rows_are(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    task, units = TaskId(unique, 0), [f"{unique}-0"]
    spark.produce(unique, [b"0", b"1", b"2"])
    config = config_of(postgres, unique)
    about = subject(spark, unique, config)
    assert listed(about) == []
    with pytest.raises(OffsetsError, match=r"kafka_offset 4 is out of range; use 0 .* to 3"):
        alter(about, [kafka(unique, 0, 4)], dry_run=True)
    alter(about, [kafka(unique, 0, 1)], dry_run=False)
    assert listed(about) == [kafka(unique, 0, 1)]
    run(spark, task, config, units, lambda: values(postgres, unique).total() == 2)

    [change] = alter(about, [kafka(unique, 0, 2)], dry_run=True)
    assert change == Change(kafka(unique, 0, 2).partition, {"kafka_offset": 3}, {"kafka_offset": 2})
    assert listed(about) == [kafka(unique, 0, 3)], "a dry run changes nothing"
    assert alter(about, [kafka(unique, 0, 2)], dry_run=False) == [change]
    assert alter(about, [kafka(unique, 0, 2)], dry_run=False) == [], "nothing is left to do"
    run(spark, task, config, units, lambda: values(postgres, unique).total() == 3)

    spark.produce(unique, [b"left out"])
    reset(about, Where.LATEST, dry_run=False)
    spark.produce(unique, [b"last"])
    run(spark, task, config, units, lambda: values(postgres, unique)["last"] == 1)
    assert values(postgres, unique) == Counter(["1", "2", "2", "last"])
    assert [change.after for change in reset(about, dry_run=False)] == [None]
    assert listed(about) == []
    run(spark, task, config, units, lambda: values(postgres, unique).total() == 9)


def test_an_attempt_that_runs_while_offsets_are_reset_commits_nothing_more(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    task = TaskId(unique, 0)
    spark.produce(unique, [b"0"])
    config = {**config_of(postgres, unique), "task.units": f"{unique}-0"}
    attempt = spark.start(task, config)
    eventually(lambda: values(postgres, unique).total() == 1, 60)
    reset(subject(spark, unique, config), dry_run=False)
    spark.produce(unique, [b"1"])
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 60, "it is refused")
    assert "its offsets were reset" in spark.heard.traces[task, attempt]
    assert values(postgres, unique) == Counter(["0"])


@pytest.mark.long(
    "tests/runtime/test_copy_batches.py::test_an_attempt_that_lost_its_units_in_mid_copy_writes_nothing"
)
def test_the_older_of_two_attempts_at_once_ends_and_rows_are_there_once(
    spark: SparkBench, postgres: Postgres, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = TaskId(unique, 0), TaskId(unique, 1)
    config = {**config_of(postgres, unique, max_offsets_per_trigger=5), "task.units": f"{unique}-0"}
    spark.produce(unique, [b"%d" % n for n in range(100)])
    monkeypatch.setattr(spark, "epoch", Epoch(1, 1))
    first = spark.start(old, config)
    eventually(lambda: values(postgres, unique).total() > 20, 60)
    monkeypatch.setattr(spark, "epoch", Epoch(1, 2))
    spark.start(new, config)
    eventually(lambda: spark.heard.of(old)[-1:] == [("failed", first)], 60, "the older one ends")
    eventually(lambda: values(postgres, unique).total() >= 100, 120)
    assert values(postgres, unique) == Counter(str(n) for n in range(100))
    spark.stop(new)


@pytest.mark.long(
    "tests/runtime/test_kafka_to_files.py::"
    "test_a_topic_that_was_created_again_is_reported_or_read_from_its_beginning"
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_topic_that_was_created_again_is_found(
    spark: SparkBench, postgres: Postgres, unique: str, goes_on: bool
) -> None:
    task = TaskId(unique, 0)
    spark.produce(unique, [b"old %d" % n for n in range(3)])
    config = config_of(postgres, unique, fail_on_data_loss=str(not goes_on).lower())
    config["task.units"] = f"{unique}-0"
    attempt = spark.start(task, config)
    eventually(lambda: values(postgres, unique).total() == 3, 60)
    # A position has the topic's id once a look has found it, which comes before each batch.
    admin = AdminClient(spark.client)
    admin.delete_topics([unique])[unique].result(30)
    eventually(lambda: unique not in admin.list_topics(timeout=10).topics, 60)
    spark.produce(unique, [b"new %d" % n for n in range(5)])
    if goes_on:
        eventually(lambda: values(postgres, unique).total() >= 8, 90)
        assert values(postgres, unique)["new 0"] == 1, "it is read from its beginning"
        spark.stop(task)
    else:
        eventually(lambda: spark.heard.of(task)[-1:] == [("failed", attempt)], 90)
        assert "reset or alter its offsets, or set fail.on.data.loss" in spark.heard.traces[task, attempt]
        assert values(postgres, unique).total() == 3, "nothing of the new topic is written"


class Earlier:
    """A connector with one unit of an earlier release: a checkpoint, and a marker in the database."""

    def __init__(self, spark: SparkBench, postgres: Postgres, name: str) -> None:
        self.spark, self.postgres, self.name = spark, postgres, name
        self.task, unit, group = TaskId(name, 0), f"{name}-0", spark.settings.group_id
        self.markers = f"{table_of(name)}_batches"
        spark.produce(name, [b"0", b"1"])
        self.config = {
            **config_of(postgres, name),
            "task.units": unit,
            "marker.table": self.markers,
        }
        self.unit = spark.settings.checkpoints / name / unit
        settle_layout(spark.settings.checkpoints, name, Owner(group), {"marker.table": self.markers}, [unit])
        postgres.query(
            f"CREATE TABLE {self.markers} (worker text, connector text, unit text, owner text NOT NULL, "
            "term bigint, generation bigint, query text NOT NULL, batch bigint NOT NULL, "
            "content text NOT NULL DEFAULT '', PRIMARY KEY (worker, connector, unit))"
        )
        postgres.query(
            f"INSERT INTO {self.markers} VALUES (%s, %s, %s, 'earlier', 1, 1, '', -1)", group, name, unit
        )

    @property
    def about(self) -> Subject:
        return subject(self.spark, self.name, self.config)

    def plan(self, batch: int, end: int) -> None:
        for directory in ("offsets", "commits"):
            (self.unit / directory).mkdir(parents=True, exist_ok=True)
        (self.unit / "metadata").write_text(f'{{"id": "{QUERY}"}}')
        (self.unit / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"{self.name}":{{"0":{end}}}}}')

    def write(self, batch: int, value: str) -> None:
        self.postgres.query(f"INSERT INTO {table_of(self.name)} VALUES (%s)", value)
        self.postgres.query(f"UPDATE {self.markers} SET query = %s, batch = %s", QUERY, batch)

    def commit(self, batch: int) -> None:
        (self.unit / "commits" / str(batch)).write_text("v1\n{}")

    def refused(self) -> str:
        attempt = self.spark.start(self.task, self.config)
        eventually(lambda: self.spark.heard.of(self.task)[-1:] == [("failed", attempt)], 60)
        return self.spark.heard.traces[self.task, attempt]

    def run(self, done: Any) -> None:
        run(self.spark, self.task, self.config, [f"{self.name}-0"], done)


@pytest.fixture
def earlier(spark: SparkBench, postgres: Postgres, unique: str) -> Earlier:
    return Earlier(spark, postgres, unique)


@pytest.mark.parametrize(
    "is_delivered",
    [
        True,
        pytest.param(
            False,
            marks=pytest.mark.long(
                "tests/runtime/test_table_positions.py::test_a_position_is_taken_over_with_the_batch_in_flight"
            ),
        ),
    ],
)
def test_a_position_is_taken_over_with_the_batch_in_flight(earlier: Earlier, is_delivered: bool) -> None:
    """A kill between the database's commit and Spark's: only the marker tells whether the batch is done."""
    earlier.plan(0, 1)
    earlier.write(0, "0")
    earlier.commit(0)
    earlier.plan(1, 2)
    if is_delivered:
        earlier.write(1, "1")
    assert "whose position is not in PostgreSQL yet" in earlier.refused()
    about, position = earlier.about, 2 if is_delivered else 1
    with pytest.raises(OffsetsError, match=f"migrate the offsets of {earlier.name} first"):
        alter(about, [kafka(earlier.name, 0, 2)], dry_run=False)
    [change] = migrate(about, dry_run=True)
    assert (change.before, change.after) == (None, {"kafka_offset": position})
    assert listed(about) == [], "a dry run changes nothing"
    assert migrate(about, dry_run=False) == [change]
    assert migrate(about, dry_run=False) == []
    owner = earlier.postgres.query(f"SELECT owner FROM {earlier.markers}")
    assert owner == [("offsets",)], "an attempt of the earlier release that wakes is refused"
    with pytest.raises(fence.Fenced, match="whose epoch is newer"):
        fence.claim(earlier.unit, Epoch(9, 9), 1, "a member of the earlier release")
    earlier.spark.produce(earlier.name, [b"2"])
    earlier.run(lambda: values(earlier.postgres, earlier.name).total() >= 3)
    assert values(earlier.postgres, earlier.name) == Counter(["0", "1", "2"])


def test_an_older_copy_of_a_checkpoint_is_not_taken_over_and_a_reset_begins_anew(earlier: Earlier) -> None:
    earlier.plan(0, 1)
    earlier.write(0, "0")
    earlier.commit(0)
    earlier.write(1, "1")
    with pytest.raises(OffsetsError, match="the checkpoint was lost, or restored from an older copy"):
        migrate(earlier.about, dry_run=False)
    assert listed(earlier.about) == []
    reset(earlier.about, dry_run=False)
    assert not earlier.unit.exists()
    earlier.run(lambda: values(earlier.postgres, earlier.name).total() >= 4)
    assert values(earlier.postgres, earlier.name) == Counter({"0": 2, "1": 2})
