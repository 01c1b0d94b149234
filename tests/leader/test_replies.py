"""Requests whose clients have given up when the leader answers them fail nothing."""

from concurrent.futures import Future
from typing import Any

import pytest

from cooperator.leader import events as ev
from cooperator.leader.actuator import Actuator
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.state import LeaderSettings
from cooperator.logs import Logs, LogsConfig, MemoryBroker, MemoryTransport
from tests.harness.support import eventually


@pytest.fixture
def actuator() -> Actuator:
    unused: Any = None
    return Actuator(LeaderSettings("http://leader/"), unused, unused, unused, unused, unused, lambda: 0)


def given_up() -> Any:
    future: Future[Any] = Future()
    assert future.cancel()
    return future


def test_a_reply_that_nobody_waits_for_is_dropped(actuator: Actuator) -> None:
    actuator.carry_out(ev.Reply(actuator.expect_reply(given_up()), 204))
    actuator.fail_reply(actuator.expect_reply(given_up()), ValueError())
    actuator.carry_out(ev.AnswerReport(actuator.expect_report_reply(given_up()), None))


def test_a_reply_reaches_the_one_who_waits(actuator: Actuator) -> None:
    waits: Future[int] = Future()
    actuator.carry_out(ev.Reply(actuator.expect_reply(waits), 204))
    assert waits.result(0) == 204


def test_a_question_that_was_given_up_is_not_asked() -> None:
    unused: Any = None
    logs = Logs(MemoryTransport(MemoryBroker()), LogsConfig("memory", "lake"))
    lead = LeaderThread(LeaderMachine(LeaderSettings("http://leader/")), unused, logs)
    asked: list[str] = []
    assert lead.ask(lambda _: asked.append("early")).cancel()
    later = lead.ask(lambda _: asked.append("later"))
    lead.start()
    try:
        eventually(later.done)
    finally:
        lead.stop()
    assert asked == ["later"]
