"""The calls to the leader's endpoint: the bytes on the wire, and the event that each answer becomes."""

import asyncio
import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.calls import LeaderCalls
from cooperator.leader.endpoint import Endpoint
from cooperator.model import Epoch, SessionKey, TaskId
from cooperator.reconciliation import Answer, MemberState, Rejection, Report
from cooperator.reconciliation.messages import decode_report, encode_answer
from cooperator.wire import verify

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
CONFIGS = ({"unit": "0"}, {"unit": "ü"})


class Leader:
    """An endpoint that records its requests and answers with ``status``."""

    def __init__(self) -> None:
        self.status = 204
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.endpoint = Endpoint(
            "127.0.0.1",
            0,
            {
                "POST /connectors/{name}/tasks": self.take,
                "POST /lease": self.take,
                "POST /report": self.hold,
            },
        )
        self.held: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.answer: Answer | Rejection | None = None
        self.endpoint.start()

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.heard.append((request.path, dict(request.headers), await request.read()))
        return web.Response(status=self.status, text="no key yet" if self.status >= 400 else None)

    async def hold(self, request: web.Request) -> web.StreamResponse:
        """Answers a report once the test has an answer."""
        body = await request.read()
        verify(KEY, dict(request.headers), body)
        self.held.put(decode_report(body))
        while (answer := self.answer) is None:
            await asyncio.sleep(0.01)
        if self.status >= 400:
            return web.Response(status=self.status)
        return web.Response(body=encode_answer(answer))


class Caller:
    def __init__(self) -> None:
        self.key: SessionKey | None = KEY
        self.now_ms = 7_000
        self.events: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self.calls = LeaderCalls(self.events.put, lambda: self.key, lambda: self.now_ms)
        self.calls.start()

    def answer(self) -> ev.Event:
        return self.events.get(timeout=10)


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    leader.endpoint.stop()


@pytest.fixture
def caller() -> Iterator[Caller]:
    caller = Caller()
    yield caller
    caller.calls.close()


def test_task_configurations_are_posted_signed(leader: Leader, caller: Caller) -> None:
    caller.calls.post(do.PostTaskConfigs("files/to kafka", 3, CONFIGS, leader.endpoint.url))
    assert caller.answer() == ev.PostAnswered("files/to kafka", 3)
    [(path, headers, body)] = leader.heard
    assert path == "/connectors/files/to kafka/tasks"
    assert json.loads(body) == [dict(config) for config in CONFIGS]
    verify(KEY, headers, body)


def test_without_a_key_they_are_posted_unsigned_and_the_refusal_is_reported(
    leader: Leader, caller: Caller
) -> None:
    caller.key = None
    leader.status = 503
    caller.calls.post(do.PostTaskConfigs("a", 1, CONFIGS, leader.endpoint.url))
    assert caller.answer() == ev.PostAnswered("a", 1, "503 no key yet")
    assert not [name for name in leader.heard[0][1] if name.lower().startswith("x-connect")]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "no url at all", ""])
def test_an_unreachable_leader_is_reported(caller: Caller, url: str) -> None:
    caller.calls.post(do.PostTaskConfigs("a", 1, CONFIGS, url))
    answer: Any = caller.answer()
    assert (answer.connector, answer.number) == ("a", 1)
    assert answer.error


def test_a_confirmation_counts_from_the_time_of_the_request(leader: Leader, caller: Caller) -> None:
    leader.status = 200
    caller.calls.ask(do.AskLeader(leader.endpoint.url, "member-1", Epoch(2, 5)))
    assert caller.answer() == ev.LeaderConfirmed(7_000, Epoch(2, 5))
    [(path, headers, body)] = leader.heard
    assert path == "/lease"
    verify(KEY, headers, body)
    assert json.loads(body) == {"member_id": "member-1", "term": 2, "generation": 5}


def test_a_refused_confirmation_is_no_confirmation(leader: Leader, caller: Caller) -> None:
    leader.status = 409
    caller.calls.ask(do.AskLeader(leader.endpoint.url, "member-1", Epoch(2, 5)))
    caller.calls.ask(do.AskLeader("http://127.0.0.1:1/", "member-1", Epoch(2, 5)))
    caller.calls.post(do.PostTaskConfigs("a", 1, CONFIGS, "http://127.0.0.1:1/"))
    assert isinstance(caller.answer(), ev.PostAnswered), "nothing else is reported"


def report(sequence: int) -> Report:
    return Report("lake-0", "life-1", 3, sequence, 0, frozenset({TaskId("a", 1)}))


def sending(leader: Leader, sequence: int) -> do.SendReport:
    return do.SendReport(leader.endpoint.url, report(sequence), 10_000)


def test_a_report_waits_for_its_answer(leader: Leader, caller: Caller) -> None:
    caller.calls.report(sending(leader, 1))
    assert leader.held.get(timeout=10) == report(1)
    assert caller.events.empty()
    answer = Answer(1, 4, MemberState.STABLE, {TaskId("a", 1): 4}, 5, 17)
    leader.answer = answer
    assert caller.answer() == ev.ReportAnswered(1, answer)


def test_the_next_report_gives_up_the_one_that_waits(leader: Leader, caller: Caller) -> None:
    caller.calls.report(sending(leader, 1))
    leader.held.get(timeout=10)
    caller.calls.report(sending(leader, 2))
    assert leader.held.get(timeout=10) == report(2)
    leader.answer = Rejection.FENCED_MEMBER_EPOCH
    assert caller.answer() == ev.ReportAnswered(2, Rejection.FENCED_MEMBER_EPOCH)
    assert caller.events.empty()


def test_a_leader_that_refuses_or_is_gone_has_no_answer(leader: Leader, caller: Caller) -> None:
    leader.status, leader.answer = 409, Rejection.UNKNOWN_MEMBER_ID
    caller.calls.report(sending(leader, 1))
    assert caller.answer() == ev.ReportAnswered(1, None)
    caller.calls.report(do.SendReport("http://127.0.0.1:1/", report(2), 10_000))
    assert caller.answer() == ev.ReportAnswered(2, None)
