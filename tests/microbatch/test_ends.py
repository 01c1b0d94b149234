"""One look for all tasks; tasks without news sleep, and no end is older than the position beside it."""

import threading
import time
from collections.abc import Collection, Iterator, Mapping

import pytest

from cooperator.connectors.microbatch.ends import EndWatcher, Look, Subscription, due, next_look_ms
from cooperator.connectors.microbatch.ranges import Partition
from tests.harness.support import eventually

A, B = Partition("a", 0), Partition("b", 0)


class FakeEnds:
    """A cluster whose ends a test sets; it can be away, and it can hold a look."""

    def __init__(self) -> None:
        self.now: dict[Partition, int] = {}
        self.watched: set[Partition] = set()
        self.offsets: dict[Partition, int] = {}
        self.ids: dict[str, str] = {}
        self.held: dict[Partition, int] | None = None
        self.looks = 0
        self.away = False
        self.goes_on = threading.Event()
        self.goes_on.set()

    def watch(self, partitions: Collection[Partition]) -> None:
        self.watched, self.offsets = set(partitions), {}

    def look(self, timeout_ms: int) -> Look:
        self.looks += 1
        if self.away:
            raise TimeoutError("no broker")
        found = {each: end for each, end in self.now.items() if each in self.watched}
        assert self.goes_on.wait(30)
        changed = {each: end for each, end in found.items() if self.offsets.get(each) != end}
        self.offsets |= changed
        ids, self.ids = self.ids, {}
        return Look(changed, dict.fromkeys(self.watched - set(found), "not here"), ids, self.held)

    def close(self) -> None:
        pass


@pytest.fixture
def cluster() -> FakeEnds:
    return FakeEnds()


@pytest.fixture
def watcher(cluster: FakeEnds) -> Iterator[EndWatcher]:
    watcher = EndWatcher(cluster)
    yield watcher
    watcher.close()


class Waiting:
    """A task that waits in a thread of its own."""

    def __init__(
        self, subscription: Subscription, positions: dict[Partition, int], ids: Mapping[Partition, str] = {}
    ) -> None:
        self.found: list[dict[Partition, int]] = []

        def wait() -> None:
            self.found.append(dict(subscription.wait(positions, ids)))

        self.thread = threading.Thread(target=wait, daemon=True)
        self.thread.start()

    def result(self) -> dict[Partition, int]:
        self.thread.join(30)
        return self.found[0]


def test_a_task_learns_what_is_new_and_waits_while_nothing_is(cluster: FakeEnds, watcher: EndWatcher) -> None:
    cluster.now = {A: 3, B: 9}
    subscription = watcher.subscribe([A], 0)
    assert Waiting(subscription, {A: 0}).result() == {A: 3}
    waiting = Waiting(subscription, {A: 3})
    looks = cluster.looks
    eventually(lambda: cluster.looks > looks + 2)
    assert not waiting.found
    cluster.now[A] = 4
    assert waiting.result() == {A: 4}


@pytest.mark.parametrize("known", ["old", ""])
def test_a_topic_of_another_id_is_new_though_it_ends_where_the_task_is(
    cluster: FakeEnds, watcher: EndWatcher, known: str
) -> None:
    cluster.now, cluster.ids = {A: 3}, {"b": "another"}
    waiting = Waiting(watcher.subscribe([A], 0), {A: 3}, {A: known})
    looks = cluster.looks
    eventually(lambda: cluster.looks > looks + 2)
    assert not waiting.found
    cluster.ids = {"a": "new"}
    assert waiting.result() == {A: 3}


@pytest.mark.parametrize(
    ("interval_ms", "is_quiet", "at_ms"),
    [
        (500, False, 10_500),
        (500, True, 11_000),
        (50, True, 10_300),
        (700, True, 11_000),
        (2_000, False, 12_000),
        (2_000, True, 12_000),
    ],
)
def test_looks_are_rarer_while_nothing_arrives(interval_ms: int, is_quiet: bool, at_ms: int) -> None:
    assert next_look_ms(10_234, interval_ms, is_quiet) == at_ms


def test_looks_are_not_rarer_while_a_task_has_more_to_read(cluster: FakeEnds, watcher: EndWatcher) -> None:
    cluster.now = {A: 9}
    subscription = watcher.subscribe([A], 0)
    assert Waiting(subscription, {A: 0}).result() == {A: 9}
    assert not watcher.is_quiet(Look({})), "a batch may have read some of the nine"
    Waiting(subscription, {A: 9})
    eventually(lambda: watcher.is_quiet(Look({})))
    assert not watcher.is_quiet(Look({A: 10}))


def test_all_tasks_share_one_look_and_each_learns_of_its_own(cluster: FakeEnds, watcher: EndWatcher) -> None:
    cluster.now = {A: 1, B: 1}
    first, second = watcher.subscribe([A], 0), watcher.subscribe([B], 0)
    waits = Waiting(first, {A: 1}), Waiting(second, {B: 0})
    assert waits[1].result() == {B: 1}
    assert cluster.watched == {A, B}
    assert not waits[0].found
    first.close()
    assert waits[0].result() == {}
    eventually(lambda: cluster.watched == {B})


def test_no_end_of_an_earlier_look_is_compared_to_a_later_position(
    cluster: FakeEnds, watcher: EndWatcher
) -> None:
    cluster.now = {A: 5}
    subscription = watcher.subscribe([A], 0)
    assert Waiting(subscription, {A: 0}).result() == {A: 5}
    # Another member moves the position, and this one reads it while a look is under way.
    cluster.goes_on.clear()
    looks = cluster.looks
    eventually(lambda: cluster.looks > looks)
    cluster.now = {A: 8}
    subscription.restart()
    waiting = Waiting(subscription, {A: 7})
    cluster.goes_on.set()
    assert waiting.result() == {A: 8}


def test_a_cluster_that_is_away_is_asked_again_and_its_ends_are_unknown_meanwhile(
    cluster: FakeEnds, watcher: EndWatcher
) -> None:
    cluster.away, cluster.now = True, {A: 2}
    subscription = watcher.subscribe([A, B], 0)
    waiting = Waiting(subscription, {A: 0, B: 0})
    eventually(lambda: cluster.looks)
    cluster.away = False
    assert waiting.result() == {A: 2}
    assert subscription.unknown == {B: "not here"}


def test_a_partition_that_does_not_answer_stops_no_other_and_its_old_end_does_not_count(
    cluster: FakeEnds, watcher: EndWatcher
) -> None:
    cluster.now = {A: 3, B: 3}
    subscription = watcher.subscribe([A, B], 0)
    assert Waiting(subscription, {A: 0, B: 0}).result() == {A: 3, B: 3}
    cluster.now = {A: 4}
    assert Waiting(subscription, {A: 3, B: 0}, {B: "old"}).result() == {A: 4}
    assert subscription.troubles == {B: "waiting: not here"}
    cluster.now = {A: 4, B: 5}
    assert Waiting(subscription, {A: 4, B: 3}).result() == {A: 4, B: 5}
    assert subscription.troubles == {}


def test_offsets_behind_an_open_transaction_are_told_until_the_end_moves(
    cluster: FakeEnds, watcher: EndWatcher
) -> None:
    cluster.now, cluster.held = {A: 3, B: 3}, {A: 7}
    subscription = watcher.subscribe([A, B], 0)
    eventually(lambda: "holds back 7 offsets" in subscription.troubles.get(A, ""))
    assert subscription.troubles.keys() == {A}
    cluster.held = None
    cluster.now = {A: 10, B: 3}
    eventually(lambda: subscription.troubles == {})


def test_a_wait_ends_at_its_time_though_nothing_is_new(cluster: FakeEnds, watcher: EndWatcher) -> None:
    cluster.now = {A: 3}
    subscription = watcher.subscribe([A], 0)
    assert subscription.wait({A: 3}, {}, time.monotonic() + 0.2) == {A: 3}


def test_nothing_is_asked_without_subscriptions(cluster: FakeEnds, watcher: EndWatcher) -> None:
    watcher.subscribe([A], 0).close()
    eventually(lambda: watcher._thread is None)
    cluster.now = {A: 1}
    assert Waiting(watcher.subscribe([A], 0), {A: 0}).result() == {A: 1}


def test_batches_start_once_in_each_interval_however_late_the_last_one_was() -> None:
    assert due(-1, 0, 1_000)
    assert not due(1_001, 1_999, 1_000)
    assert due(1_999, 2_000, 1_000)
    assert due(5, 6, 0)
    assert not due(5, 5, 0)
