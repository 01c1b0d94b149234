"""Tasks are learned as told: begun, refused, given to an attempt, cancelled and cleaned up."""

import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from cooperator.connectors.learned_state import NotLearnable, StoreKey, StoreVersion
from cooperator.model import TaskId
from cooperator.runtime.learners import MOST_TASKS, SPARED_S, STALE_S, Learned, Learners, Tell
from cooperator.runtime.spark_stores import SparkStore, SparkUnits
from cooperator.runtime.unit_learner import UnitLearner
from tests.harness.support import eventually
from tests.runtime.learned_unit import CHANGELOG, SNAPSHOT, CopyStore, Stores, Unit

TASK = TaskId("counts", 0)
CONFIG = {"task.units": "unit-0"}


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """Learners of tasks that all have the same unit, on a clock of the test."""

    def __init__(self, root: Path) -> None:
        self.unit = Unit(root / "checkpoint", partitions=1)
        self.stores = Stores(self.unit)
        self.clock = Clock()
        self.directory = root / "learned"
        (self.directory / "of a killed member").mkdir(parents=True)
        self.refusal = ""
        self.others: list[Stores] = []
        """Those of further units of the task."""
        self.learners = Learners(self._units, self.directory, self.clock, look_s=0.02)

    def _units(
        self, task: TaskId, config: Mapping[str, str], local: Path, cancelled: threading.Event, tell: Tell
    ) -> list[UnitLearner]:
        if self.refusal:
            raise NotLearnable(self.refusal)
        found = enumerate((self.stores, *self.others))
        return [stores.learner(local / f"{n}", partial(tell, n)) for n, stores in found]

    @property
    def store(self) -> CopyStore:
        return self.stores[StoreKey(0, 0)]

    def learn(self, *tasks: TaskId) -> None:
        self.learners.learn(dict.fromkeys(tasks, CONFIG))

    def reports(self, *reports: Learned) -> None:
        eventually(lambda: self.learners.report() == [*reports], 10)

    def cleans_up(self) -> None:
        self.clock.now_s += SPARED_S + 1
        eventually(lambda: not any(store.is_open for store in self.stores.opened), 10)
        eventually(lambda: not self.directory.exists() or not any(self.directory.iterdir()), 10)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    assert bench.learners.close(10), "a learner still reads"
    bench.cleans_up()


def test_a_task_is_followed_until_it_is_told_to_end(bench: Bench) -> None:
    bench.unit.commit()
    assert not bench.directory.exists(), "a killed member's files are removed"
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    bench.unit.commit()
    bench.reports(Learned(TASK, 0, 2 * CHANGELOG))
    assert bench.store.at == StoreVersion(2, "id-1-0")
    bench.learn()
    assert bench.learners.report() == []
    assert bench.store.is_open, "its attempt may be about to begin here"
    bench.cleans_up()


def test_a_task_that_is_wanted_again_goes_on(bench: Bench) -> None:
    bench.unit.commit()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    store = bench.store
    bench.learn()
    bench.learn(TASK)
    bench.clock.now_s += SPARED_S + 1
    bench.unit.commit()
    bench.reports(Learned(TASK, 0, 2 * CHANGELOG))
    assert store.is_open


def test_the_same_order_changes_nothing_and_another_configuration_begins_anew(bench: Bench) -> None:
    bench.unit.commit()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    store = bench.store
    bench.learn(TASK)
    assert store.is_open
    bench.learners.learn({TASK: {**CONFIG, "more": "1"}})
    eventually(lambda: not store.is_open and bench.store.is_open, 10)


def test_a_measurement_expires_with_a_frozen_learner(bench: Bench) -> None:
    bench.unit.commit()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    stuck = threading.Event()
    bench.store.follow = lambda version: stuck.wait(30)
    bench.unit.commit()
    bench.reports(Learned(TASK, CHANGELOG, 2 * CHANGELOG))
    bench.clock.now_s += STALE_S + 1
    assert bench.learners.report() == [Learned(TASK, None, 2 * CHANGELOG)]
    assert not bench.learners.close(0.1), "it is frozen"
    stuck.set()


def test_a_first_load_tells_how_far_it_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.unit.commit()
    bench.unit.upload()
    going = threading.Event()

    def follow(store: CopyStore, version: StoreVersion) -> None:
        store.local.mkdir(parents=True)
        (store.local / "1.sst").write_bytes(b"x" * SNAPSHOT)
        assert going.wait(30)

    monkeypatch.setattr(CopyStore, "follow", follow)
    bench.learn(TASK)
    bench.reports(Learned(TASK, 1, SNAPSHOT + 1, is_loading=True))
    bench.clock.now_s += STALE_S - 1
    (bench.store.local / "2.sst").write_bytes(b"x")
    bench.reports(Learned(TASK, 1, SNAPSHOT + 1, is_loading=True))
    bench.clock.now_s += STALE_S - 1
    bench.reports(Learned(TASK, 1, SNAPSHOT + 1, is_loading=True))
    bench.clock.now_s += 2
    bench.reports(Learned(TASK, None, SNAPSHOT + 1, is_loading=True))
    going.set()
    bench.reports(Learned(TASK, 0, SNAPSHOT + 1))


def test_a_task_of_two_units_has_not_caught_up_with_one_of_them(bench: Bench) -> None:
    other = Unit(bench.directory.parent / "other", partitions=1)
    bench.others = [Stores(other)]
    bench.unit.commit()
    other.commit()
    bench.others[0].is_broken = True
    bench.learn(TASK)
    eventually(lambda: bool(bench.others[0].opened), 10, "the second unit is looked at")
    assert all(each.is_loading for each in bench.learners.report())
    bench.others[0].is_broken = False
    for store in bench.others[0].opened:
        store.is_broken = False
    bench.reports(Learned(TASK, 0, 2 * CHANGELOG))


def test_a_storage_that_fails_makes_the_task_unknown_until_it_answers_again(bench: Bench) -> None:
    bench.unit.commit()
    bench.stores.is_broken = True
    bench.learn(TASK)
    eventually(lambda: len(bench.stores.opened) > 1, 20, "it begins anew")
    assert bench.learners.report()[0].bytes_behind in (None, CHANGELOG)
    bench.stores.is_broken = False
    for store in bench.stores.opened:
        store.is_broken = False
    bench.reports(Learned(TASK, 0, CHANGELOG))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_learner_that_dies_begins_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(learner: UnitLearner) -> None:
        sys.exit("as a plug-in might")

    bench.unit.commit()
    with monkeypatch.context() as deadly:
        deadly.setattr(UnitLearner, "look", die)
        bench.learn(TASK)
        assert bench.learners._tasks[TASK].wait(10), "it has not died"
    bench.reports(Learned(TASK, 0, CHANGELOG))


def test_a_store_whose_jvm_has_died_is_closed_and_not_taken() -> None:
    class Dead:
        def close(self) -> None:
            raise OSError("the JVM does not answer")

        isTaken = close  # noqa: N815

    store = SparkStore(Dead())
    store.close()
    assert not store.is_taken()


def test_an_attempt_takes_over_what_is_learned(bench: Bench) -> None:
    bench.unit.commit()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    bench.learn()
    bench.learners.begin(TASK)
    assert bench.learners.report() == []
    bench.clock.now_s += SPARED_S + 1
    store = bench.store
    assert store.is_open, "the attempt has not come for it yet"
    store.was_taken = True
    assert bench.learners._tasks[TASK].wait(10), "the learner has not ended"
    assert (store.local / "CURRENT").exists(), "the attempt works with these files"
    bench.learners.end(TASK)
    assert (store.local / "CURRENT").exists()
    shutil.rmtree(bench.directory)


def test_files_that_an_attempt_has_not_taken_over_are_removed_with_its_end(bench: Bench) -> None:
    bench.unit.commit()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))
    bench.learners.end(TASK)
    assert bench.store.is_open, "an end of an earlier attempt is none of this one's"
    bench.learners.begin(TASK)
    bench.learners.end(TASK)
    bench.cleans_up()
    bench.learn(TASK)
    bench.reports(Learned(TASK, 0, CHANGELOG))


def test_refusals_name_the_reason(bench: Bench) -> None:
    bench.refusal = "it is not learned: do something else"
    bench.learn(TASK)
    bench.reports(Learned(TASK, None, 0, bench.refusal))
    many = [TaskId("more", number) for number in range(MOST_TASKS + 1)]
    bench.learn(*many)
    [refused] = [each for each in bench.learners.report() if each.task == many[-1]]
    assert refused.problem == "16 tasks are learned here already: give the Worker more members"


@pytest.mark.parametrize("master", ["k8s://https://api", "sc://elsewhere", "spark://elsewhere:7077"])
def test_queries_that_keep_their_state_elsewhere_are_refused_by_name(tmp_path: Path, master: str) -> None:
    def no_session(cancelled: threading.Event) -> None:
        raise AssertionError("Spark is not started for it")

    units = SparkUnits(master, lambda: tmp_path, no_session)
    with pytest.raises(NotLearnable, match=f"spark.master '{master}': queries keep their state in executors"):
        units(TASK, CONFIG, tmp_path, threading.Event(), lambda number, behind: None)
