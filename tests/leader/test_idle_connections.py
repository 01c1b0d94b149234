"""Connections that ask for nothing are closed, and hold up no other, over http and https."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import web

from cooperator.leader import http_listener
from cooperator.leader.endpoint import Endpoint, json_answer
from cooperator.leader.tls import SERVER_NAME, LeaderTrust, ServerCertificates
from tests.harness.leader_certificates import CertificateDirectory

IDLE = 500
BEGUN = (b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
HANDSHAKES = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")


async def hello(request: web.Request) -> web.StreamResponse:
    return json_answer(200, {})


class Port:
    """An endpoint, and connections to it."""

    def __init__(self, directory: Path, has_tls: bool, opened: ExitStack) -> None:
        self.has_tls = has_tls
        self.mounted = CertificateDirectory(directory)
        self.mounted.renew()
        certificates = ServerCertificates(self.mounted.path) if has_tls else None
        self.endpoint = Endpoint("127.0.0.1", 0, {"GET /": hello}, certificates)
        self.endpoint.start()
        self._opened = opened

    def plain(self) -> socket.socket:
        address = (self.endpoint.host, self.endpoint.port)
        return self._opened.enter_context(socket.create_connection(address, 30))

    def connect(self) -> socket.socket:
        """A connection with its handshake done, if there is one."""
        if not self.has_tls:
            return self.plain()
        context = LeaderTrust(self.mounted.ca).context()
        return self._opened.enter_context(context.wrap_socket(self.plain(), server_hostname=SERVER_NAME))


@pytest.fixture(params=[False, True], ids=["http", "https"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Port]:
    with ExitStack() as opened:
        port = Port(tmp_path / "own", request.param, opened)
        yield port
        port.endpoint.stop()


def answered(connection: socket.socket) -> bool:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"{}"):
        if not (more := connection.recv(4096)):
            return False
        answer += more
    return answer.startswith(b"HTTP/1.1 200 ")


def closed(connection: socket.socket) -> bool:
    """Whether the server ends it within the socket's time-out."""
    try:
        return not connection.recv(1)
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "port",
    [
        pytest.param(
            False,
            id="http",
            marks=pytest.mark.long(
                "tests/leader/test_idle_connections.py::"
                "test_a_request_is_answered_at_once_among_500_idle_connections_which_end"
            ),
        ),
        pytest.param(True, id="https"),
    ],
    indirect=True,
)
def test_a_request_is_answered_at_once_among_500_idle_connections_which_end(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client that waited for one of the others would run into its own time-out.
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 600.0)
    first = idle_connections(port)
    assert answered(port.connect())
    assert not any(is_readable(connection) for connection in first), "none of them has ended"
    for connection in first:
        connection.close()

    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 1.0)
    assert all(closed(connection) for connection in idle_connections(port))
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 600.0)
    assert answered(port.connect())


def idle_connections(port: Port) -> list[socket.socket]:
    begun = HANDSHAKES if port.has_tls else BEGUN
    idle = [port.plain() for _ in range(IDLE)]
    for number, connection in enumerate(idle[-100:]):
        connection.sendall(begun[number % len(begun)])
    return idle


def is_readable(connection: socket.socket) -> bool:
    # Not select(), which takes no descriptor beyond 1023.
    found = select.poll()
    found.register(connection, select.POLLIN)
    return bool(found.poll(0))


def test_only_so_many_connections_wait_and_the_oldest_gives_way(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 600.0)
    monkeypatch.setattr(http_listener, "MAX_WAITING", 3)
    idle = [port.plain() for _ in range(6)]
    assert all(closed(connection) for connection in idle[:3])
    assert answered(port.connect())


@pytest.mark.parametrize("begun", BEGUN)
def test_a_request_that_is_never_completed_ends_after_the_handshake_too(
    port: Port, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for the handshake on a busy machine.
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 3.0)
    slow = port.connect()
    if begun:
        slow.sendall(begun)
    assert closed(slow)


def test_a_connection_that_was_answered_may_be_used_again_later(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 600.0)
    used = port.connect()
    assert answered(used)
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 1.0)
    assert closed(port.plain()), "a later one, which has sent nothing"
    assert answered(used)


def test_the_connection_that_is_idle_the_longest_gives_way(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "MAX_IDLE", 3)
    used = [port.connect() for _ in range(5)]
    for connection in (*used[:3], used[0], *used[3:]):
        assert answered(connection)
    assert closed(used[1])
    assert closed(used[2])
    assert answered(used[0])
    assert answered(used[3])
    assert answered(used[4])
