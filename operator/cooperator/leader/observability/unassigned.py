"""Unassigned task-seconds, from a leader's projections. Pure, except for its memory."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.model import INSTANCE, TaskState

_NOBODYS: Final = frozenset((TaskState.UNASSIGNED.value, TaskState.HELD.value))


class UnassignedTime:
    """Sums over tasks; ``total_s`` only grows. Connector instances do not count."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._count = 0
        self._since_s: float | None = None

    def note(self, projected: Mapping[str, Any], now_s: float) -> None:
        """Add a projection. ``projected``: the state at ``now_s``, by any steady clock.

        The state counts as unchanged until the next call. While another member leads nothing is known, and
        nothing is added.
        """
        if self._since_s is not None:
            self.total_s += self._count * max(0.0, now_s - self._since_s)
        leading = bool(projected.get("leading"))
        self._since_s = now_s if leading else None
        tasks = (task for task in projected.get("tasks", ()) if task["task"] != INSTANCE)
        self._count = sum(task["state"] in _NOBODYS for task in tasks) if leading else 0
