"""Members verify a leader that serves https, and say what to do about one that they refuse."""

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.calls import LeaderCalls
from cooperator.leader.endpoint import Endpoint
from cooperator.leader.tls import SERVER_NAME, ServerCertificates
from cooperator.model import Epoch, SessionKey
from cooperator.wire import verify
from tests.harness.leader_certificates import EXPIRED, CertificateDirectory

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
CONFIGS = ({"unit": "0"},)


class Member:
    """The calls of a member that verifies by ``ca``."""

    def __init__(self, ca: Path | None) -> None:
        self.events: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self.calls = LeaderCalls(self.events.put, lambda: KEY, lambda: 7_000, ca)
        self.calls.start()

    def post(self, url: str) -> str:
        """Post task configurations; returns the error, empty if they were accepted."""
        self.calls.post(do.PostTaskConfigs("a", 1, CONFIGS, url))
        answer = self.events.get(timeout=10)
        assert isinstance(answer, ev.PostAnswered)
        return answer.error


class Leader:
    """Serves https with the certificate in ``mounted``, and records the requests that arrive."""

    def __init__(self, mounted: CertificateDirectory) -> None:
        self.mounted = mounted
        self.heard: list[str] = []
        self.endpoint = Endpoint(
            "127.0.0.1", 0, {"POST /{path:.*}": self._take}, ServerCertificates(mounted.path)
        )
        self.endpoint.start()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        verify(KEY, dict(request.headers), await request.read())
        self.heard.append(request.path)
        return web.Response(status=200)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew()
    leader = Leader(mounted)
    yield leader
    leader.endpoint.stop()


@pytest.fixture
def member(leader: Leader) -> Iterator[Member]:
    member = Member(leader.mounted.ca)
    yield member
    member.calls.close()


def test_a_member_posts_to_a_leader_that_it_has_verified(leader: Leader, member: Member) -> None:
    assert member.post(leader.endpoint.url) == ""
    member.calls.ask(do.AskLeader(leader.endpoint.url, "member-1", Epoch(2, 5)))
    assert member.events.get(timeout=10) == ev.LeaderConfirmed(7_000, Epoch(2, 5))
    assert leader.heard == ["/connectors/a/tasks", "/lease"]


def test_a_renewal_needs_no_restart_of_either_side(leader: Leader, member: Member, tmp_path: Path) -> None:
    assert member.post(leader.endpoint.url) == ""
    leader.mounted.renew()
    assert member.post(leader.endpoint.url) == ""
    other = CertificateDirectory(tmp_path / "other")
    signed = other.authority.server("leader", [SERVER_NAME])
    leader.mounted.write(
        signed.certificate.read_bytes(), signed.key.read_bytes(), other.authority.own.certificate.read_bytes()
    )
    assert member.post(leader.endpoint.url) == "", "the CA is another one, too"


@pytest.mark.parametrize("ca", [True, False])
def test_an_unknown_authority_is_refused_with_the_remedy(leader: Leader, tmp_path: Path, ca: bool) -> None:
    foreign = CertificateDirectory(tmp_path / "foreign")
    foreign.renew()
    member = Member(foreign.ca if ca else None)
    error = member.post(leader.endpoint.url)
    member.calls.close()
    assert "the leader's certificate is refused" in error
    assert "--leader-ca-file" in error
    assert leader.heard == [], "nothing was sent"


def test_a_certificate_for_another_name_is_refused_even_if_it_has_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew(["127.0.0.1", "leader.example"])
    with monkeypatch.context() as unchecked:
        # A leader of ours would not use this certificate.
        unchecked.setattr("cooperator.leader.tls._handshake", lambda *_: None)
        leader = Leader(mounted)
    member = Member(mounted.ca)
    error = member.post(leader.endpoint.url)
    member.calls.close()
    leader.endpoint.stop()
    assert f"issue it for the DNS name {SERVER_NAME}" in error
    assert leader.heard == []


def test_an_expired_certificate_is_refused_with_the_remedy(leader: Leader, member: Member) -> None:
    leader.mounted.renew(valid=EXPIRED)
    assert "certificate has expired: renew it" in member.post(leader.endpoint.url)
    leader.mounted.renew()
    assert member.post(leader.endpoint.url) == ""


def test_each_side_that_speaks_plain_http_is_told_so(leader: Leader, member: Member) -> None:
    plain = Endpoint("127.0.0.1", 0, {})
    plain.start()
    error = member.post(plain.url.replace("http:", "https:"))
    assert "use a port that serves https" in error
    plain.stop()
    assert "400" in (error := member.post(leader.endpoint.url.replace("https:", "http:")))
    assert "this port serves https only: use https://" in error
    assert leader.heard == []


def test_a_ca_that_cannot_be_read_is_named(leader: Leader, tmp_path: Path) -> None:
    member = Member(tmp_path / "missing.crt")
    assert "missing.crt: No such file or directory: use a readable PEM file" in member.post(
        leader.endpoint.url
    )
    (tmp_path / "missing.crt").write_bytes(leader.mounted.ca.read_bytes())
    assert member.post(leader.endpoint.url) == "", "a CA that arrives later is read then"
    member.calls.close()
