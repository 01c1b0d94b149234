"""Conditions in the shape of Kubernetes' ``metav1.Condition``: what is the matter, since when, in words."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """``status``: "True", "False" or "Unknown"; ``since_ms``: of the last change of ``status``."""

    type: str
    status: str
    reason: str
    message: str
    since_ms: int


class Conditions:
    """A small thread-safe board of conditions, one of each type."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._board: dict[str, Condition] = {}

    def put(self, type_: str, status: bool | None, reason: str, message: str = "") -> None:
        """Say ``type_`` is ``status`` (None: unknown); the time changes only with the status."""
        word = "Unknown" if status is None else str(status)
        with self._lock:
            before = self._board.get(type_)
            since = before.since_ms if before and before.status == word else self._clock_ms()
            self._board[type_] = Condition(type_, word, reason, message, since)

    def get(self, type_: str) -> Condition | None:
        with self._lock:
            return self._board.get(type_)

    def all(self) -> list[Condition]:
        with self._lock:
            return [self._board[type_] for type_ in sorted(self._board)]
