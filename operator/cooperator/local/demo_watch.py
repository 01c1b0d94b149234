"""What happened to the tasks, out of the records that the members themselves wrote about them."""

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
    """A task began to run: where, under which share, when (ms since the epoch)."""

    worker: str
    epoch: Epoch | None
    at_ms: int


@dataclass(slots=True)
class _Task:
    starts: list[Start] = field(default_factory=list)
    running: tuple[str, Epoch | None] | None = None


class History:
    """Takes status records in the order of the log; safe to be asked from other threads.

    A task starts anew when it runs after a record that it did not, on another member, or under another
    share: a member that was killed could not say that its tasks ended.
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
class Kill:
    """A member's death: whose, when, and what it ran."""

    member: str
    at_ms: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Findings:
    """``needless``: starts beyond the first, and beyond the second of the killed member's tasks.
    ``moved``: tasks that ran on more than one member. ``idle_ms``: per task of the killed member, from its
    death to its next start; ``unstarted``: those that never started again."""

    needless: int
    moved: int
    idle_ms: tuple[int, ...]
    unstarted: int

    @property
    def idle_task_seconds(self) -> float:
        return sum(self.idle_ms) / 1000


def judge(history: History, kill: Kill | None) -> Findings:
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
