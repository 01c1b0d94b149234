"""The listening sockets of an HTTP endpoint, and bounds for connections that ask for nothing.

Anybody who reaches a port can open connections to it. So each one has a limited time until it has sent the
headers of its first request, TLS handshake included, on a task of its own; and only so many may wait for
that, or be idle after an answer. Asyncio's own servers have none of these bounds, close the connection of a
client that speaks plain HTTP to TLS without a word, and set one context for their whole life.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from cooperator.leader.tls import ServerCertificates, TlsError

log = logging.getLogger(__name__)

FIRST_REQUEST_S: Final = 10.0
"""The time that a connection has until the headers of its first request are complete."""
MAX_WAITING: Final = 2_048
"""Connections that may wait for their first request at a time; the oldest is closed for a further one. All
members of a group of 1,000 may connect at once, such as to a new leader."""
MAX_IDLE: Final = 2_048
"""Connections that may be idle after an answer; the one that has been idle the longest is closed for a
further one. All members may be answered at once."""
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


class HttpListener:
    """Serves connections on ``host:port`` by ``make_protocol``, over TLS if there are ``certificates``.

    The owner calls ``asked`` and ``answered`` for each request. Used by one event loop only.
    """

    def __init__(
        self,
        host: str,
        port: int,
        certificates: ServerCertificates | None,
        make_protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._host, self._port = host, port
        self._certificates = certificates
        self._make_protocol = make_protocol
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._first: dict[asyncio.BaseProtocol, asyncio.Event] = {}
        self._idle: dict[asyncio.BaseProtocol, asyncio.BaseTransport] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._reported_at = float("-inf")

    async def start(self) -> int:
        """Listen; returns the port. Raises OSError if it is taken."""
        listening = _listening(self._host, self._port)
        self._accepting = [asyncio.create_task(self._accept(each)) for each in listening]
        return int(listening[0].getsockname()[1])

    async def close(self) -> None:
        """Stop to listen; connections that have sent a request stay open."""
        tasks = [*self._waiting, *self._accepting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def asked(self, protocol: asyncio.BaseProtocol) -> None:
        """A request has begun: its headers are complete."""
        self._idle.pop(protocol, None)
        if (first := self._first.get(protocol)) is not None:
            first.set()

    def answered(self, protocol: asyncio.BaseProtocol, transport: asyncio.BaseTransport) -> None:
        """A request has been answered, so the connection is idle."""
        self._idle[protocol] = transport
        if len(self._idle) > MAX_IDLE:
            self._idle = {each: over for each, over in self._idle.items() if not over.is_closing()}
        if len(self._idle) > MAX_IDLE:
            self._idle.pop(next(iter(self._idle))).close()

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
                self._waiting[task] = None
                task.add_done_callback(lambda done: self._waiting.pop(done, None))
                # A task that is cancelled before its first step would not close its connection.
                await asyncio.sleep(0)
                if len(self._waiting) > MAX_WAITING:
                    oldest = next(iter(self._waiting))
                    del self._waiting[oldest]
                    oldest.cancel()

    async def _admit(self, connection: socket.socket) -> None:
        """Serve a connection; closes it if there is no request in time."""
        loop = asyncio.get_running_loop()
        is_given = False
        try:
            async with asyncio.timeout(FIRST_REQUEST_S):
                await _readable(loop, connection)
                first = connection.recv(1, socket.MSG_PEEK)
                if first and self._certificates is not None and first != _HANDSHAKE_RECORD:
                    await _refuse_plain(loop, connection)
                elif first:
                    context = None if self._certificates is None else self._certificates.context()
                    # From here on asyncio closes the socket, also if the handshake fails or is cancelled.
                    is_given = True
                    await self._serve(connection, context)
        except ssl.SSLError as error:
            self._report(error)
        except TlsError as error:
            log.error("%s", error)
        except OSError as error:
            # TimeoutError is one, too. Asyncio reports a client that left during its handshake in this way.
            log.debug("a connection has ended before its first request: %s", error or type(error).__name__)
        finally:
            if not is_given:
                connection.close()

    async def _serve(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        """Hand a connection over, and wait for its first request."""
        loop = asyncio.get_running_loop()
        protocol, asked = self._make_protocol(), asyncio.Event()
        self._first[protocol] = asked
        transport = None
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
            await asked.wait()
        finally:
            del self._first[protocol]
            if transport is not None and not asked.is_set():
                # A close would wait for a client that reads nothing.
                transport.abort()

    def _report(self, error: ssl.SSLError) -> None:
        """Log a failed handshake, at most one in a while: anybody can cause them."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_S:
            self._reported_at = now
            log.info("a client has ended its TLS handshake: %s", error.reason or error)


def _listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at all addresses of ``host`` that this machine has, on the same port."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    with ExitStack() as opened:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            try:
                made = socket.create_server((address[0], port), family=family, backlog=_BACKLOG)
            except OSError as error:
                if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                raise
            made.setblocking(False)
            sockets.append(opened.enter_context(made))
            port = made.getsockname()[1]
        opened.pop_all()
    return sockets


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
