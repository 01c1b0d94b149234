"""Durations of rounds and starts, from a leader's projections. Pure, except for its memory."""

from typing import Any, Final

from cooperator.leader.distribution import Distribution
from cooperator.model import TaskState

AT_WORK: Final = frozenset(
    state.value for state in (TaskState.RUNNING, TaskState.PAUSED, TaskState.STOPPED, TaskState.FAILED)
)
_KEPT: Final = 200

Round = tuple[int, int]
"""(term, generation)"""


class Durations:
    """Completes a leader's projections (see ``projection``), which must be passed in one after the other.

    A task reports when it began to run, and again whenever it has progressed, so its first report counts.

    ``rounds``: from the cause of a round until all that it assigned runs; ``starts``: of each of these tasks,
    from the plan until it runs.
    """

    def __init__(self) -> None:
        self._known: dict[Round, int] = {}
        self._began: dict[str, dict[str, int]] = {}
        """By epoch and task; of rounds that have not ended."""
        self.rounds = Distribution()
        self.starts = Distribution()

    def note(self, projected: dict[str, Any]) -> None:
        """Set ``duration_ms`` in each of the ``rebalances``.

        A round ends when the last task it assigned is reported to run or to have failed; a round that
        assigned none ends when its plan was decided. 0 means not yet, or never, because a later round
        assigned such a task elsewhere first. Times are by the members' clocks: a duration is as exact as
        these agree.
        """
        rebalances = projected.get("rebalances") or ()
        awaited = {}
        for each in rebalances:
            if (each["term"], each["generation"]) not in self._known:
                awaited[f"{each['term']}.{each['generation']}"] = each
        self._look(projected, awaited)
        for epoch, each in awaited.items():
            began = self._began.get(epoch, {})
            if len(began) >= each["assigned"]:
                end_ms = max(each["at_ms"], max(began.values(), default=0))
                key = each["term"], each["generation"]
                self._known[key] = max(1, end_ms - each["since_ms"])
                self.rounds.add(self._known[key] / 1000)
                for at_ms in began.values():
                    self.starts.add(max(0, at_ms - each["at_ms"]) / 1000)
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        for each in rebalances:
            each["duration_ms"] = self._known.get((each["term"], each["generation"]), 0)

    def _look(self, projected: dict[str, Any], awaited: dict[str, dict[str, Any]]) -> None:
        self._began = {epoch: began for epoch, began in self._began.items() if epoch in awaited}
        if awaited:
            for task in projected["tasks"]:
                epoch = task.get("epoch")
                if epoch in awaited and task["state"] in AT_WORK:
                    self._began.setdefault(epoch, {}).setdefault(task["name"], task["at_ms"])
