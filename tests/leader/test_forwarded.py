"""Responses to users of stock workers who try to change a connector of a group that we lead."""

import asyncio
import json
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cooperator.leader.stock_routes import Forwarded

HAS_RESOURCE = {"orders": True, "My Connector_1": False, "a/b": False}


async def answer(method: str, path: str) -> tuple[int, str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Forwarded(HAS_RESOURCE.get).answer)
    async with TestClient(TestServer(app)) as client:
        found = await client.request(method, path)
        return found.status, json.loads(await found.text())["message"]


@pytest.mark.parametrize(
    ("method", "path", "says"),
    [
        ("PUT", "/connectors/orders/config", "are Connector resources of the operator"),
        ("DELETE", "/connectors/orders", "are Connector resources of the operator"),
        ("DELETE", "/connectors/My%20Connector_1", "connector My Connector_1 of this group has no Connector"),
        ("PATCH", "/connectors/My%20Connector_1/offsets", "connector My Connector_1 of this group has no"),
        ("PUT", f"/connectors/{quote('a/b', safe='')}/config", "connector a/b of this group has no"),
        ("POST", "/connectors", "apply one there (with spec.connectorName"),
        ("PUT", "/connectors/new/config", "apply one there (with spec.connectorName"),
    ],
)
def test_a_refusal_says_what_is_true_of_the_connector(method: str, path: str, says: str) -> None:
    code, message = asyncio.run(answer(method, path))
    assert code == 403
    assert says in message
