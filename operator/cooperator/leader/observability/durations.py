"""Durations of rounds, from their cause until all assigned tasks run. Pure, except for its memory."""

from typing import Any, Final

from cooperator.model import TaskState

_AT_WORK: Final = frozenset(
    state.value for state in (TaskState.RUNNING, TaskState.PAUSED, TaskState.STOPPED, TaskState.FAILED)
)
_KEPT: Final = 200

Round = tuple[int, int]
"""(term, generation)"""


class Durations:
    """Completes a leader's projections (see ``projection``), which must be passed in one after the other.

    A task reports when it began to run, and again whenever it has progressed, so its first report counts.
    """

    def __init__(self) -> None:
        self._known: dict[Round, int] = {}
        self.count = 0
        """Number of rounds that have ended; ``total_ms``: the sum of their durations."""
        self.total_ms = 0

    def note(self, projected: dict[str, Any]) -> None:
        """Set ``duration_ms`` in each of the ``rebalances``.

        A round ends when the last task it assigned is reported to run or to have failed; a round that
        assigned none ends when its plan was decided. 0 means not yet, or never, because a later round
        assigned such a task elsewhere first. Times are by the members' clocks: a duration is as exact as
        these agree.
        """
        rebalances = projected.get("rebalances") or ()
        if any((each["term"], each["generation"]) not in self._known for each in rebalances):
            begun = _begun(projected)
            for each in rebalances:
                key = (each["term"], each["generation"])
                began_ms, count = begun.get(f"{key[0]}.{key[1]}", (0, 0))
                if key not in self._known and count >= each["assigned"]:
                    end_ms = max(each["at_ms"], began_ms)
                    self._known[key] = max(1, end_ms - each["since_ms"])
                    self.count += 1
                    self.total_ms += self._known[key]
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        for each in rebalances:
            each["duration_ms"] = self._known.get((each["term"], each["generation"]), 0)


def _begun(projected: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By epoch: when the last of its tasks began, and how many have begun."""
    found: dict[str, tuple[int, int]] = {}
    for task in projected["tasks"]:
        epoch = task.get("epoch")
        if epoch and task["state"] in _AT_WORK:
            at_ms, count = found.get(epoch, (0, 0))
            found[epoch] = max(at_ms, task["at_ms"]), count + 1
    return found
