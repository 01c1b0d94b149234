"""What a request is and how it is answered, without any server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class Refused(Exception):
    """The request is answered with ``code`` in Kafka Connect's shape of errors, and has changed nothing."""

    def __init__(self, code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Answer:
    """``body``: JSON; None: there is none."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(refused: Refused) -> Answer:
    body = {"error_code": refused.code, "message": str(refused)}
    return Answer(refused.code, body, refused.headers)


@dataclass(frozen=True, slots=True)
class Right:
    """What a caller must be allowed, in Kubernetes' terms: ``name`` empty: any of the resource."""

    verb: str
    resource: str = "connectors"
    subresource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one route. ``path``: its parameters; ``query``: read by the route's own types;
    ``body``: the JSON that was sent; ``permit``: raises Refused where the caller lacks one more right."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    permit: Callable[[Right], None] = lambda right: None

    @property
    def name(self) -> str:
        """The connector that the path names."""
        return self.path["connector"]
