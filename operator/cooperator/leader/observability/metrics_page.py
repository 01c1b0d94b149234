"""The metrics page for Prometheus; the metrics of leaders and members are collected on every request."""

import asyncio

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


class MetricsPage(Collector):
    """Base class: implement ``collect``, which any thread may call. Includes metrics of the process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer in the format that the ``Accept`` header asks for."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        page = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=page, headers={"Content-Type": content_type})
