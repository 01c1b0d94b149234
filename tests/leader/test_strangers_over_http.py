"""What a caller that is no member can make a leader read, keep, or believe: next to nothing."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cooperator.leader.endpoint import MAX_BODY_BYTES, Endpoint
from cooperator.leader.routes import LeaderRoutes
from cooperator.model import ClusterConfig, Epoch, SessionKey
from cooperator.wire import Protocol

MEMBER = "lake-0-5f0c"


class Leader:
    """A leader over HTTP that has lost its broker: leases depend on what its members have asked."""

    def __init__(self) -> None:
        config = ClusterConfig(1, {}, SessionKey(b"0123456789abcdef", "HmacSHA256", 0))
        standing = SimpleNamespace(
            epoch=Epoch(1, 4), member_ids=(MEMBER,), absent=(), protocol=Protocol.SESSIONED.value, stock=False
        )
        lead: Any = SimpleNamespace(standing=standing)
        logs: Any = SimpleNamespace(config=SimpleNamespace(snapshot=lambda: config))
        times: Any = SimpleNamespace(session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
        self.routes = LeaderRoutes(lambda: (lead, logs), lambda: 60_000, times)
        self.endpoint = Endpoint("127.0.0.1", 0, self.routes.all())
        self.endpoint.start()

    def post(self, path: str, body: bytes) -> int:
        request = urllib.request.Request(f"{self.endpoint.url}{path}", body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def lease(self, member_id: str) -> int:
        return self.post("lease", json.dumps({"member_id": member_id, "term": 1, "generation": 4}).encode())


@pytest.fixture
def leader() -> Iterator[Leader]:
    leader = Leader()
    yield leader
    leader.endpoint.stop()


def test_long_bodies_are_refused(leader: Leader) -> None:
    assert leader.post("lease", b"x" * (MAX_BODY_BYTES + 1)) == 413


def test_unsigned_task_configurations_are_refused_before_they_are_read(leader: Leader) -> None:
    assert leader.post("connectors/a/tasks", b"[]") == 400


def test_invented_members_are_neither_kept_nor_believed(leader: Leader) -> None:
    assert {leader.lease(f"invented-{number}") for number in range(50)} == {409}
    assert leader.routes._asked == {}
    assert leader.lease(MEMBER) == 200, "a member of the round is confirmed"
    assert leader.routes._asked.keys() == {MEMBER}
