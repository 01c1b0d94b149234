"""The context of log lines: set where something is done, and added to all lines written meanwhile.

``event`` is the id of the external event that caused what is logged. It is text for people; no decision
depends on it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

FIELDS: Final = ("worker", "group", "member", "connector", "task", "generation", "event")
"""The fields, in the order of a line. ``worker`` is namespace/name."""

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_context: Final[ContextVar[Mapping[str, object]]] = ContextVar("log_lines", default=_NOTHING)
_common: Final[dict[str, object]] = {}


@contextmanager
def within(**fields: object) -> Iterator[None]:
    """Add ``fields`` (of ``FIELDS``) to the context of this thread's lines until the end of the block. Empty
    values and None count as unknown, and do not override an outer context."""
    known = {name: value for name, value in fields.items() if value is not None and value != ""}
    assert known.keys() <= frozenset(FIELDS), known
    token = _context.set({**_context.get(), **known})
    try:
        yield
    finally:
        _context.reset(token)


def common(**fields: object) -> None:
    """Add ``fields`` to the context of all lines of this process."""
    _common.update(fields)


def current() -> Mapping[str, object]:
    """Return the context that a line would get now."""
    return {**_common, **_context.get()}


def event() -> str:
    """Return the id of the event being handled; empty when none is known."""
    return str(_context.get().get("event", ""))
