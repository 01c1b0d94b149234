"""Planted bugs of moves of tasks with state (see ``mutations``)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from cooperator.agent.learner_thread import LearnerThread
from cooperator.planner import holds
from cooperator.planner.learners import LearnerPlanning, promoted
from cooperator.runtime import TaskSpec
from tests.simulation.planted import Patch, planted

FAST: Final = ("MovesStateIntoTheCold", "LearnersRunWhatTheyLearn")


@planted
def moves_state_into_the_cold() -> Sequence[Patch]:
    """A task with state moves at once, whether the member that gets it has learned its state or not."""
    return [patch.object(LearnerPlanning, "may_move", lambda self, task, to: True)]


@planted
def gives_warm_ups_up_at_once() -> Sequence[Patch]:
    """A warm-up counts as over once it has begun."""
    return [patch.object(LearnerPlanning, "is_over", lambda self, task, identity: task in self._known)]


@planted
def never_gives_warm_ups_up() -> Sequence[Patch]:
    """A task waits for a learner that cannot catch up for ever."""
    return [patch.object(LearnerPlanning, "is_over", lambda self, task, identity: False)]


@planted
def learns_everything_at_a_time() -> Sequence[Patch]:
    """All warm-ups begin at once."""
    right = LearnerPlanning.warmups

    def wrong(self: Any, *args: Any) -> Any:
        view = self._view
        stateful = {name: replace(each, max_warmups=1_000) for name, each in view.stateful.items()}
        self._view = replace(view, stateful=stateful)
        try:
            return right(self, *args)
        finally:
            self._view = view

    return [patch.object(LearnerPlanning, "warmups", wrong)]


@planted
def learners_take_over_from_the_living() -> Sequence[Patch]:
    """A standby gets the tasks of a member that is away, without a proof of its end."""
    right = holds._Settling._absent

    def wrong(self: Any, identity: str, lost: Any, hold: Any) -> None:
        taken = promoted(self.view, self.roster, lost)
        self.settled.free.update(taken)
        self.fenced = {task: held for task, held in self.fenced.items() if task not in taken}
        right(self, identity, lost.difference(taken), hold)

    return [patch.object(holds._Settling, "_absent", wrong)]


@planted
def learners_run_what_they_learn() -> Sequence[Patch]:
    """A member starts the tasks that it is to learn."""
    right = LearnerThread.follow

    def wrong(self: Any) -> None:
        right(self)
        for task, config in self._wanted.items():
            if task not in self._runtime.copies:
                self._runtime.start(TaskSpec(task, config), 1_000_000)

    return [patch.object(LearnerThread, "follow", wrong)]
