"""Conditions in the shape of Kubernetes' ``metav1.Condition``."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from cooperator.model import is_amiss

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """``status``: "True", "False" or "Unknown"; ``since_ms``: the last change of ``status``."""

    type: str
    status: str
    reason: str
    message: str
    since_ms: int


class Conditions:
    """A small thread-safe set of conditions, one of each type. Each change is logged."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._board: dict[str, Condition] = {}

    def put(self, type_: str, status: bool | None, reason: str, message: str = "") -> None:
        """Set the condition ``type_`` to ``status`` (None: unknown); its time only changes with that."""
        word = "Unknown" if status is None else str(status)
        with self._lock:
            before = self._board.get(type_)
            since = before.since_ms if before and before.status == word else self._clock_ms()
            now = self._board[type_] = Condition(type_, word, reason, message, since)
        if now != before:
            _log(now, before)

    def get(self, type_: str) -> Condition | None:
        with self._lock:
            return self._board.get(type_)

    def all(self) -> list[Condition]:
        with self._lock:
            return [self._board[type_] for type_ in sorted(self._board)]


def _log(now: Condition, before: Condition | None) -> None:
    if before is None and not is_amiss(now.type, now.status):
        return  # The normal initial state.
    # A status that is merely unknown yet, or fine again, needs no attention.
    amiss = is_amiss(now.type, now.status) and bool(now.message)
    text = f": {now.message}" if now.message else ""
    log.log(
        logging.WARNING if amiss else logging.INFO, "%s is %s (%s)%s", now.type, now.status, now.reason, text
    )
