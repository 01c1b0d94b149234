"""State shared by the agent's thread and the group's: the report, and which join carried which report."""

import threading
from collections.abc import Callable, Sequence

from cooperator.agent.events import Event
from cooperator.agent.instructions import Instruction, SendReport
from cooperator.agent.learner_talk import LearnerStanding
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Phase, Report
from cooperator.agent.story import StoryLine
from cooperator.model import TaskId


class SynchronizedSupervisor:
    """The supervisor behind a lock.

    A join carries the report of its moment, and an assignment is valid only until a later join has carried
    another. The lock orders the two: either the next join's report includes the assignment, or that join has
    superseded the assignment, which is then not applied. Nor is the answer to a report between rounds applied
    after a join, or before the assignment that answers it.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._joins = 0
        self._is_joining = False
        self._reported_at = 0
        """The number of joins before the last report between rounds."""
        self._sent = supervisor.report

    def take(
        self, event_of: "Callable[[SynchronizedSupervisor], Event | None]", now_ms: Callable[[], int]
    ) -> list[Instruction]:
        """Hand an event to the supervisor; the report reflects it before any instruction is carried out.

        ``event_of`` makes the event from the current state, or None if there is none. Raises IllegalStep.
        """
        with self._lock:
            event = event_of(self)
            return [] if event is None else self._handled([event], now_ms())

    def take_all(self, events: Sequence[Event], now_ms: Callable[[], int]) -> list[Instruction]:
        """Hand events to the supervisor in one step. Raises IllegalStep."""
        with self._lock:
            return self._handled(events, now_ms())

    def _handled(self, events: Sequence[Event], now_ms: int) -> list[Instruction]:
        instructions = self._supervisor.handle_all(events, now_ms)
        if any(isinstance(instruction, SendReport) for instruction in instructions):
            self._reported_at = self._joins
        return instructions

    def join(self) -> Report:
        """The report for a join that is about to be sent."""
        with self._lock:
            self._joins += 1
            self._is_joining = True
            self._sent = self._supervisor.report
            return self._sent

    def answered(self) -> tuple[int, Report]:
        """Number and report of the join that was answered. Call it on the thread that joins."""
        return self._joins, self._sent

    def is_superseded(self, join: int) -> bool:
        """Whether a later join was sent. Call it in an ``event_of`` only."""
        return join != self._joins

    def note_assignment(self, join: int) -> None:
        """The assignment that answers ``join`` is taken. Call it in an ``event_of`` only."""
        self._is_joining = self._is_joining and self.is_superseded(join)

    @property
    def is_report_superseded(self) -> bool:
        """Whether the answer to the last report comes too late. Call it in an ``event_of`` only."""
        return self._is_joining or self._reported_at != self._joins

    @property
    def term(self) -> int:
        """The term of the applied assignment, 0 before any. Call it in an ``event_of`` only."""
        applied = self._supervisor.state.applied
        return 0 if applied is None else applied.term

    @property
    def is_draining(self) -> bool:
        """Call it in an ``event_of`` only."""
        return self._supervisor.state.draining

    @property
    def leads(self) -> bool:
        with self._lock:
            return self._supervisor.state.leads

    def report(self) -> Report:
        with self._lock:
            return self._supervisor.report

    def standing(self) -> LearnerStanding:
        """The part of the state on which questions about learners depend."""
        with self._lock:
            state = self._supervisor.state
            return LearnerStanding(
                state.member_id, state.leader_url, state.applied, frozenset(state.tasks), state.config
            )

    def story(self, task: TaskId) -> list[StoryLine]:
        with self._lock:
            return self._supervisor.story(task)

    def phases(self) -> dict[TaskId, str]:
        """The owned tasks with their phase, or PAUSED."""
        with self._lock:
            return {
                task.task: "PAUSED" if task.paused and task.phase is Phase.RUNNING else task.phase.value
                for task in self._supervisor.state.tasks.values()
            }

    def tasks(self) -> list[dict[str, object]]:
        """The owned tasks and their state, for people to read; contains no configuration."""
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
