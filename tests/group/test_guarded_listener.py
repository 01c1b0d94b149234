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
def guarded(listener: Mock, clock: Clock) -> GuardedListener:
    return GuardedListener(listener, clock)


def test_a_repeated_failure_is_reported_once_in_a_while(
    guarded: GuardedListener, listener: Mock, clock: Clock
) -> None:
    for _ in range(5):
        guarded.trouble("no broker")
    guarded.trouble("no coordinator")
    assert [call.args[0] for call in listener.trouble.call_args_list] == ["no broker", "no coordinator"]
    clock.now_s += REPEAT_S
    guarded.trouble("no broker")
    assert listener.trouble.call_count == 3


CALLS: list[tuple[str, Callable[[GuardedListener], None]]] = [
    ("joined", lambda guarded: guarded.joined(Joined(1, "a", "sessioned", b""))),
    ("dropped", lambda guarded: guarded.dropped("evicted")),
    ("fenced", lambda guarded: guarded.fenced()),
    ("contact", lambda guarded: guarded.contact(1.0)),
    ("coordinator_lost", lambda guarded: guarded.coordinator_lost()),
    ("refused", lambda guarded: guarded.refused("theirs")),
    ("lead_taken", lambda guarded: guarded.lead_taken(())),
    ("lead_lost", lambda guarded: guarded.lead_lost()),
    ("round_void", lambda guarded: guarded.round_void(1)),
]


@pytest.mark.parametrize(("name", "invoke"), CALLS)
def test_a_failure_of_the_listener_is_reported_and_has_no_other_effect(
    guarded: GuardedListener, listener: Mock, name: str, invoke: Callable[[GuardedListener], None]
) -> None:
    getattr(listener, name).side_effect = RuntimeError("a bug")
    invoke(guarded)
    (message,) = [call.args[0] for call in listener.trouble.call_args_list]
    assert name in message
    assert "a bug" in message


def test_a_listener_that_fails_on_a_report_of_a_failure_gets_no_further_report(
    guarded: GuardedListener, listener: Mock
) -> None:
    listener.trouble.side_effect = RuntimeError("a bug")
    guarded.trouble("no broker")
    assert listener.trouble.call_count == 1


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("protocols", lambda guarded: guarded.protocols()),
        ("plan", lambda guarded: guarded.plan(Round(1, "sessioned", "a", ()))),
        ("may_take_lead", lambda guarded: guarded.refusal(())),
    ],
)
def test_a_failure_of_the_listener_counts_as_a_negative_answer(
    guarded: GuardedListener, listener: Mock, name: str, ask: Callable[[GuardedListener], Any]
) -> None:
    getattr(listener, name).side_effect = RuntimeError("a bug")
    with pytest.raises(ListenerFailed, match=name):
        ask(guarded)


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
    guarded: GuardedListener, listener: Mock, verdict: Any, refusal: str | None
) -> None:
    listener.may_take_lead.return_value = verdict
    assert guarded.refusal(()) == refusal


def test_a_plan_is_the_listeners_own_future(guarded: GuardedListener, listener: Mock) -> None:
    plan: Future[dict[str, bytes]] = Future()
    listener.plan.return_value = plan
    assert guarded.plan(Round(1, "sessioned", "a", ())) is plan


def test_a_slow_listener_is_warned_of(
    guarded: GuardedListener, listener: Mock, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def dawdle(generation: int) -> None:
        clock.now_s += 2 * SLOW_MS / 1000

    listener.round_void.side_effect = dawdle
    with caplog.at_level(logging.WARNING):
        guarded.lead_lost()
        assert not caplog.records
        guarded.round_void(1)
    assert "round_void took 100 ms" in caplog.text
