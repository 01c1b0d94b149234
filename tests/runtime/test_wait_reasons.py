"""Which of the things that parts of a task wait for are worth a word, and since when."""

import pytest

from cooperator.runtime.progress import OVER_AFTER_S, SHOWN_AFTER_S, WaitReasons


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reasons(clock: Clock) -> WaitReasons:
    return WaitReasons(clock)


def texts(reasons: WaitReasons) -> list[str]:
    return [wait.text for wait in reasons.shown()]


def test_a_wait_is_shown_once_it_is_no_passing_moment_and_until_it_is_over(
    reasons: WaitReasons, clock: Clock
) -> None:
    say = reasons.of("a-0")
    say("waiting for Kafka")
    clock.advance(SHOWN_AFTER_S - 1)
    assert texts(reasons) == []
    clock.advance(1)
    [wait] = reasons.shown()
    assert (wait.text, wait.parts) == ("waiting for Kafka", ("a-0",))
    say("")
    clock.advance(OVER_AFTER_S)
    assert texts(reasons) == []


def test_a_pause_is_none_however_long_ago_it_began(reasons: WaitReasons, clock: Clock) -> None:
    say = reasons.of()
    say("recovering")
    clock.advance(SHOWN_AFTER_S - 1)
    say("")
    clock.advance(2)
    assert texts(reasons) == []


def test_a_wait_that_seems_to_end_at_each_attempt_goes_on(reasons: WaitReasons, clock: Clock) -> None:
    """A server that takes connections and refuses each transaction."""
    say = reasons.of()
    for attempt in range(10):
        say(f"waiting for PostgreSQL: attempt {attempt}")
        clock.advance(1)
        say("")
        clock.advance(OVER_AFTER_S - 1)
    assert texts(reasons) == ["waiting for PostgreSQL: attempt 9"]
    say("waiting for PostgreSQL: the next one")
    assert texts(reasons) == ["waiting for PostgreSQL: the next one"]


def test_its_beginning_stays_though_its_text_changes(reasons: WaitReasons, clock: Clock) -> None:
    say = reasons.of()
    say("no answer yet")
    clock.advance(SHOWN_AFTER_S)
    [first] = reasons.shown()
    say("connection refused")
    [second] = reasons.shown()
    assert (second.text, second.since_ms) == ("connection refused", first.since_ms)


def test_a_part_may_wait_for_two_things_at_a_time(reasons: WaitReasons, clock: Clock) -> None:
    about_spark, other = reasons.of("a-0", "Spark"), reasons.of("a-0")
    about_spark("waiting for Spark to start")
    other("waiting for the directory /in")
    clock.advance(SHOWN_AFTER_S)
    about_spark("")
    clock.advance(OVER_AFTER_S)
    assert texts(reasons) == ["waiting for the directory /in"]
