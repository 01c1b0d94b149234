"""Simulated learning: how far a member is with the state of tasks that others run.

A learner needs a time of its own for each task. It stands still while its machine is frozen or its storage
stalls, and loses everything with its process. One task of a world may be impossible to catch up with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cooperator.agent.learner_thread import LearnerThread
from cooperator.model import TaskId
from cooperator.runtime.learners import Learned

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation
    from tests.simulation.worker import WorkerProcess

LOOK_MS = 500
STATE_BYTES = 1_000
ACCEPTABLE_BYTES = 100
_LEARN_MS = (500, 8_000)


@dataclass(slots=True)
class _Task:
    """``left_ms`` of learning were left at ``at_ms``."""

    left_ms: int
    at_ms: int
    total_ms: int


class SimulatedLearning:
    """One process's learners. ``ever`` has the tasks that it has caught up on at some time."""

    def __init__(self, member: "WorkerProcess") -> None:
        self._member = member
        self._simulation: Simulation = member.simulation
        self._tasks: dict[TaskId, _Task] = {}
        self.stalled = False
        self.ever: set[TaskId] = set()

    @property
    def tasks(self) -> frozenset[TaskId]:
        return frozenset(self._tasks)

    def learn(self, wanted: Mapping[TaskId, Mapping[str, str]]) -> None:
        running = sorted(set(wanted) & set(self._member.runtime.copies))
        if running:
            self._simulation.writes_of_learners.append(f"{self._member.name} runs {running[0]} and learns it")
        for task in self._tasks.keys() - wanted.keys():
            del self._tasks[task]
        for task in sorted(wanted.keys() - self._tasks.keys()):
            total_ms = self._simulation.random.randint(*_LEARN_MS)
            self._tasks[task] = _Task(total_ms, self._simulation.now_ms, total_ms)
            self._simulation.tell(f"{self._member.name} learns {task}")

    def learned(self) -> list[Learned]:
        return [Learned(task, self.behind_bytes(task), STATE_BYTES) for task in sorted(self._tasks)]

    def behind_bytes(self, task: TaskId) -> int:
        learned, now_ms = self._tasks[task], self._simulation.now_ms
        if not self.stalled and self._member.frozen_ms is None:
            learned.left_ms = max(0, learned.left_ms - (now_ms - learned.at_ms))
        learned.at_ms = now_ms
        if task.task == self._simulation.shape.unlearnable:
            return STATE_BYTES
        behind = STATE_BYTES * learned.left_ms // learned.total_ms
        if behind <= ACCEPTABLE_BYTES:
            self.ever.add(task)
        return behind


class SteppedLearners(LearnerThread):
    """The member's talk with its leader, with a timer instead of a thread."""

    def begin(self, process: "WorkerProcess", calls: Any) -> None:
        self._process, self._line, self._asking = process, calls, False
        process.after(LOOK_MS, self._step)

    def _step(self) -> None:
        self._process.after(LOOK_MS, self._step)
        question = None if self._asking else self.question()
        if question is None:
            self.follow()
            return
        self._asking = True
        self._line._submit(self._ask_in_steps(*question))

    async def _ask_in_steps(self, url: str, report: Any) -> None:
        status, body = await self._line._learned(url, report)
        self._asking = False
        self.hear(status, body)
        self.follow()
