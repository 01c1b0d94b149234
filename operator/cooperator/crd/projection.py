"""Building blocks of statuses: models that print, texts and lists that fit into an object."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cooperator.model.trace import trimmed
from cooperator.model.visible import visible_json, visible_line, visible_text

T = TypeVar("T")
_PAGE: Final = 2048

LISTED: Final = 100
"""The upper limit of a list in a status; counts beside it include all entries."""


class Projection(BaseModel):
    """Built in Python by field names, printed in camelCase; never read from a manifest."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )


def _line(limit: int) -> BeforeValidator:
    """One line, escaped and then cut: an escape is longer than what it stands for."""

    def cut(text: str) -> str:
        shown = visible_line(text)
        return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"

    return BeforeValidator(cut)


# Texts of a status are of these types, which escape them, and of no other (decision 132).
Word: TypeAlias = Annotated[str, _line(317), Field(max_length=317)]
"""A name, a reason."""
Sentence: TypeAlias = Annotated[str, _line(1024), Field(max_length=1024)]
Page: TypeAlias = Annotated[
    str, BeforeValidator(lambda text: trimmed(visible_text(text), _PAGE)), Field(max_length=_PAGE)
]
"""A stack trace, with its lines. It is cut in the middle: an object has room for about a megabyte."""
JsonPage: TypeAlias = Annotated[
    str, BeforeValidator(lambda text: trimmed(visible_json(text), _PAGE)), Field(max_length=_PAGE)
]
"""A JSON document, such as a progress report, cut like a ``Page``."""
Time: TypeAlias = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
"""RFC 3339; never empty."""


def most_urgent(entries: Iterable[T], urgency: Callable[[T], tuple[Any, ...]]) -> tuple[T, ...]:
    """All entries in order; if there are too many, those with the lowest ``urgency``, in that order."""
    listed = tuple(entries)
    return listed if len(listed) <= LISTED else tuple(sorted(listed, key=urgency)[:LISTED])


def timestamp(now_ms: int) -> str:
    """RFC 3339 in UTC with seconds, as Kubernetes writes times."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def milliseconds(text: str) -> int:
    """The inverse of ``timestamp``: RFC 3339 as the API server writes it, in ms since the epoch."""
    plain = text.removesuffix("Z").removesuffix("+00:00")
    return int(datetime.fromisoformat(plain).replace(tzinfo=UTC).timestamp() * 1000)
