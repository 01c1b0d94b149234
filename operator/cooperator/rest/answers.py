"""Requests and answers, without any server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class RequestRefused(Exception):
    """The request is answered with ``code`` in Kafka Connect's error format and changed nothing."""

    def __init__(self, code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is JSON, or None for no body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(refused: RequestRefused) -> Answer:
    body = {"error_code": refused.code, "message": str(refused)}
    return Answer(refused.code, body, refused.headers)


@dataclass(frozen=True, slots=True)
class Right:
    """A permission that a caller needs, in Kubernetes' terms; an empty ``name`` means any object."""

    verb: str
    resource: str = "connectors"
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one route. ``path`` has its parameters, ``query`` is parsed by the route's types,
    ``body`` is the JSON that was sent, and ``permit`` raises RequestRefused if the caller lacks a further
    right."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    permit: Callable[[Right], None] = lambda right: None

    @property
    def name(self) -> str:
        """The connector that the path names."""
        return self.path["connector"]
