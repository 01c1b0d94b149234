"""A listening socket whose connections begin with a TLS handshake.

Asyncio's own servers close the connection of a client that speaks plain HTTP without a word, and set one
context for their whole life. Here each connection gets the present certificate and a limited time, on a task
of its own.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cooperator.leader.tls import ServerCertificates, TlsError

log = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
MAX_HANDSHAKES: Final = 128
"""Connections that may be in their handshake at a time; the oldest one is closed for a further one."""
_BACKLOG: Final = 128
_AGAIN_S: Final = 0.5
_LINGER_S: Final = 1.0
_REPORT_S: Final = 10.0
_HANDSHAKE_RECORD: Final = b"\x16"
_BODY: Final = b'{"error_code": 400, "message": "this port serves https only: use https:// in the URL"}'
_PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class TlsListener:
    """Serves connections on ``host:port`` by ``make_protocol`` once their handshakes are done."""

    def __init__(
        self,
        host: str,
        port: int,
        certificates: ServerCertificates,
        make_protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._host, self._port = host, port
        self._certificates = certificates
        self._make_protocol = make_protocol
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._reported_at = float("-inf")

    async def start(self) -> int:
        """Listen; returns the port. Raises OSError if it is taken."""
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
        listening.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(listening))
        return int(listening.getsockname()[1])

    async def close(self) -> None:
        """Stop to listen; connections with a protocol stay open."""
        tasks = [*self._handshakes, *filter(None, [self._accepting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except Exception as error:
                    # Such as too many open files: clients wait in the backlog meanwhile. Nobody would notice
                    # the end of this task.
                    log.warning("no connection is accepted: %s; trying again", error)
                    await asyncio.sleep(_AGAIN_S)
                    continue
                task = asyncio.create_task(self._admit(connection))
                self._handshakes[task] = None
                task.add_done_callback(lambda done: self._handshakes.pop(done, None))
                # A task that is cancelled before its first step would not close its connection.
                await asyncio.sleep(0)
                if len(self._handshakes) > MAX_HANDSHAKES:
                    oldest = next(iter(self._handshakes))
                    del self._handshakes[oldest]
                    oldest.cancel()

    async def _admit(self, connection: socket.socket) -> None:
        """Carry out the handshake; closes the connection if there is none in time."""
        loop = asyncio.get_running_loop()
        is_given = False
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await _readable(loop, connection)
                first = connection.recv(1, socket.MSG_PEEK)
                if first == _HANDSHAKE_RECORD:
                    context = self._certificates.context()
                    # From here on asyncio closes the socket, also if the handshake fails or is cancelled.
                    is_given = True
                    await loop.connect_accepted_socket(self._make_protocol, connection, ssl=context)
                elif first:
                    await _refuse_plain(loop, connection)
        except ssl.SSLError as error:
            self._report(error)
        except TlsError as error:
            log.error("%s", error)
        except OSError as error:
            # TimeoutError is one, too. Asyncio reports a client that left during its handshake in this way.
            log.debug("a connection has ended before its handshake: %s", error or type(error).__name__)
        finally:
            if not is_given:
                connection.close()

    def _report(self, error: ssl.SSLError) -> None:
        """Log a failed handshake, at most one in a while: anybody can cause them."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_S:
            self._reported_at = now
            log.info("a client has ended its TLS handshake: %s", error.reason or error)


async def _readable(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    """Wait for the first byte without reading it."""
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


async def _refuse_plain(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    """Answer in plain HTTP. A socket closed with unread bytes would take the answer back."""
    await loop.sock_sendall(connection, _PLAIN)
    connection.shutdown(socket.SHUT_WR)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while await loop.sock_recv(connection, 65_536):
                pass
