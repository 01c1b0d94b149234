"""How long tasks were nobody's, in task-seconds, by a leader's projections. Pure, but for its memory."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.model import INSTANCE, TaskState

_NOBODYS: Final = frozenset((TaskState.UNASSIGNED.value, TaskState.HELD.value))


class UnassignedTime:
    """Adds up task by task; ``total_s`` only grows. Connectors' own instances do not count."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._count = 0
        self._since_s: float | None = None

    def note(self, projected: Mapping[str, Any], now_s: float) -> None:
        """``projected``: as it is at ``now_s``, by any clock that goes evenly. What it shows is taken to last
        until the next one; while somebody else leads nothing is known, and nothing is added."""
        if self._since_s is not None:
            self.total_s += self._count * max(0.0, now_s - self._since_s)
        leading = bool(projected.get("leading"))
        self._since_s = now_s if leading else None
        tasks = (task for task in projected.get("tasks", ()) if task["task"] != INSTANCE)
        self._count = sum(task["state"] in _NOBODYS for task in tasks) if leading else 0
