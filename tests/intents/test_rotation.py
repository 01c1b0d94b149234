"""Files are as large as asked for, and no record waits longer than asked for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.intents.rotation import RotatedEnds, Rotation, Rotator
from cooperator.connectors.microbatch.ends import Subscription
from cooperator.connectors.microbatch.ranges import Partition

A, B = Partition("a", 0), Partition("a", 1)
MINUTE_MS = 60_000


@given(
    flush=st.none() | st.integers(1, 9),
    interval_ms=st.integers(0, 50),
    grows=st.lists(st.integers(0, 12), max_size=40),
    at=st.integers(0, 1_000),
)
def test_files_are_full_unless_the_interval_is_over_and_no_record_waits_longer(
    flush: int | None, interval_ms: int, grows: list[int], at: int
) -> None:
    rotator = Rotator(Rotation(flush, interval_ms))
    end, oldest_ms = at, None
    for now_ms, grown in zip(range(0, 10 * len(grows), 10), grows, strict=True):
        end += grown
        if grown and oldest_ms is None:
            oldest_ms = now_ms
        due = rotator.due({A: at}, {A: end}, now_ms)
        is_over = oldest_ms is not None and now_ms - oldest_ms >= interval_ms
        if A in due:
            assert at < due[A] <= end
            assert is_over or (flush is not None and (due[A] - at) % flush == 0)
            at = due[A]
            oldest_ms = None if at == end else now_ms
        else:
            assert not is_over
            assert flush is None or end - at < flush


def test_a_loss_is_told_at_once() -> None:
    rotator = Rotator(Rotation(100, MINUTE_MS))
    assert rotator.due({A: 50, B: 50}, {A: 40, B: 60}, 0) == {A: 40}


def test_bytes_of_a_file_are_limited_by_what_earlier_records_took() -> None:
    rotator = Rotator(Rotation(1_000, MINUTE_MS, max_bytes=5_000))
    assert rotator.records(A) == 1_000
    rotator.wrote(A, 100, 10_000)
    assert rotator.records(A) == 50
    assert rotator.due({A: 0}, {A: 130}, 0) == {A: 50}
    assert rotator.due({A: 50}, {A: 130}, 1) == {A: 100}
    assert rotator.due({A: 100}, {A: 130}, 2) == {}
    rotator.wrote(A, 10, 10**9)
    assert rotator.records(A) == 1
    assert rotator.records(B) == 1_000


def test_records_that_a_batch_has_left_have_waited_since_it_was_due() -> None:
    """A task's batch may be full before it reaches the end of a unit."""
    rotator = Rotator(Rotation(100, MINUTE_MS))
    assert rotator.due({A: 0}, {A: 40}, 0) == {}
    assert rotator.due({A: 0}, {A: 40}, MINUTE_MS) == {A: 40}
    assert rotator.due({A: 30}, {A: 50}, 2 * MINUTE_MS) == {A: 50}
    assert rotator.due({A: 50}, {A: 60}, 2 * MINUTE_MS + 1) == {}


@pytest.mark.parametrize(
    "values", [{"flush_size": 0}, {"interval_ms": -1}, {"max_bytes": 0}], ids=["size", "interval", "bytes"]
)
def test_limits_that_make_no_file_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"(flush\.size|rotate\.interval\.ms|max\.file\.bytes) = -?\d; use"):
        Rotation(**values)


def test_a_loop_sees_news_of_a_unit_when_its_file_is_due() -> None:
    class Ends(Subscription):
        def __init__(self) -> None:
            self.partitions, self.interval_ms = frozenset([A, B]), 100
            self.looks = [{A: 3, B: 1}, {A: 12, B: 1}, {A: 12, B: 1}]

        def wait(
            self, positions: object, ids: object = None, until_s: float = math.inf
        ) -> dict[Partition, int]:
            return self.looks.pop(0) if self.looks else {}

    seconds = iter([0.0, 1.0, 60.0])
    ends = RotatedEnds(Ends(), Rotator(Rotation(5, MINUTE_MS)), lambda: next(seconds))
    assert ends.wait({A: 0, B: 0}) == {A: 10}
    assert ends.wait({A: 10, B: 0}) == {B: 1}
    assert ends.wait({A: 10, B: 1}) == {}, "it was closed"
