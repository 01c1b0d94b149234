"""Runs callbacks on threads that must survive their failures."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)


def call_all(callbacks: Iterable[Callable[[T], None]], value: T) -> None:
    """Call each with ``value``; exceptions are logged, and affect neither other callbacks nor the caller."""
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception:
            logger.exception("a callback failed: %r", callback)
