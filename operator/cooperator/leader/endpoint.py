"""An HTTP endpoint: one thread with its own event loop, answers in Kafka Connect's shape, and metrics."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from cooperator.leader.door import Door, QuietHandler
from cooperator.leader.http_listener import HttpListener
from cooperator.leader.tls import ServerCertificates
from cooperator.model.visible import visible_json, visible_line
from cooperator.supervision import keep_turning, supervised, trouble

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1024 * 1024
"""Maximum size of a request body, in bytes. Longer bodies are refused (413) without being read completely."""
POSTS_TO_LEADERS = ("POST /connectors/{name}/tasks", "POST /lease", "POST /learners", "POST /report")
"""The routes by which members ask whoever leads, the operator or one of them."""
_BODY_BYTES = {
    "POST /connectors/{name}/tasks": 32 * MAX_BODY_BYTES,
    "PUT /connectors/{name}/fence": 4_096,
    "POST /lease": 4_096,
    "POST /learners": 256 * 1024,
    "POST /report": 2 * MAX_BODY_BYTES,
}
"""Limits of specific routes, in bytes. The configurations of all tasks of a connector arrive in one body."""
_SMALL_BYTES = 64 * 1024
_LARGE_AT_ONCE = 2
_BODY_S = 30.0
_KEEPALIVE_S = 75.0
_LINE_BYTES = 8 * 1024
_PROTOCOL: Final[Mapping[str, Any]] = {
    "access_log": None,
    "keepalive_timeout": _KEEPALIVE_S,
    "max_line_size": _LINE_BYTES,
    "max_field_size": _LINE_BYTES,
    "max_headers": 100,
}
_LARGE = web.AppKey("large", asyncio.Semaphore)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Endpoint:
    """Serves ``routes`` ({"POST /path/{name}": handler}) on ``host:port``; port 0 picks a free one.

    With ``tls`` it serves https only. ``door`` decides which requests reach a handler. ``start`` returns when
    the socket listens and raises OSError when it cannot.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Handler],
        tls: ServerCertificates | None = None,
        door: Door | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._routes = routes
        self._tls = tls
        self._door = door or Door()
        self._listener: HttpListener | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = supervised(self._run, "http-endpoint")
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return self.url_at(self.host)

    def url_at(self, host: str) -> str:
        """The URL by which others reach it at ``host``."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/"

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(timeout=30)

    def stop(self) -> None:
        if self._thread.is_alive():
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        turning = self._loop.create_task(keep_turning())
        self._loop.run_forever()
        turning.cancel()
        # Such as connections whose client still sends the body of a request that was refused.
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _listen(self) -> None:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._note])
        app[_LARGE] = asyncio.Semaphore(_LARGE_AT_ONCE)
        for route, handler in self._routes.items():
            method, path = route.split(" ", 1)
            app.router.add_route(
                method, path, _taking(handler, _BODY_BYTES[route]) if route in _BODY_BYTES else handler
            )
        self._runner = web.AppRunner(app, shutdown_timeout=1.0)
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        make_protocol = partial(QuietHandler, server, loop=self._loop, **_PROTOCOL)
        self._listener = HttpListener(self.host, self.port, self._tls, make_protocol)
        self.port = await self._listener.start()

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse or handle a request, and tell the listener when it begins and ends."""
        assert self._listener is not None
        self._listener.asked(request.protocol)
        try:
            if (refusal := self._door.refusal(request, self.port)) is not None:
                refused = web.Response(status=refusal)
                # Its body is not read.
                refused.force_close()
                return refused
            return await handler(request)
        finally:
            if request.transport is not None:
                self._listener.answered(request.protocol, request.transport)

    async def _close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()


async def answer_health(request: web.Request) -> web.StreamResponse:
    """200, or 503 with the threads that stand still and whatever else does not work in this process."""
    return health_answer(trouble())


def health_answer(trouble: str) -> web.Response:
    """Returns 200, or 503 with what does not work; an exception's text may have come from a user."""
    return web.Response(status=503 if trouble else 200, text=visible_line(trouble) or "ok")


async def body_of(request: web.Request) -> bytes:
    """Reads a request's body. The signature covers the body, so it can only be checked afterwards.

    At most two bodies above 64 KB are read at a time, which bounds the memory that clients can occupy. Raises
    ``web.HTTPRequestTimeout`` (408) for a body that does not arrive within 30 s.
    """
    if (request.content_length or 0) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length or 0)
    is_small = request.content_length is not None and request.content_length <= _SMALL_BYTES
    try:
        async with asyncio.timeout(_BODY_S):
            if is_small:
                return await request.read()
            async with request.config_dict[_LARGE]:
                return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {_BODY_S:g} s") from None


def _taking(handler: Handler, most_bytes: int) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request.clone(client_max_size=most_bytes))

    return answer


def json_answer(status: int, body: object) -> web.Response:
    """A JSON response; 204 carries no body."""
    if status == 204:
        return web.Response(status=204)
    return web.Response(
        status=status, text=visible_json(json.dumps(body)), content_type="application/json", charset="utf-8"
    )


def error_answer(status: int, message: str) -> web.Response:
    """An error in Kafka Connect's shape: ``{"error_code", "message"}``."""
    return json_answer(status, {"error_code": status, "message": message})


class _VisibleLabels(Collector):
    """The families of ``collector`` with their labels escaped: a name that users choose may be one."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterable[Metric]:
        for family in self._collector.collect():
            family.samples = [
                sample._replace(labels={name: visible_line(text) for name, text in sample.labels.items()})
                for sample in family.samples
            ]
            yield family


class MetricsPage(Collector):
    """The metrics page for Prometheus: implement ``collect``, which is called on every request by any thread.

    Includes metrics of the process.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_VisibleLabels(self))
        ProcessCollector(registry=self._registry)

    def families(self) -> Iterable[Metric]:
        """Everything that the page shows."""
        return self._registry.collect()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer in the format that the ``Accept`` header asks for."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        page = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=page, headers={"Content-Type": content_type})
