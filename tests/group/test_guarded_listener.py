"""A listener gets no repetitions; its failures are logged and do not propagate."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock

import pytest

from cooperator.group import Joined, Listener, Round
from cooperator.group.guarded_listener import REPEAT_S, SLOW_MS, GuardedListener, ListenerFailed


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def listener() -> Mock:
    listener = Mock(spec=Listener)
    for name in dir(Listener):
        if not name.startswith("_"):
            getattr(listener, name).__name__ = name
    return listener


@pytest.fixture
def told(listener: Mock, clock: Clock) -> GuardedListener:
    return GuardedListener(listener, clock)


def test_a_repeated_failure_is_reported_once_in_a_while(
    told: GuardedListener, listener: Mock, clock: Clock
) -> None:
    for _ in range(5):
        told.trouble("no broker")
    told.trouble("no coordinator")
    assert [call.args[0] for call in listener.trouble.call_args_list] == ["no broker", "no coordinator"]
    clock.now_s += REPEAT_S
    told.trouble("no broker")
    assert listener.trouble.call_count == 3


TELLINGS: list[tuple[str, Callable[[GuardedListener], None]]] = [
    ("joined", lambda told: told.joined(Joined(1, "a", "sessioned", b""))),
    ("dropped", lambda told: told.dropped("evicted")),
    ("fenced", lambda told: told.fenced()),
    ("contact", lambda told: told.contact(1.0)),
    ("coordinator_lost", lambda told: told.coordinator_lost()),
    ("refused", lambda told: told.refused("theirs")),
    ("lead_taken", lambda told: told.lead_taken(())),
    ("lead_lost", lambda told: told.lead_lost()),
    ("round_void", lambda told: told.round_void(1)),
]


@pytest.mark.parametrize(("name", "tell"), TELLINGS)
def test_a_failure_of_the_listener_is_reported_and_has_no_other_effect(
    told: GuardedListener, listener: Mock, name: str, tell: Callable[[GuardedListener], None]
) -> None:
    getattr(listener, name).side_effect = RuntimeError("a bug")
    tell(told)
    (message,) = [call.args[0] for call in listener.trouble.call_args_list]
    assert name in message
    assert "a bug" in message


def test_a_listener_that_fails_on_a_report_of_a_failure_gets_no_further_report(
    told: GuardedListener, listener: Mock
) -> None:
    listener.trouble.side_effect = RuntimeError("a bug")
    told.trouble("no broker")
    assert listener.trouble.call_count == 1


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("protocols", lambda told: told.protocols()),
        ("plan", lambda told: told.plan(Round(1, "sessioned", "a", ()))),
        ("may_take_lead", lambda told: told.refusal(())),
    ],
)
def test_a_failure_of_the_listener_counts_as_a_negative_answer(
    told: GuardedListener, listener: Mock, name: str, ask: Callable[[GuardedListener], Any]
) -> None:
    getattr(listener, name).side_effect = RuntimeError("a bug")
    with pytest.raises(ListenerFailed, match=name):
        ask(told)


@pytest.mark.parametrize(
    ("verdict", "refusal"),
    [
        (True, None),
        ("theirs", "theirs"),
        (False, "the lead may not be taken"),
        ("", "the lead may not be taken"),
    ],
)
def test_a_verdict_is_yes_or_a_reason(
    told: GuardedListener, listener: Mock, verdict: Any, refusal: str | None
) -> None:
    listener.may_take_lead.return_value = verdict
    assert told.refusal(()) == refusal


def test_a_plan_is_the_listeners_own_future(told: GuardedListener, listener: Mock) -> None:
    plan: Future[dict[str, bytes]] = Future()
    listener.plan.return_value = plan
    assert told.plan(Round(1, "sessioned", "a", ())) is plan


def test_a_slow_listener_is_warned_of(
    told: GuardedListener, listener: Mock, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def dawdle(generation: int) -> None:
        clock.now_s += 2 * SLOW_MS / 1000

    listener.round_void.side_effect = dawdle
    with caplog.at_level(logging.WARNING):
        told.lead_lost()
        assert not caplog.records
        told.round_void(1)
    assert "round_void took 100 ms" in caplog.text
