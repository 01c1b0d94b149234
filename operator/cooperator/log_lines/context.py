"""What lines are about: known where something is done, added to whatever is said meanwhile.

``event`` is the id of what has happened in the world that something goes back to. It is text for people:
nothing is decided by it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

FIELDS: Final = ("worker", "group", "member", "connector", "task", "generation", "event")
"""In the order of a line. ``worker`` is namespace/name."""

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_context: Final[ContextVar[Mapping[str, object]]] = ContextVar("log_lines", default=_NOTHING)
_common: Final[dict[str, object]] = {}


@contextmanager
def within(**fields: object) -> Iterator[None]:
    """Lines of this thread are about ``fields`` (of ``FIELDS``), too, until the end of the block. What is
    empty or None is not known, and hides nothing."""
    known = {name: value for name, value in fields.items() if value is not None and value != ""}
    assert known.keys() <= frozenset(FIELDS), known
    token = _context.set({**_context.get(), **known})
    try:
        yield
    finally:
        _context.reset(token)


def common(**fields: object) -> None:
    """All lines of this process are about ``fields``."""
    _common.update(fields)


def current() -> Mapping[str, object]:
    """What a line would be about now."""
    return {**_common, **_context.get()}


def event() -> str:
    """The id of what is being dealt with; empty when none is known."""
    return str(_context.get().get("event", ""))
