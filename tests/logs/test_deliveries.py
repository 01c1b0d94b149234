"""Calls in serial executors: each executor keeps their order and does not wait for the others."""

import threading
from collections.abc import Iterator

import pytest

from cooperator.logs.callbacks import CallbackThreads
from tests.harness.support import eventually


@pytest.fixture
def deliveries() -> Iterator[CallbackThreads]:
    deliveries = CallbackThreads("news")
    yield deliveries
    deliveries.close()
    eventually(lambda: "news" not in {thread.name for thread in threading.enumerate()}, 10)


def test_calls_of_an_executor_run_in_order_whatever_they_raise(deliveries: CallbackThreads) -> None:
    made: list[int] = []
    executor, done = deliveries.executor(), threading.Event()

    for number in range(100):
        executor.put(lambda number=number: made.append(number))  # type: ignore[misc]
        executor.put(lambda: 1 // 0)
    executor.put(done.set)

    assert done.wait(10)
    assert made == list(range(100))
    eventually(lambda: executor.idle, 10)


def test_a_call_that_hangs_delays_its_own_executor_only(deliveries: CallbackThreads) -> None:
    go_on, started, others = threading.Event(), threading.Event(), threading.Event()
    made: list[str] = []

    def hang() -> None:
        started.set()
        go_on.wait(60)
        made.append("slow")

    slow, quick = deliveries.executor(), deliveries.executor()
    slow.put(hang)
    slow.put(lambda: made.append("after it"))
    assert started.wait(10)
    quick.put(others.set)

    eventually(lambda: deliveries.watch() or others.is_set(), 10)  # type: ignore[func-returns-value]

    assert made == []
    go_on.set()
    eventually(lambda: made == ["slow", "after it"], 10)
    eventually(lambda: [t.name for t in threading.enumerate()].count("news") == 1, 10, "one has ended")


def test_a_closed_executor_makes_no_further_calls(deliveries: CallbackThreads) -> None:
    go_on, started, made = threading.Event(), threading.Event(), list[str]()

    def wait() -> None:
        started.set()
        go_on.wait(60)
        made.append("first")

    executor = deliveries.executor()
    executor.put(wait)
    executor.put(lambda: made.append("second"))
    assert started.wait(10)
    closer = threading.Thread(target=executor.close)
    closer.start()
    eventually(lambda: executor.closed, 10)
    assert closer.is_alive(), "a call is running"
    go_on.set()
    closer.join(10)

    assert made == ["first"]
    executor.put(lambda: made.append("third"))
    assert executor.idle


def test_a_call_may_close_its_own_executor(deliveries: CallbackThreads) -> None:
    executor, done = deliveries.executor(), threading.Event()

    def end() -> None:
        executor.close()
        done.set()

    executor.put(end)

    assert done.wait(10)


def test_waiting_calls_have_a_weight(deliveries: CallbackThreads) -> None:
    go_on, started = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        go_on.wait(60)

    executor = deliveries.executor()
    executor.put(wait, 7)
    assert started.wait(10)
    executor.put(lambda: None, 5)

    assert executor.has_room(5, 0)
    assert not executor.has_room(4, 0)
    go_on.set()
    assert executor.has_room(0, 10)
