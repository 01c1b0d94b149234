"""Tasks whose state a member learns while another one runs them, behind calls that return at once.

Each has a thread. A learner ends when it is told to, or when an attempt of its task begins here, which takes
over what it has.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cooperator.connectors.learned_state import NotLearnable
from cooperator.model import TaskId
from cooperator.runtime.unit_learner import Behind, NoRoom, UnitLearner

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""The interval between two looks at a checkpoint."""
STALE_S: Final = 15.0
"""A measurement expires when later ones have had no answer for this long."""
MOST_TASKS: Final = 16
"""The limit of tasks that are learned at a time; more of them are refused by name."""
_AT_ONCE: Final = 2
"""The limit of checkpoints that are read at the same time."""
SPARED_S: Final = 10.0
"""The time until a task is removed that is no longer to be learned."""
_GIVEN_S: Final = 120.0
"""The time in which an attempt takes over what is learned; then it is removed."""
_RETRY_MAX_S: Final = 30.0
_SAID_CHARS: Final = 500
_TRIES: Final = 3
"""After as many failures what is learned is thrown away, and begun anew."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The progress of a member that learns the state of a task.

    ``bytes_behind`` is None while it is unknown: nothing has been read yet, or the storage does not answer.
    ``problem`` says why the state cannot be learned, and names the remedy. ``is_loading``: a part of the
    state is read for the first time, and a query that started now would have to read it itself.
    """

    task: TaskId
    bytes_behind: int | None = None
    state_bytes: int = 0
    problem: str = ""
    is_loading: bool = False


Tell = Callable[[int, Behind], None]
Units = Callable[[TaskId, Mapping[str, str], Path, threading.Event, Tell], list[UnitLearner]]
"""Returns the learners of a task's units, by its configuration, with their files below a directory.

They tell how far the unit of a number is. A call that waits for Spark ends when the event is set. Raises
``NotLearnable``.
"""


class Learners:
    """The learners of a member; thread-safe. ``directory`` is their own, and empty between processes."""

    def __init__(
        self,
        units: Units,
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
        look_s: float = LOOK_S,
    ) -> None:
        """``clock`` returns seconds. ``look_s`` is the interval between two looks."""
        self._units = units
        self._directory = directory
        self._clock = clock
        self._look_s = look_s
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(_AT_ONCE)
        self._tasks: dict[TaskId, _Learner] = {}
        self._refused: dict[TaskId, str] = {}
        self._begun = 0
        # A member that was killed has left its files.
        shutil.rmtree(directory, ignore_errors=True)

    def learn(self, wanted: Mapping[TaskId, Mapping[str, str]]) -> None:
        """Learns exactly these tasks from now on, given with their configurations.

        Others are removed after ``SPARED_S``: a task that was just assigned to this member is no longer to be
        learned, and its attempt is about to begin.
        """
        with self._lock:
            for task, learner in list(self._tasks.items()):
                is_other = wanted.get(task, learner.config) != learner.config
                if learner.is_over or (is_other and not learner.is_given):
                    learner.cancel()
                    del self._tasks[task]
                else:
                    learner.spare(None if task in wanted else self._clock() + SPARED_S)
            new = [task for task in wanted if task not in self._tasks]
            room = MOST_TASKS - sum(learner.is_wanted for learner in self._tasks.values())
            problem = f"{MOST_TASKS} tasks are learned here already: give the Worker more members"
            self._refused = dict.fromkeys(new[room:], problem)
            for task in new[:room]:
                self._tasks[task] = self._learner(task, wanted[task])

    def _learner(self, task: TaskId, config: Mapping[str, str]) -> "_Learner":
        self._begun += 1
        local = self._directory / f"{self._begun}"
        return _Learner(task, config, local, self._units, self._slots, self._clock, self._look_s)

    def report(self) -> list[Learned]:
        """Returns how far each learned task is, as measured lately; a learner that has died begins anew."""
        with self._lock:
            for task, learner in self._tasks.items():
                if learner.is_over and learner.is_wanted:
                    log.warning("the learner of %s has died, and begins anew", task)
                    self._tasks[task] = self._learner(task, learner.config)
            refused = [Learned(task, problem=problem) for task, problem in self._refused.items()]
            return [learner.report() for learner in self._tasks.values() if learner.is_wanted] + refused

    def begin(self, task: TaskId) -> None:
        """An attempt of the task begins here, and takes over what is learned."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task].give()

    def end(self, task: TaskId) -> None:
        """The attempt has ended: files that it has not taken over are removed."""
        with self._lock:
            if task in self._tasks and self._tasks[task].is_given:
                self._tasks.pop(task).cancel()

    def close(self, timeout_s: float) -> bool:
        """Ends all; returns False if some is still reading after this time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            learners, self._tasks = list(self._tasks.values()), {}
        for learner in learners:
            learner.cancel()
        over = [learner.wait(max(0.0, deadline - time.monotonic())) for learner in learners]
        return all(over)


class _Learner:
    """The thread of one task."""

    def __init__(
        self,
        task: TaskId,
        config: Mapping[str, str],
        local: Path,
        units: Units,
        slots: threading.Semaphore,
        clock: Callable[[], float],
        look_s: float,
    ) -> None:
        self.config = config
        self._task = task
        self._local = local
        self._open = units
        self._slots = slots
        self._clock = clock
        self._look_s = look_s
        self._cancelled = threading.Event()
        self._given = threading.Event()
        self._change = threading.Event()
        self._units: list[UnitLearner] = []
        self._parts: dict[int, Behind] = {}
        self._seen_s: float | None = None
        self._size = 0
        self._spared_s: float | None = None
        self._problem = ""
        self._failed = 0
        self._thread = threading.Thread(target=self._live, name=f"learner of {task}", daemon=True)
        self._thread.start()

    @property
    def is_given(self) -> bool:
        return self._given.is_set()

    @property
    def is_over(self) -> bool:
        """Whether an attempt has taken over what was learned, or it was removed."""
        return not self._thread.is_alive()

    @property
    def is_wanted(self) -> bool:
        return self._spared_s is None and not self.is_given

    def spare(self, until_s: float | None) -> None:
        """Removes itself at this time, unless that is called off by None or an attempt begins."""
        if until_s is None or self._spared_s is None:
            self._spared_s = until_s

    def give(self) -> None:
        self._given.set()
        self._change.set()

    def cancel(self) -> None:
        self._cancelled.set()
        self._change.set()

    def wait(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def report(self) -> Learned:
        parts = self._parts.copy()
        total = sum(parts.values(), Behind())
        is_loading = total.unread > 0 or len(parts) < len(self._units)
        now_s, left = self._clock(), total.bytes
        if left and left == total.state_bytes:
            # The first load takes long: its files show how far it is.
            size = _size_of(self._local)
            if size > self._size:
                self._size, self._seen_s = size, now_s
            left = max(1, left - size)
        seen_s = self._seen_s
        is_known = seen_s is not None and now_s - seen_s <= STALE_S and not self._problem
        return Learned(
            self._task,
            left if is_known else None,
            total.state_bytes,
            self._problem,
            is_loading and not self._problem,
        )

    def _live(self) -> None:
        try:
            while not self._change.is_set() and not self._is_past():
                self._change.wait(self._look())
            if self._given.is_set():
                self._wait_taken()
        finally:
            for unit in self._units:
                try:
                    unit.close()
                except Exception as error:
                    log.info("learned files of %s are left: %s", self._task, error)
            with suppress(OSError):  # files that an attempt has taken remain
                self._local.rmdir()

    def _is_past(self) -> bool:
        until_s = self._spared_s
        return until_s is not None and self._clock() > until_s

    def _wait_taken(self) -> None:
        until_s = time.monotonic() + _GIVEN_S
        while not self._cancelled.wait(self._look_s) and time.monotonic() < until_s:
            if all(unit.taken for unit in self._units):
                return

    def _look(self) -> float:
        """Looks at all units once; returns how many seconds to wait until the next look."""
        try:
            if not self._units:
                self._units = self._open(self._task, self.config, self._local, self._change, self._told)
            for number, unit in enumerate(self._units):
                with self._slots:
                    if self._change.is_set():
                        return 0
                    self._told(number, unit.look())
        except (NotLearnable, NoRoom) as error:
            self._problem = str(error)
            return _RETRY_MAX_S
        except Exception as error:
            return self._missed(error)
        self._problem, self._failed = "", 0
        if not self._units:
            self._seen_s = self._clock()
        return self._look_s

    def _told(self, number: int, behind: Behind) -> None:
        self._parts[number] = behind
        self._seen_s = self._clock()

    def _missed(self, error: Exception) -> float:
        self._failed += 1
        log.info("the state of %s is not learned yet: %s", self._task, f"{error}"[:_SAID_CHARS])
        if self._failed % _TRIES == 0:
            self._seen_s = None
            for unit in self._units:
                unit.close()
        return min(self._look_s * (1 << min(self._failed, 10)), _RETRY_MAX_S)


def _size_of(directory: Path) -> int:
    """Returns the bytes of all files below; those that go meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(root, name)).st_size
    return total
