"""Calls in lanes: in order in each, and none waits long for another lane's."""

import threading
from collections.abc import Iterator

import pytest

from cooperator.logs.deliveries import Deliveries
from support import eventually


@pytest.fixture
def deliveries() -> Iterator[Deliveries]:
    deliveries = Deliveries("news")
    yield deliveries
    deliveries.close()
    eventually(lambda: "news" not in {thread.name for thread in threading.enumerate()}, 10)


def test_calls_of_a_lane_are_made_in_order_whatever_they_raise(deliveries: Deliveries) -> None:
    made: list[int] = []
    lane, done = deliveries.lane(), threading.Event()

    for number in range(100):
        lane.put(lambda number=number: made.append(number))  # type: ignore[misc]
        lane.put(lambda: 1 // 0)
    lane.put(done.set)

    assert done.wait(10)
    assert made == list(range(100))
    eventually(lambda: lane.idle, 10)


def test_a_call_that_hangs_holds_up_its_own_lane_only(deliveries: Deliveries) -> None:
    go_on, started, others = threading.Event(), threading.Event(), threading.Event()
    made: list[str] = []

    def hang() -> None:
        started.set()
        go_on.wait(60)
        made.append("slow")

    slow, quick = deliveries.lane(), deliveries.lane()
    slow.put(hang)
    slow.put(lambda: made.append("after it"))
    assert started.wait(10)
    quick.put(others.set)

    eventually(lambda: deliveries.watch() or others.is_set(), 10)  # type: ignore[func-returns-value]

    assert made == []
    go_on.set()
    eventually(lambda: made == ["slow", "after it"], 10)
    eventually(lambda: [t.name for t in threading.enumerate()].count("news") == 1, 10, "one has ended")


def test_a_lane_that_is_closed_makes_no_call_any_more(deliveries: Deliveries) -> None:
    go_on, started, made = threading.Event(), threading.Event(), list[str]()

    def wait() -> None:
        started.set()
        go_on.wait(60)
        made.append("first")

    lane = deliveries.lane()
    lane.put(wait)
    lane.put(lambda: made.append("second"))
    assert started.wait(10)
    closer = threading.Thread(target=lane.close)
    closer.start()
    eventually(lambda: lane.closed, 10)
    assert closer.is_alive(), "a call is under way"
    go_on.set()
    closer.join(10)

    assert made == ["first"]
    lane.put(lambda: made.append("third"))
    assert lane.idle


def test_a_call_may_close_its_own_lane(deliveries: Deliveries) -> None:
    lane, done = deliveries.lane(), threading.Event()

    def end() -> None:
        lane.close()
        done.set()

    lane.put(end)

    assert done.wait(10)


def test_what_waits_has_a_weight(deliveries: Deliveries) -> None:
    go_on, started = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        go_on.wait(60)

    lane = deliveries.lane()
    lane.put(wait, 7)
    assert started.wait(10)
    lane.put(lambda: None, 5)

    assert lane.has_room(5, 0)
    assert not lane.has_room(4, 0)
    go_on.set()
    assert lane.has_room(0, 10)
