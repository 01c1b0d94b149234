"""A proxy between an operator and its API server: it records requests, refuses some, and delays watches."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, TCPConnector, web

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Request:
    """``at`` is monotonic."""

    method: str
    path: str
    at: float

    @property
    def is_write(self) -> bool:
        return self.method in WRITES

    @property
    def is_of_the_lease(self) -> bool:
        return "/leases" in self.path


@dataclass
class ApiProxy:
    """Forwards requests of the user of ``kubeconfig``. ``refuses`` decides which requests get a conflict
    instead of an answer. While ``deaf`` is set, watches are silent; they catch up afterwards."""

    kubeconfig: Path
    refuses: Callable[[Request], bool] = lambda request: False
    deaf: threading.Event = field(default_factory=threading.Event)
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._watches: set[asyncio.Task[Any]] = set()
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server: str = cluster["server"]
        self._tls = ssl.create_default_context(cafile=cluster.pop("certificate-authority"))
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="api-proxy", daemon=True)
        self._thread.start()
        assert started.wait(10)
        cluster["server"] = f"http://127.0.0.1:{self.port}"
        self.kubeconfig = self.kubeconfig.with_suffix(".proxied")
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def cut(self) -> None:
        """End every open watch, even in the middle of an event."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._watches])

    def writes(self, since: float = 0.0) -> list[Request]:
        """All writes except those of the Lease."""
        return [r for r in self.requests if r.is_write and not r.is_of_the_lease and r.at >= since]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    # --- the loop ---

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        started.set()
        self._loop.run_forever()

    async def _open(self) -> None:
        timeout = ClientTimeout(total=None, sock_connect=10)
        self._session = ClientSession(connector=TCPConnector(ssl=self._tls, limit=0), timeout=timeout)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        for task in self._watches:
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def _answer(self, asked: web.Request) -> web.StreamResponse:
        request = Request(asked.method, asked.path, time.monotonic())
        self.requests.append(request)
        if self.refuses(request):
            return web.json_response(_CONFLICT, status=409)
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in ("host", "content-length")}
        try:
            async with self._session.request(
                asked.method, self._server + asked.path_qs, data=await asked.read() or None, headers=headers
            ) as answer:
                if "watch" in asked.query:
                    return await self._relay(asked, answer)
                body = await answer.read()
                return web.Response(
                    body=body, status=answer.status, content_type=answer.content_type or "application/json"
                )
        except (ClientConnectionError, TimeoutError):
            return web.Response(status=502)

    async def _relay(self, asked: web.Request, answer: Any) -> web.StreamResponse:
        stream = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await stream.prepare(asked)
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            async for chunk in answer.content.iter_any():
                while self.deaf.is_set():
                    await asyncio.sleep(0.05)
                await stream.write(chunk)
        except (ClientConnectionError, ConnectionResetError, asyncio.CancelledError):
            pass
        finally:
            self._watches.discard(task)
        return stream


_CONFLICT = json.loads(
    '{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,'
    ' "message": "the object has been modified; please apply your changes to the latest version"}'
)


def every_other() -> Callable[[Request], bool]:
    """Refuses each write the first time, allows it the second time, and so on."""
    refused: set[tuple[str, str]] = set()

    def refuse(request: Request) -> bool:
        what = (request.method, request.path)
        if not request.is_write:
            return False
        if what in refused:
            refused.remove(what)
            return False
        refused.add(what)
        return True

    return refuse
