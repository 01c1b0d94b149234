"""What the agent's thread and the group's thread share: the report, and which join carried which report."""

import threading
from collections.abc import Callable

from cooperator.agent.events import Event
from cooperator.agent.instructions import Instruction
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Phase, Report
from cooperator.agent.story import StoryLine
from cooperator.model import TaskId


class Desk:
    """The supervisor behind a lock.

    A join carries the report as it is at that moment; a share counts only as long as no later join has
    carried another. The lock makes both a question of before or after: either the share is in the report
    that the next join carries, or that join has overtaken it and it is not taken.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._joins = 0
        self._sent = supervisor.report

    def take(
        self, event_of: "Callable[[Desk], Event | None]", now_ms: Callable[[], int]
    ) -> list[Instruction]:
        """Hand an event to the supervisor; the report says what follows of it before anything is done.

        ``event_of`` makes the event from what is true now, or None when it is void. Raises IllegalStep.
        """
        with self._lock:
            event = event_of(self)
            return [] if event is None else self._supervisor.handle(event, now_ms())

    def join(self) -> Report:
        """The report for a join that is about to be sent."""
        with self._lock:
            self._joins += 1
            self._sent = self._supervisor.report
            return self._sent

    def answered(self) -> tuple[int, Report]:
        """The number and the report of the join that was answered; asked by the thread that joins."""
        return self._joins, self._sent

    def is_superseded(self, join: int) -> bool:
        """To be asked by an ``event_of``."""
        return join != self._joins

    @property
    def term(self) -> int:
        """Of the share that is applied, 0 before any. To be asked by an ``event_of``."""
        applied = self._supervisor.state.applied
        return 0 if applied is None else applied.term

    @property
    def is_draining(self) -> bool:
        """To be asked by an ``event_of``."""
        return self._supervisor.state.draining

    @property
    def leads(self) -> bool:
        with self._lock:
            return self._supervisor.state.leads

    def report(self) -> Report:
        with self._lock:
            return self._supervisor.report

    def story(self, task: TaskId) -> list[StoryLine]:
        with self._lock:
            return self._supervisor.story(task)

    def phases(self) -> dict[TaskId, str]:
        """What is owned and how it is: a phase, or PAUSED."""
        with self._lock:
            return {
                task.task: "PAUSED" if task.paused and task.phase is Phase.RUNNING else task.phase.value
                for task in self._supervisor.state.tasks.values()
            }

    def tasks(self) -> list[dict[str, object]]:
        """What is owned and how it is, for people to read; no configuration in it."""
        with self._lock:
            return [
                {
                    "task": str(task.task),
                    "phase": task.phase.value,
                    "paused": task.paused,
                    "stopping": not task.keep,
                    "attempt": task.attempt,
                    "epoch": str(task.epoch),
                    "needs_offset": task.needs_offset,
                }
                for task in self._supervisor.state.tasks.values()
            ]
