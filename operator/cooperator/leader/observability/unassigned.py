"""The time in which tasks do not run, from a leader's projections. Pure, except for its memory."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.leader.distribution import Distribution
from cooperator.leader.observability.durations import AT_WORK
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

        The state counts as unchanged until the next call. Nothing is added while it is not known, as while
        another member leads.
        """
        if self._since_s is not None:
            self.total_s += self._count * max(0.0, now_s - self._since_s)
        is_known = bool(projected.get("known"))
        self._since_s = now_s if is_known else None
        tasks = (task for task in projected.get("tasks", ()) if task["task"] != INSTANCE)
        self._count = sum(task["state"] in _NOBODYS for task in tasks) if is_known else 0


class Interruptions:
    """Measures how long tasks that ran before are held, and how long they take from one member to the next.

    ``holds``: from the first projection in which a task is HELD until it is not. ``hand_overs``: the same for
    a task that was taken from its member without a hold, until it is at work elsewhere. Connector instances
    do not count.
    """

    def __init__(self) -> None:
        self.holds = Distribution()
        self.hand_overs = Distribution()
        self._ran: set[str] = set()
        self._held_s: dict[str, float] = {}
        self._handed_s: dict[str, float] = {}

    def note(self, projected: Mapping[str, Any], now_s: float) -> None:
        """Add a projection: the state at ``now_s``, by any steady clock. While nothing is known, as while
        another member leads, the intervals that had begun are forgotten."""
        before_held, before_handed, ran = self._held_s, self._handed_s, self._ran
        self._held_s, self._handed_s, self._ran = {}, {}, set()
        if not projected.get("known"):
            return
        for task in projected.get("tasks", ()):
            name, state = task["name"], task["state"]
            if task["task"] == INSTANCE:
                continue
            if state in AT_WORK or name in ran:
                self._ran.add(name)
            if state == TaskState.HELD.value:
                self._held_s[name] = before_held.get(name, now_s)
                continue
            if name in before_held:
                self.holds.add(max(0.0, now_s - before_held[name]))
            elif state in AT_WORK and name in before_handed:
                self.hand_overs.add(max(0.0, now_s - before_handed[name]))
            elif name in before_handed or (state == TaskState.UNASSIGNED.value and name in ran):
                self._handed_s[name] = before_handed.get(name, now_s)
