"""A real broker that handles requests in the order in which they are sent, and a group's clients on it."""

import selectors
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka.protocol.metadata import FindCoordinatorRequest

from cooperator.local.broker import EmbeddedBroker
from tests.simulation.broker.messages import Answer, Described, DescribeGroup, Error, Request
from tests.simulation.broker.settings import BrokerSettings
from tests.simulation.broker.wire import decoded, encoded

_ONE_AFTER_ANOTHER: Final = {"num.network.threads": "1", "num.io.threads": "1"}
_INSPECTOR: Final = "inspector"
_NOT_READY: Final = (
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.NOT_COORDINATOR,
)


class RealBroker:
    """Starts with settings, and again with others on the same data."""

    def __init__(self, directory: Path, settings: BrokerSettings) -> None:
        self._directory = directory
        self._broker: EmbeddedBroker | None = None
        self.settings = settings
        self.started_s = 0.0
        """The earliest moment at which it can have loaded its groups."""

    @property
    def address(self) -> tuple[str, int]:
        assert self._broker is not None, "the broker was started"
        host, _, port = self._broker.bootstrap_servers.partition(":")
        return host, int(port)

    def start(self) -> None:
        self.started_s = time.monotonic()
        self._broker = EmbeddedBroker(self._directory, overrides=_properties(self.settings))
        self._broker.start()
        self._await_coordinator()

    def restart(self, settings: BrokerSettings) -> None:
        """Crash and start again; nobody is notified."""
        self.kill()
        self.settings = settings
        self.start()

    def kill(self) -> None:
        if self._broker is not None:
            self._broker.kill()

    def _await_coordinator(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            clients = Clients(self.address, "anybody")
            try:
                clients.find_coordinator()
                if clients.describe().error not in _NOT_READY:
                    return
            except OSError:
                pass
            finally:
                clients.close()
            time.sleep(0.05)
        raise AssertionError("the coordinator of groups did not come up within 30 s")


@dataclass
class _Connection:
    socket: socket.socket
    received: bytes = b""
    asked: tuple[int, Request] | None = None


class Clients:
    """The connections to one group. A connection carries one request at a time."""

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        self._address = address
        self._group_id = group_id
        self._selector = selectors.DefaultSelector()
        self._connections: dict[str, _Connection] = {}

    def send(self, request_id: int, request: Request) -> None:
        connection = self._connection(request.client)
        assert connection.asked is None, f"{request.client} has not been answered, use another connection"
        connection.asked = (request_id, request)
        connection.socket.sendall(encoded(request, self._group_id, request_id))

    def receive(self, timeout_s: float) -> list[tuple[int, Answer]]:
        """The answers that have come, or come first; empty if none comes within the time."""
        answers = []
        for key, _ in self._selector.select(timeout_s):
            connection: _Connection = key.data
            data = connection.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the broker has closed a connection")
            connection.received += data
            while (frame := _next_frame(connection)) is not None:
                assert connection.asked is not None
                (request_id, request), connection.asked = connection.asked, None
                answers.append((request_id, decoded(request, frame)))
        return answers

    def describe(self) -> Described:
        """Uses a connection of its own. When it is answered, everything sent earlier has been handled."""
        return _ask_to_describe(self._connection(_INSPECTOR).socket, self._group_id)

    def find_coordinator(self) -> None:
        """The broker creates its coordinators when they are asked for."""
        request = FindCoordinatorRequest(version=4, key_type=0, coordinator_keys=[self._group_id])
        request.with_header(correlation_id=0, client_id=_INSPECTOR)
        with socket.create_connection(self._address, timeout=10) as connection:
            connection.sendall(request.encode(header=True, framed=True))
            connection.recv(1 << 16)

    def hang_up(self, client: str) -> None:
        connection = self._connections.pop(client, None)
        if connection is not None:
            if client != _INSPECTOR:
                self._selector.unregister(connection.socket)
            connection.socket.close()

    def close(self) -> None:
        for client in list(self._connections):
            self.hang_up(client)
        self._selector.close()

    def _connection(self, client: str) -> _Connection:
        if client not in self._connections:
            connection = _Connection(socket.create_connection(self._address, timeout=30))
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The broker accepts new connections at any time, and only then are requests handled in order.
            _ask_to_describe(connection.socket, self._group_id)
            self._connections[client] = connection
            if client != _INSPECTOR:
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        return self._connections[client]


def _ask_to_describe(connection: socket.socket, group_id: str) -> Described:
    request = DescribeGroup(_INSPECTOR)
    connection.sendall(encoded(request, group_id, 0))
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    answer = decoded(request, connection.recv(size, socket.MSG_WAITALL))
    assert isinstance(answer, Described)
    return answer


def _next_frame(connection: _Connection) -> bytes | None:
    if len(connection.received) < 4:
        return None
    (size,) = struct.unpack_from(">i", connection.received)
    if len(connection.received) < 4 + size:
        return None
    frame, connection.received = connection.received[4 : 4 + size], connection.received[4 + size :]
    return frame


def _properties(settings: BrokerSettings) -> Mapping[str, str]:
    return {
        **_ONE_AFTER_ANOTHER,
        "group.initial.rebalance.delay.ms": str(settings.initial_rebalance_delay_ms),
        "group.min.session.timeout.ms": str(settings.min_session_timeout_ms),
        "group.max.session.timeout.ms": str(settings.max_session_timeout_ms),
        "message.max.bytes": str(settings.max_record_bytes),
        "offsets.retention.check.interval.ms": str(settings.clean_up_interval_ms),
    }
