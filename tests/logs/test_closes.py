"""A consumer whose close never returns stops no reader."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException

from cooperator.logs.callbacks import CallbackThreads
from cooperator.logs.kafka.reader import Reader
from cooperator.supervision import ThreadSupervisor, threads, trouble
from tests.harness.support import eventually


class Cluster:
    """Stands for a connection. Each consumer fails in its first poll, and its close hangs until the end."""

    def __init__(self) -> None:
        self.bootstrap_servers = "cluster"
        self.access: Any = self
        self.callbacks = CallbackThreads("callbacks of a test")
        self.let_go = threading.Event()
        self.closing: list[object] = []
        self.made = 0

    def consumer(self, group_id: str, on_error: object) -> Any:
        self.made += 1
        consumer = SimpleNamespace(poll=self._poll)
        consumer.close = lambda: self._close(consumer)
        return consumer

    def _poll(self, timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._FAIL))

    def _close(self, consumer: object) -> None:
        self.closing.append(consumer)
        self.let_go.wait(120)

    def admin(self) -> MagicMock:
        return MagicMock()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> ThreadSupervisor:
    made = ThreadSupervisor(close_s=0.3)
    monkeypatch.setattr(threads, "of_process", made)
    return made


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.let_go.set()
    made.callbacks.close()


def test_the_reader_goes_on_and_the_process_learns_of_the_second_close_that_hangs(
    supervisor: ThreadSupervisor, cluster: Cluster
) -> None:
    told = MagicMock()
    supervisor.on_exhausted = told
    shared: Any = cluster
    reader = Reader(shared, "lake")
    eventually(lambda: cluster.made >= 3, what="the reader takes a third consumer")
    assert len(cluster.closing) >= 2, "those before are still being closed"
    eventually(lambda: told.call_count)
    assert trouble() == (
        "the consumer of the reader of cluster is the second client within 10 minutes that does not close: "
        "this process hands over and ends, to be started again"
    )
    reader.close()
    assert not [each for each in supervisor.heartbeats if each.thread == "reader of cluster"]
