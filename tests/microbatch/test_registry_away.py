"""A registry of schemas that is away is waited for; what it refuses for good is not."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka.schema_registry.error import SchemaRegistryError

from cooperator.connectors.base import ServiceAway
from cooperator.connectors.registry import (
    AvroReader,
    RegistryOptions,
    Undecodable,
    registered,
    registry_client,
    waiting_for,
)

RECORD = b"\x00\x00\x00\x00\x07\x06abc"
"""A text by the schema 7."""


class FakeRegistry:
    """Answers each request with ``status``; 200 is the schema of a text."""

    def __init__(self) -> None:
        self.status = 200
        self.asked = 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked += 1
                is_well = registry.status == 200
                answer = {"schema": '"string"'} if is_well else {"error_code": 1, "message": "not now"}
                body = json.dumps(answer).encode()
                self.send_response(registry.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


def options(url: str) -> RegistryOptions:
    return RegistryOptions.model_validate({"connector.class": "noop", "schema.registry.url": url})


def reader(url: str, clock: Clock) -> AvroReader:
    return AvroReader(registry_client(options(url)), url, clock)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_registry_that_cannot_answer_is_named_and_asked_again_later(
    registry: FakeRegistry, status: int
) -> None:
    clock = Clock()
    read = reader(registry.url, clock)
    registry.status = status
    with pytest.raises(ServiceAway, match=f"waiting for the schema registry {registry.url} .*{status}"):
        read(RECORD)
    asked = registry.asked
    with pytest.raises(ServiceAway, match=registry.url):
        read(RECORD)
    assert registry.asked == asked, "many records ask once"
    registry.status, clock.now_s = 200, 60.0
    assert read(RECORD)[1] == "abc"


def test_a_registry_without_a_process_is_away() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ServiceAway, match=f"{url} .*schema.registry.url"):
            reader(url, Clock())(RECORD)


def test_a_registry_that_is_away_is_waited_for_when_schemas_are_written(registry: FakeRegistry) -> None:
    registry.status = 503
    client = registry_client(options(registry.url))
    with pytest.raises(ServiceAway, match=registry.url), waiting_for(registry.url):
        registered(client, "orders-value", "string")


@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_refuses_is_not_waited_for(registry: FakeRegistry, status: int) -> None:
    registry.status = status
    with pytest.raises(SchemaRegistryError, match=str(status)):
        reader(registry.url, Clock())(RECORD)


def test_a_schema_that_is_missing_is_a_defect_of_its_record(registry: FakeRegistry) -> None:
    registry.status = 404
    with pytest.raises(Undecodable, match="has no schema 7"):
        reader(registry.url, Clock())(RECORD)
