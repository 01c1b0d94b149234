"""The status of a leader with the totals of its process, which only grow."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.observability.durations import Durations
from cooperator.leader.observability.projection import project
from cooperator.leader.observability.unassigned import Interruptions, UnassignedTime
from cooperator.model import TaskId, TaskStatus


class Totals:
    """Completes the projections of one process's leaders. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations = Durations()
        self._unassigned = UnassignedTime()
        self._interruptions = Interruptions()
        self._projected: dict[str, Any] = {}

    def projected(
        self, lead: LeaderThread, statuses: Mapping[TaskId, TaskStatus], timeout_s: float
    ) -> dict[str, Any]:
        """The projection (see ``project``) with ``totals``, and ``why_in_rounds`` of the machine.

        ``stale``: the thread waits for the broker, and this is the last projection that was made.
        """
        try:
            found = lead.ask(
                lambda machine: {
                    **project(machine.state, statuses),
                    "why_in_rounds": machine.why_in_rounds(lead.now_ms()),
                }
            ).result(timeout_s)
        except TimeoutError:
            return {**self._complete(lead, self._projected), "stale": True}
        assert isinstance(found, dict)
        self._projected = found
        return self._complete(lead, found)

    def _complete(self, lead: LeaderThread, projected: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._durations.note(projected)
            now_s = time.monotonic()
            self._unassigned.note(projected, now_s)
            self._interruptions.note(projected, now_s)
            totals = {
                "rounds": self._durations.rounds.shown(),
                "starts": self._durations.starts.shown(),
                "holds": self._interruptions.holds.shown(),
                "hand_overs": self._interruptions.hand_overs.shown(),
                "plans": lead.plans.shown(),
                "unassigned_task_ms": self._unassigned.total_s * 1000,
                "forced_rounds": lead.machine.forced_rounds,
            }
        return {**projected, "totals": totals}
