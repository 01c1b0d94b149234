"""A client of the API, for tests: one call a line."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.harness.support import eventually


@dataclass
class Client:
    """``url``: of the front."""

    url: str
    authorization: str = ""

    def send(self, line: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Code and body of the answer; ``line``: a method and a path."""
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
        """The answer's body; AssertionError where it has another code, or there is none."""
        try:
            status, answer = self.send(line, body)
        except OSError as error:
            raise AssertionError(f"{line}: {error}") from None
        assert status == code, (line, status, answer)
        return answer

    def states(self, name: str) -> list[str]:
        """Of the connector, then of its tasks."""
        status = self(f"GET /connectors/{quote(name, safe='')}/status")
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def in_states(self, name: str, *states: str, timeout_s: float = 90) -> None:
        """Wait until connector and tasks are in these."""
        eventually(lambda: self.states(name) == list(states), timeout_s, f"{name}: {states}")
