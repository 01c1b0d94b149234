"""A client of the REST API for tests, with one line per call."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.harness.support import eventually


@dataclass
class Client:
    """``url`` is the address of the API."""

    url: str
    authorization: str = ""

    def send(self, line: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status code and the body of the answer; ``line`` is a method and a path."""
        method, _, path = line.partition(" ")
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(where.hostname), where.port or 0, timeout=60)
        data = None if body is None else json.dumps(body)
        sent = {"Content-Type": "application/json"} if data else {}
        if self.authorization:
            sent["Authorization"] = self.authorization
        try:
            connection.request(method, path, data, {**sent, **headers})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def __call__(self, line: str, body: Any = None, code: int = 200) -> Any:
        """The body of the answer. Raises AssertionError on another status code or without an answer."""
        try:
            status, answer = self.send(line, body)
        except OSError as error:
            raise AssertionError(f"{line}: {error}") from None
        assert status == code, (line, status, answer)
        return answer

    def states(self, name: str) -> list[str]:
        """The state of the connector, then of its tasks."""
        status = self(f"GET /connectors/{quote(name, safe='')}/status")
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def in_states(self, name: str, *states: str, timeout_s: float = 90) -> None:
        """Waits until connector and tasks are in these states."""
        eventually(lambda: self.states(name) == list(states), timeout_s, f"{name}: {states}")
