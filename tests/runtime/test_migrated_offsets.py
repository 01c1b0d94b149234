"""Checkpoints of ``kafka-to-kafka`` from earlier releases are refused until their positions are in Kafka."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from cooperator.connectors import fence
from cooperator.connectors.exactly_once import UnitWriter
from cooperator.connectors.kafka_log import KafkaLogs
from cooperator.connectors.offset_operations import Subject, alter, listed, migrate, reset
from cooperator.connectors.offsets import OffsetsError, Where
from cooperator.connectors.places import Place
from cooperator.connectors.units import Owner, settle_layout
from cooperator.model import Epoch, TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_kafka import copy
from tests.runtime.test_offsets import kafka, subject

pytestmark = pytest.mark.real

QUERY = "5f0c2a4e-query"


@dataclass
class Earlier:
    """A connector with one unit, as an earlier release left it: a checkpoint, and a marker in the sink."""

    spark: SparkBench
    name: str
    config: dict[str, str] = field(init=False)
    task: TaskId = field(init=False)
    writer: UnitWriter = field(init=False)

    def __post_init__(self) -> None:
        self.task, unit = TaskId(self.name, 0), f"{self.name}-0"
        self.config = {**copy(topics=self.name, topic=self.target), "task.units": unit}
        self.spark.create_topic(self.target, 1)
        group, cancelled = self.spark.settings.group_id, threading.Event()
        settle_layout(
            self.spark.settings.checkpoints, self.name, Owner(group), {"topic": self.target}, [unit]
        )
        logs = KafkaLogs(group, self.name, unit, self.target, self.spark.client, {}, 10_000, cancelled, print)
        claim = fence.claim(self.unit, Epoch(1, 1), 1, "earlier")
        self.writer = UnitWriter(logs, "earlier", cancelled, claim)
        self.writer.claim()

    @property
    def target(self) -> str:
        return f"{self.name}-out"

    @property
    def unit(self) -> Place:
        return self.spark.settings.checkpoints / self.name / f"{self.name}-0"

    @property
    def about(self) -> Subject:
        return subject(self.spark, self.name, self.config)

    def values(self) -> Counter[bytes]:
        return Counter(value for _, value in self.spark.records(self.target))

    def plan(self, batch: int, end: int) -> None:
        for directory in ("offsets", "commits"):
            (self.unit / directory).mkdir(parents=True, exist_ok=True)
        (self.unit / "metadata").write_text(f'{{"id": "{QUERY}"}}')
        (self.unit / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"{self.name}":{{"0":{end}}}}}')

    def write(self, batch: int, *values: bytes) -> int:
        return self.writer.write(QUERY, batch, lambda: [(None, value) for value in values], f"{batch} end")

    def commit(self, batch: int) -> None:
        (self.unit / "commits" / str(batch)).write_text("v1\n{}")

    def refused(self) -> str:
        attempt = self.spark.start(self.task, self.config)
        eventually(lambda: self.spark.heard.of(self.task)[-1:] == [("failed", attempt)], 60)
        assert self.spark.heard.reasons[self.task, attempt] == "InvalidOption"
        return self.spark.heard.traces[self.task, attempt]

    def run(self, done: Callable[[], bool]) -> None:
        self.spark.start(self.task, self.config)
        self.spark.wait_started(self.task)
        eventually(done, 60, "it goes on")
        self.spark.stop(self.task)


@pytest.fixture
def earlier(spark: SparkBench, unique: str) -> Earlier:
    spark.produce(unique, [b"0", b"1"])
    return Earlier(spark, unique)


@pytest.mark.parametrize(
    "is_delivered",
    [
        pytest.param(True, id="delivered"),
        pytest.param(
            False,
            id="not delivered",
            marks=pytest.mark.long(
                "tests/runtime/test_migrated_offsets.py::"
                "test_a_position_is_taken_over_with_the_batch_in_flight"
            ),
        ),
    ],
)
def test_a_position_is_taken_over_with_the_batch_in_flight(earlier: Earlier, is_delivered: bool) -> None:
    """A kill between Kafka's commit and Spark's: only the marker tells whether the batch is done."""
    earlier.plan(0, 1)
    earlier.write(0, b"0")
    earlier.commit(0)
    earlier.plan(1, 2)
    if is_delivered:
        earlier.write(1, b"1")
    said = earlier.refused()
    assert f"`cooperator local offsets migrate {earlier.name}`" in said
    about, position = earlier.about, 2 if is_delivered else 1
    [change] = migrate(about, dry_run=True)
    assert (change.before, change.after) == (None, {"kafka_offset": position})
    assert listed(about) == [], "a dry run changes nothing"
    assert migrate(about, dry_run=False) == [change]
    assert migrate(about, dry_run=False) == []
    earlier.spark.produce(earlier.name, [b"2"])
    earlier.run(lambda: earlier.values().total() >= 3)
    assert earlier.values() == Counter([b"0", b"1", b"2"])


def test_an_attempt_of_the_earlier_release_that_wakes_writes_nothing_more(earlier: Earlier) -> None:
    earlier.plan(0, 1)
    earlier.write(0, b"0")
    earlier.commit(0)
    earlier.plan(1, 2)
    migrate(earlier.about, dry_run=False)
    with pytest.raises(fence.Fenced, match="is held by 999999999999-"):
        earlier.write(1, b"1")
    with pytest.raises(fence.Fenced, match="whose epoch is newer"):
        fence.claim(earlier.unit, Epoch(9, 9), 1, "a member of the earlier release")
    earlier.run(lambda: earlier.values().total() >= 2)
    assert earlier.values() == Counter([b"0", b"1"])


def test_a_position_without_a_batch_is_taken_over(earlier: Earlier) -> None:
    """With starting.offsets: latest, or after a change of offsets, a unit has a start before its first
    batch."""
    (earlier.unit / "sources" / "0").mkdir(parents=True)
    (earlier.unit / "sources" / "0" / "0").write_text(f'\0v1\n{{"{earlier.name}":{{"0":1}}}}')
    assert "whose position is not in Kafka yet" in earlier.refused()
    migrate(earlier.about, dry_run=False)
    assert listed(earlier.about) == [kafka(earlier.name, 0, 1)]


def test_other_changes_wait_until_the_positions_are_taken_over(earlier: Earlier) -> None:
    earlier.plan(0, 1)
    earlier.write(0, b"0")
    earlier.commit(0)
    about = earlier.about
    for change in (
        partial(alter, about, [kafka(earlier.name, 0, 2)], dry_run=False),
        partial(reset, about, Where.EARLIEST, dry_run=False),
    ):
        with pytest.raises(OffsetsError, match=f"migrate the offsets of {earlier.name} first"):
            change()
    reset(about, dry_run=False)
    assert not earlier.unit.exists()
    with pytest.raises(fence.Fenced):
        earlier.write(1, b"1")
    earlier.run(lambda: earlier.values().total() >= 3)
    assert earlier.values() == Counter([b"0", b"0", b"1"])


def test_an_older_copy_of_a_checkpoint_is_not_taken_over(earlier: Earlier) -> None:
    earlier.plan(0, 1)
    earlier.write(0, b"0")
    earlier.commit(0)
    earlier.write(1, b"1")
    with pytest.raises(OffsetsError, match="the checkpoint was lost, or restored from an older copy"):
        migrate(earlier.about, dry_run=False)
    assert listed(earlier.about) == []
