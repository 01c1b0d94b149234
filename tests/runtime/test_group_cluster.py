"""The id of the group's cluster is asked for once, and a failure is remembered for a short time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cooperator.connectors import topics
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import FAILURE_S, GroupCluster, KafkaUnavailable


class Brokers:
    """Stands in for the client; counts the requests. ``before`` runs before each answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.are_away = True
        self.before: Callable[[], object] = lambda: None

    def __call__(self, settings: dict[str, Any]) -> "Brokers":
        return self

    def poll(self, timeout: float) -> int:
        return 0

    def describe_cluster(self, request_timeout: float) -> "Future[Any]":
        self.requests += 1
        self.before()
        answer: Future[Any] = Future()
        if self.are_away:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        else:
            answer.set_result(SimpleNamespace(cluster_id="c1"))
        return answer


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(topics, "AdminClient", brokers)
    return brokers


def test_brokers_that_do_not_answer_are_asked_again_only_after_a_while(brokers: Brokers) -> None:
    times = SimpleNamespace(now=100.0)
    cluster = GroupCluster(Resolver({}, bootstrap_servers="b:1"), lambda: times.now)
    with pytest.raises(KafkaUnavailable, match=r"Kafka at b:1: .*[Tt]imed out") as first:
        cluster.id()
    with pytest.raises(KafkaUnavailable) as second:
        cluster.id()
    assert str(second.value) == str(first.value)
    times.now += FAILURE_S - 0.1
    assert cluster.id_if_known() == ""
    assert brokers.requests == 1

    brokers.are_away = False
    times.now += 0.1
    assert cluster.id() == cluster.id_if_known() == "c1"
    assert brokers.requests == 2


def test_tasks_that_start_together_wait_for_one_request(brokers: Brokers) -> None:
    cluster = GroupCluster(Resolver({}, bootstrap_servers="b:1"))
    begun, go_on = threading.Semaphore(0), threading.Event()
    brokers.before = lambda: go_on.wait(60)

    def start() -> str:
        begun.release()
        return cluster.id_if_known()

    with ThreadPoolExecutor(8) as tasks:
        starts = [tasks.submit(start) for _ in range(8)]
        assert all(begun.acquire(timeout=60) for _ in starts)
        go_on.set()
        assert [each.result(60) for each in starts] == [""] * 8
    assert brokers.requests == 1


def test_without_brokers_the_id_is_empty(brokers: Brokers) -> None:
    assert GroupCluster(Resolver({})).id() == ""
    assert brokers.requests == 0
