"""Every HTTP server of the product against the same requests; no token of a request reaches a log."""

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from cooperator.agent.pages import Pages
from cooperator.host.metrics import WorkerMetrics
from cooperator.leader import http_listener
from cooperator.leader.endpoint import Endpoint, answer_health
from cooperator.leader.service import LeaderService, ServiceSettings
from cooperator.local.host import Host
from cooperator.local.layout import LocalCluster, StateDir
from cooperator.rest.app import RestServer
from cooperator.wire import Owner
from tests.rest.fake_front import FakeFront

SECRET = "s3cr3t-of-a-request"
BEARER = f"Authorization: Bearer {SECRET}\r\n"


@dataclass(frozen=True)
class Server:
    """``path`` is answered with 200. ``token``: what its clients know."""

    port: int
    path: str
    token: str
    stop: Callable[[], None]


def daemon(directory: Path) -> Server:
    host = Host(StateDir(directory), LocalCluster("c", "127.0.0.1:1"))
    host._endpoint.start()
    token = StateDir(directory).host_token.read_text()
    return Server(host._endpoint.port, "/state", token, host._endpoint.stop)


def member(directory: Path) -> Server:
    supervisor = MagicMock()
    supervisor.tasks.return_value = []
    routes = Pages(MagicMock(), supervisor, MagicMock(), lambda: None, MagicMock()).routes()
    return _served(Endpoint("127.0.0.1", 0, routes), "/tasks")


def leader(directory: Path) -> Server:
    service = LeaderService(ServiceSettings("127.0.0.1:1", "lake", Owner("c", "n", "lake")))
    return _served(service._endpoint, "/status")


def health(directory: Path) -> Server:
    """The operator's own."""
    metrics = WorkerMetrics(dict)
    pages = {"GET /healthz": answer_health, "GET /metrics": metrics.answer}
    return _served(Endpoint("127.0.0.1", 0, pages), "/metrics")


def rest_here(directory: Path) -> Server:
    """Without authentication, for programs of this machine."""
    return _rest(RestServer(FakeFront().front, "127.0.0.1", 0, only_here=True))


def rest_on_kubernetes(directory: Path) -> Server:
    return _rest(RestServer(FakeFront().front, "127.0.0.1", 0))


def _rest(server: RestServer) -> Server:
    server.start()
    return Server(server.port, "/connectors", "", server.stop)


def _served(endpoint: Endpoint, path: str) -> Server:
    endpoint.start()
    return Server(endpoint.port, path, "", endpoint.stop)


def get(
    server: Server, uri: str = "", host: str = "", more: str = "", authorization: str | None = None
) -> str:
    own = f"Authorization: Bearer {server.token}\r\n" if server.token else ""
    return (
        f"GET {uri or server.path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{server.port}'}\r\n"
        f"{own if authorization is None else authorization}{more}Connection: close\r\n\r\n"
    )


REQUESTS: dict[str, Callable[[Server], str]] = {
    "its own": get,
    "localhost": lambda server: get(server, host=f"localhost:{server.port}"),
    "another Host": lambda server: get(server, host="evil.example"),
    "another Host with the port": lambda server: get(server, host=f"evil.example:{server.port}"),
    "another port": lambda server: get(server, host="127.0.0.1:1"),
    "two Hosts": lambda server: get(server, more="Host: evil.example\r\n"),
    "no token": lambda server: get(server, authorization=""),
    "a wrong token": lambda server: get(server, authorization=BEARER),
    "two tokens": lambda server: (
        get(server, more=BEARER) if server.token else get(server, authorization=BEARER)
    ),
    "an Origin": lambda server: get(server, more="Origin: http://evil.example\r\n"),
    "an absolute URI": lambda server: get(server, f"http://evil.example:{server.port}{server.path}"),
    "a malformed start line": lambda server: f"GET\x01 / HTTP/1.1\r\n{BEARER}\r\n\r\n",
    "no HTTP": lambda server: f"{BEARER}\r\n\r\n",
    "a malformed header": lambda server: get(server, authorization=f"Authorization: Bearer\x00{SECRET}\r\n"),
    "a CR in a header": lambda server: get(server, authorization=f"Authorization: {SECRET}\rX: y\r\n"),
    "a name of a header with a line": lambda server: get(server, authorization=f"Auth\n{SECRET}: x\r\n"),
    "a huge header": lambda server: get(server, more=f"X: {SECRET * 2_000}\r\n"),
    "a huge URI": lambda server: get(server, f"/{SECRET * 2_000}"),
    "many headers": lambda server: get(server, more="".join(f"X-{n}: {SECRET}\r\n" for n in range(500))),
    "a huge body": lambda server: get(server, "/nowhere", more="Content-Length: 999999999999\r\n"),
    "a slow client": lambda server: get(server, authorization=BEARER)[:-2],
}
CLOSED = 0
"""The connection is closed without an answer."""
SERVERS = {
    daemon: {
        **dict.fromkeys(REQUESTS, 400),
        "its own": 200,
        "localhost": 200,
        "another Host": 421,
        "another Host with the port": 421,
        "another port": 421,
        "two Hosts": 400,
        "no token": 401,
        "a wrong token": 401,
        "two tokens": 401,
        "an Origin": 403,
        "an absolute URI": 421,
        "a huge body": 404,
        "a slow client": CLOSED,
    },
    rest_here: {
        **dict.fromkeys(REQUESTS, 400),
        "its own": 200,
        "localhost": 200,
        "another Host": 421,
        "another Host with the port": 421,
        "another port": 421,
        # Everybody on this machine may use it.
        "no token": 200,
        "a wrong token": 200,
        "two tokens": 200,
        "an Origin": 403,
        "an absolute URI": 421,
        "a huge body": 404,
        "a slow client": CLOSED,
    },
    rest_on_kubernetes: {
        **dict.fromkeys(REQUESTS, 400),
        # It has many names and addresses. The fake front admits everybody: see test_front_rights.py.
        "its own": 200,
        "localhost": 200,
        "another Host": 200,
        "another Host with the port": 200,
        "another port": 200,
        "no token": 200,
        "a wrong token": 200,
        "two tokens": 200,
        "an Origin": 200,
        "an absolute URI": 404,
        "a huge body": 404,
        "a slow client": CLOSED,
    },
}
OPEN = {
    **dict.fromkeys(REQUESTS, 400),
    # Their requests are signed where they change something.
    "its own": 200,
    "localhost": 200,
    "another Host": 200,
    "another Host with the port": 200,
    "another port": 200,
    "no token": 200,
    "a wrong token": 200,
    "two tokens": 200,
    "an Origin": 403,
    "an absolute URI": 200,
    "a huge body": 404,
    "a slow client": CLOSED,
}
SERVERS |= dict.fromkeys((member, leader, health), OPEN)


@pytest.fixture(scope="module", params=SERVERS, ids=lambda server: server.__name__)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, dict[str, int]]]:
    server = request.param(tmp_path_factory.mktemp("state"))
    yield server, SERVERS[request.param]
    server.stop()


def answer(server: Server, text: str) -> tuple[int, bytes]:
    """The status code and the body; CLOSED without an answer."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        found = b""
        with suppress(OSError):  # reset, or closed already
            connection.sendall(text.encode("latin-1"))
            found = connection.recv(65_536)
            # A server that has answered waits for the rest of a body only if more can come.
            connection.shutdown(socket.SHUT_WR)
            found += b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = found.partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]), body) if head else (CLOSED, b"")


@pytest.mark.parametrize("name", REQUESTS)
def test_each_server_answers_each_request_as_stated(
    served: tuple[Server, dict[str, int]],
    name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, expected = served
    if name == "a slow client":
        monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 0.5)
    caplog.set_level(logging.DEBUG)
    code, body = answer(server, REQUESTS[name](server))
    assert code == expected[name]
    if code in (400, 401, 403, 421):
        assert body == b""
    logged = caplog.text + repr([record.args for record in caplog.records])
    for secret in filter(None, (SECRET, server.token, "evil.example")):
        assert secret not in logged
        assert secret.encode() not in body


def test_each_server_is_in_the_table() -> None:
    """Whatever makes an endpoint is one of the servers above."""
    sources = Path(__file__).parents[2] / "operator" / "cooperator"
    makers = {
        str(path.relative_to(sources)): path.read_text().count(" Endpoint(")
        + path.read_text().count(" RestServer(")
        for path in sources.rglob("*.py")
    }
    assert {path: count for path, count in makers.items() if count} == {
        "agent/main.py": 1,
        "controller/main.py": 1,
        "controller/rest_front.py": 1,
        "leader/service.py": 1,
        "local/front.py": 1,
        "local/host.py": 1,
        "rest/app.py": 1,
    }


def test_what_fails_in_a_handler_is_logged_without_what_the_client_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(request: Any) -> Any:
        raise ValueError(f"cannot use {request.headers['Authorization']}\r\nand a forged line")

    server = _served(Endpoint("127.0.0.1", 0, {"GET /": fails}), "/")
    try:
        assert answer(server, get(server, authorization=BEARER)) == (500, b"")
    finally:
        server.stop()
    assert "ValueError" in caplog.text
    assert "in fails" in caplog.text
    assert SECRET not in caplog.text
    assert "forged" not in caplog.text.replace("and a forged line", "", 1), "only the source's own line"


def test_a_body_for_the_daemon_is_bounded(tmp_path: Path) -> None:
    server = daemon(tmp_path)
    more = "Content-Type: application/json\r\nContent-Length: 999999999999\r\n"
    try:
        assert answer(server, get(server, "/restart", more=more).replace("GET", "POST", 1))[0] == 413
    finally:
        server.stop()
