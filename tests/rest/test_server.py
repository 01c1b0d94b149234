"""The API over HTTP: kcctl's requests, requests of browsers, and any request that its OpenAPI document
allows."""

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from cooperator.rest import app
from cooperator.rest.answers import Right
from cooperator.rest.app import RestServer
from cooperator.rest.front import Request
from cooperator.rest.openapi import document
from tests.rest.client import Client
from tests.rest.fake_front import NOOP, FakeFront


def test_requests_of_kcctl_are_answered(server: RestServer) -> None:
    """The calls of kcctl 1.0 (its interface KafkaConnectApi), in a sensible order."""
    config = {**NOOP, "name": "a"}
    client = Client(server.url)
    expected = (
        ("GET", "/", None, 200),
        ("GET", "/connector-plugins?connectorsOnly=false", None, 200),
        ("GET", "/connector-plugins/noop/config", None, 200),
        ("PUT", "/connector-plugins/noop/config/validate", config, 200),
        ("GET", "/connectors/", None, 200),
        ("POST", "/connectors/", {"name": "a", "config": NOOP}, 201),
        ("GET", "/connectors/a", None, 200),
        ("GET", "/connectors?expand=status&expand=info", None, 200),
        ("GET", "/connectors/a/status", None, 200),
        ("GET", "/connectors/a/config", None, 200),
        ("GET", "/connectors/a/tasks-config", None, 200),
        ("GET", "/connectors/a/topics", None, 200),
        ("PUT", "/connectors/a/config", {**config, "units": "3"}, 200),
        ("POST", "/connectors/a/restart", None, 204),
        ("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=false", None, 202),
        ("POST", "/connectors/a/tasks/0/restart", None, 204),
        ("PUT", "/connectors/a/pause", None, 202),
        ("PUT", "/connectors/a/resume", None, 202),
        ("PUT", "/connectors/a/stop", None, 204),
        ("GET", "/connectors/a/offsets", None, 200),
        ("PATCH", "/connectors/a/offsets", {"offsets": [{"partition": {"x": 1}, "offset": {"y": 2}}]}, 200),
        ("DELETE", "/connectors/a/offsets", None, 200),
        ("GET", "/admin/loggers/root", None, 404),
        ("PUT", "/admin/loggers/root", {"level": "DEBUG"}, 404),
        ("PUT", "/admin/loggers/root?scope=cluster", {"level": "DEBUG"}, 404),
        ("DELETE", "/connectors/a", None, 204),
    )
    answered = [(m, p, b, client.send(f"{m} {p}", b)[0]) for m, p, b, _ in expected]
    assert answered == list(expected)


def test_a_page_in_a_browser_gets_no_answer(server: RestServer, fake: FakeFront) -> None:
    """Neither a foreign page nor a page whose host name was rebound to this machine gets an answer."""
    fake.create("a")
    code, body = Client(server.url).send("POST /connectors/a/restart", Origin="http://evil.example")
    assert (code, body) == (403, None)
    assert Client(server.url).send("GET /connectors", Host="evil.example") == (421, None)
    assert fake.group.restarts == []


def test_head_is_get_without_the_body(server: RestServer) -> None:
    assert Client(server.url).send("HEAD /connectors") == (200, None)


EXAMPLES = int(os.environ.get("COOPERATOR_EXAMPLES", "15"))
"""Examples per operation; the long run uses more (docs/evidence/fuzzing.md)."""
schema = schemathesis.openapi.from_dict(document())
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
)


@pytest.fixture(scope="module")
def fuzzed() -> Any:
    """One API for all examples, with some connectors to begin with, so that examples meet each other's
    results."""
    fake = FakeFront()
    for name in ("a", "b", "c"):
        fake.create(name)
    fake.ok("PUT /connectors/c/stop", code=204)
    server = RestServer(fake.front, "127.0.0.1", 0)
    server.start()
    yield server
    server.stop()


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_every_request_that_the_document_allows_gets_a_documented_answer(
    case: Any, fuzzed: RestServer
) -> None:
    case.call_and_validate(base_url=fuzzed.url.rstrip("/"), checks=CHECKS, timeout=20)


@contextmanager
def connected(*tokens: str) -> Iterator[socket.socket]:
    """A connection to an API that allows the bearers of ``tokens`` everything."""
    fake = FakeFront({f"Bearer {token}": {Right("create")} for token in tokens})
    server = RestServer(fake.front, "127.0.0.1", 0)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            yield connection
    finally:
        server.stop()


def head(line: str, length: int, token: str = "") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{line} HTTP/1.1\r\nHost: x\r\n{bearer}Content-Length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("line", "token", "code"),
    [
        ("POST /connectors", "", 401),
        ("POST /connectors", "nobody", 401),
        ("PUT /connectors/a/config", "creator", 403),
        ("POST /nowhere", "creator", 404),
    ],
)
def test_an_unauthorized_request_is_refused_before_its_body_is_sent(line: str, token: str, code: int) -> None:
    with connected("creator") as connection:
        connection.sendall(head(line, 900_000, token))
        assert connection.recv(100).startswith(f"HTTP/1.1 {code} ".encode())


def test_requests_beyond_those_that_wait_for_their_authorization_are_refused(
    monkeypatch: pytest.MonkeyPatch, fake: FakeFront, server: RestServer
) -> None:
    monkeypatch.setattr(app, "_MAX_ADMITTING", 2)
    begun, go_on = threading.Semaphore(0), threading.Event()
    admit = fake.front.admit

    def slow(request: Request) -> Any:
        begun.release()
        assert go_on.wait(60)
        return admit(request)

    monkeypatch.setattr(fake.front, "admit", slow)
    with ThreadPoolExecutor(2) as others:
        answers = [others.submit(Client(server.url).send, "GET /connectors") for _ in range(2)]
        assert begun.acquire(timeout=60)
        assert begun.acquire(timeout=60)
        code, body = Client(server.url).send("GET /connectors")
        go_on.set()
        assert (code, body["error_code"]) == (503, 503)
        assert "send this one again later" in body["message"]
        assert [each.result()[0] for each in answers] == [200, 200]
    assert Client(server.url).send("GET /connectors")[0] == 200


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_BODY_S", 0.3)
    with connected("creator") as connection:
        connection.sendall(head("POST /connectors", 900_000, "creator") + b'{"name": ')
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
