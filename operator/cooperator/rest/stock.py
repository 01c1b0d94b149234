"""Information from stock Kafka Connect workers, fetched from a member's own REST API (``parts.Members``)."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from cooperator.rest.answers import RequestRefused
from cooperator.rest.calls import ask

_TYPES_S: Final = 60.0
"""A worker finds its plug-ins at its start; during a roll, another may have different ones."""
_SOON_S: Final = 3.0


class StockMembers:
    """``urls`` returns those of the members. Any member answers for all: they have the same plug-ins."""

    def __init__(
        self, urls: Callable[[], Sequence[str]], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._urls = urls
        self._clock_s = clock_s
        self._types: Mapping[str, str] = {}
        self._types_until = float("-inf")

    def wrong_name(self, name: str) -> str:
        """Kafka Connect's own restrictions apply when the resource is created."""
        return ""

    def plugins(self, connectors_only: bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(
            f"/connector-plugins?connectorsOnly={str(connectors_only).lower()}"
        )
        return found

    def plugin_config(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/connector-plugins/{quote(name, safe='')}/config")
        return found

    def validate(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        path = f"/connector-plugins/{quote(name, safe='')}/config/validate"
        found: dict[str, Any] = ask(self._urls(), "PUT", path, json.dumps(dict(config)).encode())
        return found

    def type_of(self, class_name: str) -> str:
        """The type by the workers' latest answer; unknown while none of them answers."""
        if self._clock_s() >= self._types_until:
            try:
                plugins = self.plugins(connectors_only=True)
            except RequestRefused:
                # A list of many connectors must not wait for each of them.
                self._types_until = self._clock_s() + _SOON_S
                return self._types.get(class_name, "unknown")
            self._types = {
                name: plugin["type"]
                for plugin in plugins
                for name in _names(plugin["class"])
                if plugin["type"] in ("source", "sink")
            }
            self._types_until = self._clock_s() + _TYPES_S
        return self._types.get(class_name, "unknown")

    def topics(self, name: str) -> list[str]:
        """Every worker reads them from the status topic."""
        found: list[str] = self._get(f"/connectors/{quote(name, safe='')}/topics")[name]["topics"]
        return found

    def loggers(self) -> dict[str, Any]:
        """The loggers of the member that was asked: each has its own."""
        found: dict[str, Any] = self._get("/admin/loggers")
        return found

    def logger(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/admin/loggers/{quote(name, safe='')}")
        return found

    def set_level(self, name: str, level: str, scope: str) -> list[str] | None:
        """In Kafka's API a request without a scope addresses one worker. A caller of a front means all of
        them, so each is asked."""
        body = json.dumps({"level": level}).encode()
        path = f"/admin/loggers/{quote(name, safe='')}"
        urls = self._urls()
        if not urls:
            raise RequestRefused(503, "the group has no members at the moment: try again")
        changed = [ask([url], "PUT", path, body) for url in urls]
        return None if scope == "cluster" else changed[0]

    def _get(self, path: str) -> Any:
        return ask(self._urls(), "GET", path)


def _names(class_name: str) -> set[str]:
    """A class can be given by its full name, or by its last word with or without «Connector»."""
    short = class_name.rpartition(".")[2]
    return {class_name, short, short.removesuffix("Connector")}
