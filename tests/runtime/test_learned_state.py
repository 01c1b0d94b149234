"""A learner of a real query's state follows its commits in the same JVM; the next attempt takes it over."""

import hashlib
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.connectors.offsets.unit_log import commit_version, reached, recorded_settings
from cooperator.connectors.stateful import LEARNED, PROVIDER, ROCKSDB
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import TaskId
from cooperator.runtime import TaskSpec
from cooperator.runtime.learners import Learned, Learners
from cooperator.runtime.spark_stores import SparkStore, rehearse
from tests.harness.support import eventually
from tests.runtime.learned_unit import ROOMY
from tests.runtime.spark_bench import SparkBench, spark_bench
from tests.runtime.test_pipeline import rows_in
from tests.runtime.test_state_reading import UPDATES, ask, counts
from tests.runtime.test_stateful import COUNTS, JOIN, Stream, joined, rows_of, utc


class LearnedStream(Stream):
    """A stream whose task is learned by the member that runs it, too: for its next attempt."""

    def begin(self, is_learned: bool = True) -> TaskId:
        task = self.task
        self.spark.attempts[task] += 1
        config = {**self.config, "task.units": "unit-0"}
        spec = TaskSpec(task, config, epoch=self.spark.epoch, is_learned=is_learned)
        self.spark.runtime.start(spec, self.spark.attempts[task])
        return task

    @property
    def task(self) -> TaskId:
        return TaskId(self.name, 0)

    def run(self, is_learned: bool = True) -> None:
        task = self.begin(is_learned)
        eventually(self._is_read, 60)
        self.spark.stop(task)

    def more(self, part: int) -> None:
        """Adds rows to the running query, and waits until they are committed."""
        self.add(rows_of(part))
        eventually(self._is_read, 60)

    def learn(self) -> None:
        runtime, wanted = self.spark.runtime, {self.task: {**self.config, "task.units": "unit-0"}}

        def is_learned() -> bool:
            runtime.learn(wanted)
            return bool(runtime.learned())

        # A learner whose store an attempt takes over notices it after a while.
        eventually(is_learned, 10)

    def caught_up(self) -> Learned:
        """Returns the report of a learner that has the newest commit."""

        def report() -> Learned | None:
            [learned] = self.spark.runtime.learned()
            learner = self.spark.runtime._learners._tasks[self.task]
            self.kept = [kept for unit in learner._units for kept in unit._stores.values()]
            at = {kept.at and kept.at.version for kept in self.kept}
            return learned if at == {reached(self.checkpoint)[0] + 1} and learned.bytes_behind == 0 else None

        return eventually(report, 30)

    def taken(self) -> list[bool]:
        return [kept.store.is_taken() for kept in self.kept]

    def counted(self) -> bool:
        return counts(ask(self.spark, self.name)) == Counter(row["key"] for row in self.rows)

    def snapshots(self) -> set[Path]:
        return set(self.checkpoint.rglob("*.zip"))

    def digest(self) -> str:
        files = sorted(file for file in self.checkpoint.rglob("*") if file.is_file())
        return hashlib.sha256(repr([(file, file.read_bytes()) for file in files]).encode()).hexdigest()


@pytest.fixture(autouse=True)
def _roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learners leave a tenth of the disk free, which the machine of a test may not have."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: ROOMY)


@pytest.fixture
def stream(spark: SparkBench, tmp_path: Path, unique: str) -> Iterator[LearnedStream]:
    stream = LearnedStream(spark, tmp_path, unique, **UPDATES, **{"transform.sql": COUNTS})
    yield stream
    spark.runtime.learn({})


@pytest.mark.real
def test_an_attempt_goes_on_with_what_is_learned(stream: LearnedStream) -> None:
    stream.add(rows_of(0))
    stream.run()
    assert recorded_settings(stream.checkpoint)[PROVIDER] == LEARNED
    before = stream.digest()
    stream.learn()
    assert stream.caught_up().state_bytes > 0
    assert stream.digest() == before, "a learner has written to the checkpoint"
    stream.add(rows_of(1))
    stream.run()
    assert stream.taken() == [True, True]
    assert stream.counted()
    assert commit_version(stream.checkpoint) == 2


@pytest.mark.long("tests/runtime/test_learned_state.py::test_an_attempt_goes_on_with_what_is_learned")
@pytest.mark.real
def test_state_stays_whole_over_moves_snapshots_and_removals(
    broker: EmbeddedBroker, tmp_path: Path, unique: str
) -> None:
    """The owner uploads snapshots and removes old files each second; the state moves four times, warm."""
    conf = {"spark.sql.streaming.stateStore.maintenanceInterval": "1s"}
    with spark_bench(broker, tmp_path, spark_conf=conf) as spark:
        stream = LearnedStream(spark, tmp_path, unique, **UPDATES, **{"transform.sql": COUNTS})
        stream.add(rows_of(0))
        task = stream.begin()
        eventually(lambda: reached(stream.checkpoint)[0] >= 0, 60)
        for move in range(4):
            snapshots = stream.snapshots()
            stream.learn()
            for part in range(12):
                stream.more((part + move) % 5)
            eventually(lambda snapshots=snapshots: stream.snapshots() - snapshots, 30, "a new snapshot")
            if move % 2:
                stream.more(move)  # otherwise the learner has the newest commit already, by an older snapshot
            stream.caught_up()
            assert stream.counted()
            spark.stop(task)
            stream.begin()
            stream.more(move)
            assert all(stream.taken())
            assert stream.counted()
        spark.stop(task)


@pytest.mark.long("tests/runtime/test_learned_state.py::test_an_attempt_goes_on_with_what_is_learned")
@pytest.mark.real
def test_versions_that_ran_ahead_are_caught_up_by_the_attempt(
    stream: LearnedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.add(rows_of(0))
    stream.run()
    stream.learn()
    stream.caught_up()
    monkeypatch.setattr(SparkStore, "follow", lambda store, version: None)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Learners, "begin", lambda learners, task: None)
        elsewhere.setattr(Learners, "end", lambda learners, task: None)
        task = stream.begin(is_learned=False)
        for part in range(1, 16):
            stream.more(part % 3)
        stream.spark.stop(task)
    assert stream.counted()
    assert stream.taken() == [False, False], "only an attempt that holds the unit takes it over"
    stream.add(rows_of(3))
    stream.run()
    assert stream.taken() == [True, True]
    assert stream.counted()


@pytest.mark.long("tests/runtime/test_learners.py::test_a_measurement_expires_with_a_frozen_learner")
@pytest.mark.real
def test_a_frozen_learner_holds_up_nobody(stream: LearnedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.add(rows_of(0))
    stream.run()
    stuck = threading.Event()
    monkeypatch.setattr(SparkStore, "follow", lambda store, version: stuck.wait(60))
    stream.learn()
    [learned] = eventually(lambda: [each for each in stream.spark.runtime.learned() if each.state_bytes], 10)
    assert learned.bytes_behind == learned.state_bytes
    stream.add(rows_of(1))
    stream.run()
    assert stream.counted()
    stuck.set()


@pytest.mark.long(
    "tests/runtime/test_unit_learner.py::test_a_setting_of_the_newest_batch_is_replaced_and_nothing_else"
)
@pytest.mark.real
def test_a_checkpoint_changes_its_provider_in_both_directions(stream: LearnedStream) -> None:
    for part, is_learned in enumerate((False, True, True, False)):
        stream.add(rows_of(part))
        stream.run(is_learned)
        expected = LEARNED if is_learned else ROCKSDB
        assert recorded_settings(stream.checkpoint)[PROVIDER] == expected
        assert stream.counted()


@pytest.mark.long("tests/runtime/test_learned_state.py::test_an_attempt_goes_on_with_what_is_learned")
@pytest.mark.real
def test_a_rehearsal_runs_one_batch_with_state(spark: SparkBench, tmp_path: Path) -> None:
    rehearse(spark.runtime.session(threading.Event()), tmp_path)
    assert reached(tmp_path) == (0, 0)
    assert commit_version(tmp_path) == 2


@pytest.mark.long("tests/runtime/test_unit_learner.py::test_a_join_has_four_stores")
@pytest.mark.real
def test_a_join_is_learned(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    stream = LearnedStream(spark, tmp_path, unique, **{"transform.sql": JOIN})
    for part in (0, 1):
        stream.add(rows_of(part))
        stream.run()
    stream.learn()
    stream.caught_up()
    stream.add(rows_of(2))
    stream.run()
    assert stream.taken() == [True] * 8
    found = Counter((row["key"], utc(row["at"]), utc(row["later"])) for row in rows_in(stream.out))
    assert found == joined(stream.rows)
    spark.runtime.learn({})
