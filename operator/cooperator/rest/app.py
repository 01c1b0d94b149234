"""The front as an HTTP server on a port of its own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from aiohttp import web

from cooperator.leader.door import Door
from cooperator.leader.endpoint import Endpoint, json_answer
from cooperator.leader.tls import ServerCertificates
from cooperator.rest.answers import Answer, RequestRefused, refusal
from cooperator.rest.front import Front, Request

_THREADS: Final = 8
_BODY_S: Final = 30.0
_MAX_ADMITTING: Final = 256
"""Requests whose authorization may be under way at a time; further ones are refused (503)."""


class RestServer:
    """Serves ``front`` from ``start`` to ``stop``; port 0 picks a free one.

    ``only_here`` is for fronts without authentication, which serve programs of this machine only; see
    ``Door``. With ``tls`` it serves https only.
    """

    def __init__(
        self,
        front: Front,
        host: str,
        port: int,
        only_here: bool = False,
        tls: ServerCertificates | None = None,
    ) -> None:
        self._front = front
        self._admitting = 0
        self._threads = ThreadPoolExecutor(_THREADS, "rest-front")
        door = Door(is_local=only_here, for_browsers=not only_here)
        self._endpoint = Endpoint(host, port, {r"* /{path:[\s\S]*}": self._serve}, tls, door)

    @property
    def url(self) -> str:
        return self._endpoint.url

    @property
    def port(self) -> int:
        return self._endpoint.port

    def start(self) -> None:
        """Raises OSError if the port is taken."""
        self._endpoint.start()

    def stop(self) -> None:
        self._endpoint.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        asked = Request(
            request.method,
            path,
            query,
            b"",
            request.headers.get("Content-Type", ""),
            request.headers.get("Authorization", ""),
        )
        loop = asyncio.get_running_loop()
        # Unauthorized requests are refused before their body is read.
        if self._admitting >= _MAX_ADMITTING:
            text = f"{self._admitting} requests wait for their authorization; send this one again later"
            return _last(_response(refusal(RequestRefused(503, text))))
        self._admitting += 1
        try:
            admitted = await loop.run_in_executor(self._threads, self._front.admit, asked)
        finally:
            self._admitting -= 1
        if isinstance(admitted, Answer):
            return _last(_response(admitted))
        if admitted:
            try:
                body = await asyncio.wait_for(request.read(), _BODY_S)
            except web.HTTPRequestEntityTooLarge:
                return _last(_response(refusal(RequestRefused(413, "the body is too large"))))
            except TimeoutError:
                text = f"the body did not arrive within {_BODY_S:g} s"
                return _last(_response(refusal(RequestRefused(408, text))))
            asked = replace(asked, body=body)
        return _response(await loop.run_in_executor(self._threads, self._front.serve, asked))


def _last(response: web.Response) -> web.Response:
    """Closes the connection so that the rest of the body is not read."""
    response.force_close()
    return response


def _response(answer: Answer) -> web.Response:
    if answer.body is None:
        return web.Response(status=answer.status, headers=answer.headers)
    response = json_answer(answer.status, answer.body)
    response.headers.update(answer.headers)
    return response
