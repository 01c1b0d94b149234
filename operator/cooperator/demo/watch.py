"""Reconstructs what happened to the tasks from the members' own status records."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from cooperator.model import Epoch, TaskId, TaskState, TaskStatus

_ENDED = frozenset(
    (
        TaskState.UNASSIGNED,
        TaskState.STARTING,
        TaskState.STOPPED,
        TaskState.STOPPING,
        TaskState.FAILED,
        TaskState.RESTARTING,
    )
)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a task: on which member, under which assignment, when (ms since the epoch)."""

    worker: str
    epoch: Epoch | None
    at_ms: int


@dataclass(slots=True)
class _Task:
    starts: list[Start] = field(default_factory=list)
    running: tuple[str, Epoch | None] | None = None


class DemoHistory:
    """Collects status records in the order of the log. It is thread-safe.

    A task counts as started again when it runs after a record that it did not, on another member, or under
    another assignment: a killed member could not report the end of its tasks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[TaskId, _Task] = {}

    def take(self, status: TaskStatus) -> None:
        with self._lock:
            task = self._tasks.setdefault(status.task, _Task())
            if status.state is TaskState.RUNNING:
                running = (status.worker, status.epoch)
                if task.running != running:
                    task.starts.append(Start(status.worker, status.epoch, status.at_ms))
                task.running = running
            elif status.state in _ENDED:
                task.running = None

    def starts(self, task: TaskId) -> tuple[Start, ...]:
        with self._lock:
            known = self._tasks.get(task)
            return tuple(known.starts) if known else ()

    def tasks(self) -> frozenset[TaskId]:
        with self._lock:
            return frozenset(self._tasks)


@dataclass(frozen=True, slots=True)
class DemoKill:
    """The kill of a member: its name, the time, and the tasks it ran."""

    member: str
    at_ms: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings about restarts and moves.

    ``needless`` counts starts beyond the first, and beyond the second of the killed member's tasks. ``moved``
    counts tasks that ran on more than one member. ``idle_ms`` has an entry per task of the killed member,
    from its death to the task's next start; ``unstarted`` counts those that never started again.
    """

    needless: int
    moved: int
    idle_ms: tuple[int, ...]
    unstarted: int

    @property
    def idle_task_seconds(self) -> float:
        return sum(self.idle_ms) / 1000


def judge(history: DemoHistory, kill: DemoKill | None) -> Findings:
    tasks = history.tasks()
    lost = kill.tasks if kill is not None else frozenset()
    needless = sum(max(0, len(history.starts(t)) - (2 if t in lost else 1)) for t in tasks)
    idle = [_idle_ms(history.starts(task), kill.at_ms) for task in sorted(lost)] if kill is not None else []
    return Findings(
        needless=needless,
        moved=sum(len({start.worker for start in history.starts(task)}) > 1 for task in tasks),
        idle_ms=tuple(ms for ms in idle if ms is not None),
        unstarted=sum(ms is None for ms in idle),
    )


def _idle_ms(starts: Iterable[Start], from_ms: int) -> int | None:
    return min((start.at_ms - from_ms for start in starts if start.at_ms >= from_ms), default=None)
