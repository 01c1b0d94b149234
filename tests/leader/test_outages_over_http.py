"""What members are answered while their leader cannot write: an answer, and never a traceback."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cooperator.leader.stock.routes import StockRoutes
from cooperator.logs import LogTimeout, LogUnavailable, WriterFenced
from cooperator.model import ClusterConfig
from cooperator.wire import CommitRecord, ConfigFold, ConnectorRecord, Protocol, RestartRecord, encode_config

NOT_LEADING = 409


def committed() -> ClusterConfig:
    """Connector ``a`` without tasks: there is nobody to fence, but that is to be recorded."""
    fold = ConfigFold()
    for offset, record in enumerate((ConnectorRecord("a", {}), CommitRecord("a", 0))):
        fold.apply(encode_config(record), offset)
    return fold.snapshot()


async def answered(error: Exception, method: str, path: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The HTTP code of a leader whose writes raise ``error``."""
    monkeypatch.setattr("cooperator.leader.stock.routes.PATIENCE_S", 0.0)

    def fails(*_: object) -> "Future[int]":
        failed: Future[int] = Future()
        failed.set_exception(error)
        return failed

    def restart(record: RestartRecord) -> int:
        return fails(record).result()

    config = SimpleNamespace(snapshot=committed, read_to_end=lambda _: committed())
    standing = SimpleNamespace(protocol=Protocol.COMPATIBLE.value, stock=True)
    lead: Any = SimpleNamespace(asked_for_fence=lambda _: None, fenced=fails, standing=standing)
    logs: Any = SimpleNamespace(config=config)
    routes = StockRoutes(lambda: (lead, logs), "lake", lambda ids, settings: None, restart, dict)
    app = web.Application()
    for route, handler in routes.all().items():
        app.router.add_route(*route.split(" ", 1), handler)
    async with TestClient(TestServer(app)) as client:
        return (await client.request(method, path)).status


@pytest.mark.parametrize(
    ("method", "path", "error", "code"),
    [
        ("PUT", "/connectors/a/fence", LogUnavailable("no broker"), 503),
        ("PUT", "/connectors/a/fence", LogTimeout("no broker"), 503),
        ("PUT", "/connectors/a/fence", WriterFenced("another one leads"), NOT_LEADING),
        ("POST", "/connectors/a/restart", WriterFenced("another one leads"), NOT_LEADING),
    ],
)
def test_a_request_during_an_outage_is_answered(
    method: str, path: str, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    assert asyncio.run(answered(error, method, path, monkeypatch)) == code
    assert "Traceback" not in caplog.text
