"""Durations of rounds and starts, from a leader's projections. Pure, except for its memory."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

from cooperator.leader.distribution import Distribution
from cooperator.model import TaskState

AT_WORK: Final = frozenset(
    state.value for state in (TaskState.RUNNING, TaskState.PAUSED, TaskState.STOPPED, TaskState.FAILED)
)
_KEPT: Final = 200

Round = tuple[int, int]
"""(term, number): attempts are named by the generation in rounds, and by the group's epoch without them. Each
change between the two begins a term."""


class Durations:
    """Completes a leader's projections (see ``projection``), which must be passed in one after the other.

    A task reports when it began to run, and again whenever it has progressed, so its first report counts.

    ``rounds``: from the cause of a round until all that it assigned runs; ``starts``: of each of these tasks,
    from the plan until it runs.
    """

    def __init__(self) -> None:
        self._known: dict[Round, int] = {}
        self._began: dict[Round, dict[str, int]] = {}
        """By round and task; of rounds that have not ended."""
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
            if round_of(each) not in self._known:
                awaited[round_of(each)] = each
        self._look(projected, awaited, sorted(map(round_of, rebalances)))
        for key, each in awaited.items():
            began = self._began.get(key, {})
            if len(began) >= each["assigned"]:
                end_ms = max(each["at_ms"], max(began.values(), default=0))
                self._known[key] = max(1, end_ms - each["since_ms"])
                self.rounds.add(self._known[key] / 1000)
                for at_ms in began.values():
                    self.starts.add(max(0, at_ms - each["at_ms"]) / 1000)
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        for each in rebalances:
            each["duration_ms"] = self._known.get(round_of(each), 0)

    def _look(
        self, projected: dict[str, Any], awaited: dict[Round, dict[str, Any]], rounds: list[Round]
    ) -> None:
        self._began = {key: began for key, began in self._began.items() if key in awaited}
        if awaited:
            is_target = {key: bool(each.get("epoch")) for key, each in awaited.items()}
            for task in projected["tasks"]:
                key = _begun_by(task.get("epoch"), is_target, rounds)
                if key is not None and task["state"] in AT_WORK:
                    self._began.setdefault(key, {}).setdefault(task["name"], task["at_ms"])


def round_of(rebalance: Mapping[str, Any]) -> Round:
    """The round, or the target, of an entry of ``rebalances``."""
    return rebalance["term"], rebalance.get("epoch") or rebalance["generation"]


def _begun_by(epoch: str | None, is_target: Mapping[Round, bool], rounds: list[Round]) -> Round | None:
    """The awaited round, or target, that has begun an attempt.

    A member may get a task some epochs after its target was computed: when others have released it.
    """
    term, _, number = (epoch or "").partition(".")
    if not (term.isdecimal() and number.isdecimal()):
        return None
    key = int(term), int(number)
    if key in is_target:
        return key
    before = bisect_right(rounds, key) - 1
    found = rounds[before] if before >= 0 else None
    return found if found is not None and found[0] == key[0] and is_target.get(found) else None
