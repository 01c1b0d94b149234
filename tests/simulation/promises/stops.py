"""Promise 8: a stop that never ends does not block the task's move.

A copy whose stop never ends is gone, with its member, by the revocation time-out; so the task can run
elsewhere, as it must at rest. Only a frozen machine is waited for: there nothing runs.
"""

from tests.simulation.promises.base import Promise
from tests.simulation.tasks import Copy

_SLACK_MS = 100


class HangingStopsEnd(Promise):
    def check(self) -> None:
        simulation = self.simulation
        if simulation.hanging:
            simulation.hanging = [copy for copy in simulation.hanging if self._is_there(copy)]
            for copy in simulation.hanging:
                since_ms = max(copy.hangs_since_ms or 0, copy.member.woke_ms)
                late = simulation.now_ms > since_ms + simulation.times.revocation_ms + _SLACK_MS
                if late and copy.member.frozen_ms is None:
                    raise self.broken(f"{copy} hangs in its stop since {since_ms}, and blocks its move")

    def _is_there(self, copy: Copy) -> bool:
        return copy in self.simulation.copies.by_task.get(copy.task, ())
