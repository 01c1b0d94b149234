"""A follower turns the batches of its topic reader into states."""

import threading
import time

import pytest

from cooperator.logs import ConfigLog, LogTimeout
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Batch, Follower, TopicReader, TopicWriter, Transactor
from cooperator.model import ClusterConfig
from cooperator.wire import ConnectorRecord, RestartRecord, encode_config


class ManualTransport:
    """A transport whose topic reader is the test."""

    def topic_reader(self, topic: str, follower: Follower) -> TopicReader:
        self.follower = follower
        return self

    def read_to_end(self, timeout_ms: int) -> None: ...
    def read_to(self, offset: int, timeout_ms: int) -> None: ...
    def close(self) -> None: ...

    def ensure_topic(self, topic: str, partitions: int | None, factor: int, timeout_ms: int) -> None: ...

    def topic_writer(self, topic: str) -> TopicWriter:
        raise NotImplementedError

    def transactor(self, transactional_id: str, timeout_ms: int) -> Transactor:
        raise NotImplementedError


def batch(*entries: tuple[int, str]) -> Batch:
    return [(offset, encode_config(ConnectorRecord(name, {}))) for offset, name in entries]


def test_a_history_in_several_batches_is_shown_when_it_is_complete() -> None:
    hand, seen = ManualTransport(), list[ClusterConfig]()
    log = ConfigLog(hand, "configs")
    log.on_change(seen.append)

    hand.follower.take(batch((0, "a")))
    hand.follower.take(batch((1, "b")))
    assert (log.snapshot().offset, seen) == (-1, [])
    hand.follower.caught_up()
    hand.follower.caught_up()
    hand.follower.take(batch((2, "c")))

    assert [sorted(config.connectors) for config in seen] == [["a", "b"], ["a", "b", "c"]]
    assert log.snapshot() is seen[-1]


def test_a_recreated_log_replaces_the_old_one_at_once() -> None:
    hand, seen = ManualTransport(), list[ClusterConfig]()
    log = ConfigLog(hand, "configs")
    hand.follower.take(batch((0, "a"), (1, "b")))
    hand.follower.caught_up()
    log.on_change(seen.append)

    hand.follower.start_over()
    hand.follower.take(batch((0, "b")))
    assert sorted(log.snapshot().connectors) == ["a", "b"]
    assert seen == []
    hand.follower.take(batch((1, "c")))
    hand.follower.caught_up()

    assert [sorted(config.connectors) for config in seen] == [["b", "c"]]


def test_restarts_in_the_history_are_not_repeated() -> None:
    hand, seen = ManualTransport(), list[RestartRecord]()
    log = ConfigLog(hand, "configs")
    log.on_restart(seen.append)
    old, new = RestartRecord("old"), RestartRecord("new")

    hand.follower.take([(0, encode_config(old))])
    hand.follower.caught_up()
    hand.follower.take([(1, encode_config(new))])

    assert seen == [new]


def test_no_offset_counts_as_read_before_the_history_is_read() -> None:
    progress = Progress("configs")
    progress.reached(0, 5)

    with pytest.raises(LogTimeout, match=r"topic configs: only read up to \{0: 5\} in time, not to \{0: 3\}"):
        progress.wait({0: 3}, time.monotonic())
    progress.caught_up()
    progress.wait({0: 3}, time.monotonic())
    progress.start_over()
    with pytest.raises(LogTimeout):
        progress.wait({0: 0}, time.monotonic())


def test_a_waiter_is_woken_by_the_reader() -> None:
    progress = Progress("configs")
    progress.caught_up()
    waiter = threading.Thread(target=progress.wait, args=({0: 2, 1: 7}, time.monotonic() + 20))
    waiter.start()

    progress.reached(0, 2)
    progress.reached(1, 6)
    assert waiter.is_alive()
    progress.reached(1, 7)

    waiter.join(10)
    assert not waiter.is_alive()
    assert progress.position(1) == 7
