"""Callers that are not members can hardly make a leader read, keep or believe anything."""

import gc
import http.client
import json
import socket
import time
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cooperator.leader.endpoint import MAX_BODY_BYTES, POSTS_TO_LEADERS, Endpoint
from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.routes import LeaderRoutes
from cooperator.leader.standing import Standing
from cooperator.leader.stock_routes import StockRoutes
from cooperator.model import ClusterConfig, Epoch, SessionKey
from cooperator.wire import Protocol, sign
from cooperator.wire.signature import SIGNATURE_HEADER

MEMBER = "lake-0-5f0c"
KEY = SessionKey(b"0123456789abcdef", "HmacSHA256", 2)
FORMER = SessionKey(b"fedcba9876543210", "HmacSHA256", 1)


class Leader:
    """A leader over HTTP that has lost its broker: leases depend on what its members have asked."""

    def __init__(self) -> None:
        config = ClusterConfig(1, {}, KEY, former_key=FORMER)
        standing = Standing(
            Epoch(1, 4), {MEMBER: "lake-0"}, margin_ms=5_000, protocol=Protocol.SESSIONED.value
        )
        lead: Any = SimpleNamespace(standing=standing, machine=SimpleNamespace(state=None))
        logs: Any = SimpleNamespace(config=SimpleNamespace(snapshot=lambda: config))
        times: Any = SimpleNamespace(session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
        self.leads = True
        self.current: Any = lambda: (lead, logs) if self.leads else None
        self.routes = LeaderRoutes(
            self.current,
            lambda: 60_000,
            times,
            lambda: Candidates(frozenset({"lake-0"}), int(time.monotonic() * 1000)),
        )
        stock = StockRoutes(self.current, "g", lambda *_: None, lambda _: 202, dict)
        self.endpoint = Endpoint("127.0.0.1", 0, {**self.routes.all(), **stock.all()})
        self.endpoint.start()

    def post(self, path: str, body: bytes, key: SessionKey | None = KEY) -> int:
        headers = sign(key, body) if key is not None else {}
        request = urllib.request.Request(f"{self.endpoint.url}{path}", body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def lease(self, member_id: str, key: SessionKey | None = KEY) -> int:
        question = {"member_id": member_id, "term": 1, "generation": 4}
        return self.post("lease", json.dumps(question).encode(), key)


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    leader.endpoint.stop()


def test_long_bodies_are_refused(leader: Leader) -> None:
    assert leader.post("lease", b"x" * 5_000) == 413
    assert leader.post("story", b"x" * (MAX_BODY_BYTES + 1)) == 403


LINES = (
    *("POST /connectors/a/tasks", "POST /lease", "PUT /connectors/a/fence", "POST /connectors/a/restart"),
    *("POST /connectors/a/tasks/0/restart", "POST /connectors", "PUT /connectors/a/config"),
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("length", [2_000, 900_000, 10**12])
def test_unsigned_requests_are_refused_before_they_are_read(leader: Leader, line: str, length: int) -> None:
    with socket.create_connection((leader.endpoint.host, leader.endpoint.port), 10) as connection:
        connection.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 4")


def test_bodies_that_do_not_arrive_hold_up_no_member(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cooperator.leader.endpoint._BODY_S", 2.0)
    header = f"{SIGNATURE_HEADER}: made-up\r\nContent-Length: 30000000\r\n\r\n"
    strangers = [socket.create_connection((leader.endpoint.host, leader.endpoint.port), 10) for _ in range(8)]
    for stranger in strangers:
        stranger.sendall(f"POST /connectors/a/tasks HTTP/1.1\r\nHost: x\r\n{header}[".encode())

    assert leader.lease(MEMBER) == 200, "small requests do not wait for large ones"

    for stranger in strangers:
        assert stranger.recv(100).startswith(b"HTTP/1.1 408 ")
        stranger.close()


def test_a_leader_that_does_not_lead_reads_nothing(leader: Leader) -> None:
    leader.leads = False
    with socket.create_connection((leader.endpoint.host, leader.endpoint.port), 10) as connection:
        connection.sendall(b"POST /connectors/a/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 409 ")


def test_a_lease_is_confirmed_to_whoever_has_the_key_or_the_one_before(leader: Leader) -> None:
    assert leader.lease(MEMBER, FORMER) == 200, "a member that asks may be unable to read the present key"
    assert leader.lease(MEMBER, SessionKey(b"somebody else's", "HmacSHA256", 0)) == 403
    assert leader.lease(MEMBER, None) == 400


def test_invented_members_are_neither_kept_nor_believed(leader: Leader) -> None:
    assert {leader.lease(f"invented-{number}") for number in range(50)} == {409}
    assert leader.routes._asked == {}
    assert leader.lease(MEMBER) == 200, "a member of the round is confirmed"
    assert leader.routes._asked.keys() == {MEMBER}


def _kept_bytes() -> int:
    """The memory that requests can fill: other threads of the process, and pytest's records of logs, do not
    count."""
    ours = [tracemalloc.Filter(True, f"*{name}*") for name in ("/cooperator/", "/aiohttp/", "/json/")]
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces(ours).statistics("filename"))


def test_strangers_do_not_fill_the_leaders_memory(leader: Leader) -> None:
    """1,500 invented members, signed by nobody, by another key and by the group's, and long bodies."""
    where = http.client.HTTPConnection(leader.endpoint.host, leader.endpoint.port, 20)

    def post(path: str, body: bytes, headers: dict[str, str]) -> int:
        try:
            where.request("POST", f"/{path}", body, headers)
            answer = where.getresponse()
            answer.read()
        except (ConnectionError, http.client.HTTPException):
            where.close()  # It is answered before the body is read.
            return 0
        return answer.status

    def ask(number: int, key: SessionKey | None) -> int:
        question = {"member_id": f"invented-{number}" + "x" * 2_000, "term": 1, "generation": 4}
        body = json.dumps(question).encode()
        return post("lease", body, sign(key, body) if key is not None else {})

    other = SessionKey(b"somebody else's", "HmacSHA256", 0)
    keys = (None, other, KEY)
    long = b"x" * 900_000
    tracemalloc.start()
    try:
        # The process and its libraries keep some things once, from the first requests on.
        answers = {ask(number, keys[number % 3]) for number in range(600)}
        gc.collect()
        kept = _kept_bytes()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        answers |= {ask(number, keys[number % 3]) for number in range(1_500)}
        made_up = {SIGNATURE_HEADER: "bWFkZSB1cA==", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
        answers |= {post("connectors/a/tasks", long, made_up) for _ in range(20)}
        answers |= {post("story", long, made_up) for _ in range(20)}
        gc.collect()
        _, peak = tracemalloc.get_traced_memory()
        kept = _kept_bytes() - kept
    finally:
        tracemalloc.stop()
        where.close()
    assert 200 not in answers
    assert {400, 403, 409} <= answers
    assert leader.routes._asked == {}
    assert kept < 400_000, "nothing of theirs is kept"
    assert peak - before < 8_000_000, "one body at a time"


def test_a_member_that_leads_is_asked_by_the_same_routes_as_the_operator(leader: Leader) -> None:
    """Members pass these on to their lead (``agent.pages``)."""
    assert {route for route in leader.routes.all() if route.startswith("POST ")} == set(POSTS_TO_LEADERS)
