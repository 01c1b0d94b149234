"""Responses to members while their leader cannot write: never a traceback."""

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cooperator.leader.events import PostOutcome
from cooperator.leader.stock_routes import StockRoutes
from cooperator.logs import LogUnavailable
from cooperator.model import ClusterConfig
from cooperator.wire import CommitRecord, ConfigFold, ConnectorRecord, Protocol, RestartRecord, encode_config


def committed() -> ClusterConfig:
    """Connector ``a`` without tasks: there is nobody to fence, but that is to be recorded."""
    fold = ConfigFold()
    for offset, record in enumerate((ConnectorRecord("a", {}), CommitRecord("a", 0))):
        fold.apply(encode_config(record), offset)
    return fold.snapshot()


async def answered(outcome: int | Exception, method: str, path: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The HTTP code of a leader whose requests end with ``outcome``."""
    monkeypatch.setattr("cooperator.leader.stock_routes.PATIENCE_S", 0.0)

    def fails(*_: object) -> "Future[int]":
        failed: Future[int] = Future()
        if isinstance(outcome, Exception):
            failed.set_exception(outcome)
        else:
            failed.set_result(outcome)
        return failed

    def restart(record: RestartRecord) -> int:
        return fails(record).result()

    config = SimpleNamespace(snapshot=committed, read_to_end=lambda _: committed())
    standing = SimpleNamespace(protocol=Protocol.COMPATIBLE.value, stock=True)
    lead: Any = SimpleNamespace(submit=lambda _: None, fenced=fails, standing=standing)
    logs: Any = SimpleNamespace(config=config)
    routes = StockRoutes(lambda: (lead, logs), "lake", lambda ids, settings: None, restart, dict)
    app = web.Application()
    for route, handler in routes.all().items():
        app.router.add_route(*route.split(" ", 1), handler)
    async with TestClient(TestServer(app)) as client:
        return (await client.request(method, path)).status


@pytest.mark.parametrize(
    ("method", "path", "outcome", "code"),
    [
        ("PUT", "/connectors/a/fence", PostOutcome.AGAIN, 503),
        ("PUT", "/connectors/a/fence", TimeoutError(), 503),
        ("PUT", "/connectors/a/fence", PostOutcome.NOT_LEADING, 409),
        ("POST", "/connectors/a/restart", PostOutcome.NOT_LEADING, 409),
        ("POST", "/connectors/a/restart", LogUnavailable("no broker"), 500),
        ("POST", "/connectors/a/restart", TimeoutError(), 500),
    ],
)
def test_a_request_during_an_outage_is_answered(
    method: str,
    path: str,
    outcome: int | Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
) -> None:
    assert asyncio.run(answered(outcome, method, path, monkeypatch)) == code
    assert "Traceback" not in caplog.text
