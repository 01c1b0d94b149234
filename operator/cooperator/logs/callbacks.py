"""Calling back, from threads that must go on whatever the callee does."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)


def call_all(callbacks: Iterable[Callable[[T], None]], value: T) -> None:
    """Call each with ``value``; one that raises is logged, and harms neither the others nor the caller."""
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception:
            logger.exception("a callback failed: %r", callback)
