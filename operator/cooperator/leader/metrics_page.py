"""Answering Prometheus: what leaders and members measure is collected anew whenever somebody asks."""

import asyncio

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


class MetricsPage(Collector):
    """To be subclassed with ``collect``, which may be called by any thread; the process is measured, too."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """In the form that the header ``Accept`` asks for."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        page = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=page, headers={"Content-Type": content_type})
