"""Limits how often updates of a value are passed on."""

from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Throttle(Generic[_T]):
    """Passes on at most one value per interval, and always the newest one in the end: early values wait.

    ``sent_ms``: when a value was passed on last. ``waiting``: the newest value since; None if there is none.
    The owner sets its timer to ``due_ms``, and calls ``sent`` when it passes the value on.
    """

    sent_ms: int | None = None
    waiting: _T | None = None

    def offer(self, value: _T, at_once: bool = False) -> "Throttle[_T]":
        """Let ``value`` wait, in place of an earlier one.

        ``at_once``: it is due whatever was passed on before.
        """
        return Throttle(None if at_once else self.sent_ms, value)

    def due_ms(self, now_ms: int, every_ms: int) -> int | None:
        """Return when the waiting value may be passed on (``now_ms`` if now); None if none waits."""
        if self.waiting is None:
            return None
        return now_ms if self.sent_ms is None else max(now_ms, self.sent_ms + every_ms)

    def sent(self, now_ms: int) -> "Throttle[_T]":
        return Throttle(now_ms, None)
