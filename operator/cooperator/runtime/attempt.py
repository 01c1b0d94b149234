"""One attempt of one task, on a thread of its own, from its start to its proven end.

The thread runs a job repeatedly, as the wanted state requires: running or paused. A job is a function that
returns (or raises) only when nothing of the task runs any more, which is what makes ``stopped`` true.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

from cooperator.connectors.base import SessionLost
from cooperator.model import TaskId, thread_name
from cooperator.model.waits import Wait
from cooperator.runtime.api import RuntimeListener
from cooperator.runtime.progress import waiting_progress
from cooperator.runtime.traces import describe, lasting_reason
from cooperator.supervision import name_native_thread, supervised

log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
_LOSSES = 3
_LOSSES_S = 600.0
"""A task whose session was lost runs again at once, without a failure, up to three times in ten minutes."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job.

    It reports ``started`` once, and progress; it ends soon after ``cancelled`` is set.
    """

    started: Callable[[], None]
    progress: Callable[[str], None]
    cancelled: threading.Event = field(default_factory=threading.Event)


Job = Callable[[Run], None]


class _Wanted(Enum):
    RUNNING = auto()
    PAUSED = auto()
    ENDED = auto()


class Attempt:
    """Drives ``job`` for one attempt.

    ``idle`` runs while the task is paused; nothing of the task runs in it. ``previous`` is an older attempt
    that must end first.
    """

    def __init__(
        self,
        task: TaskId,
        attempt: int,
        job: Job,
        listener: RuntimeListener,
        *,
        idle: Job,
        paused: bool,
        previous: "Attempt | None",
    ) -> None:
        self.attempt = attempt
        self.previous = previous
        self._task = task
        self._job = job
        self._idle = idle
        self._listener = listener
        self._change = threading.Lock()
        self._wanted = _Wanted.PAUSED if paused else _Wanted.RUNNING
        self._run: Run | None = None
        self._answers = [attempt]
        self._over = False
        self._losses: list[float] = []
        """When sessions were lost; only the attempt's thread uses it."""
        # It runs the code of a connector, which reports its progress; the member bounds its stop.
        self._thread = supervised(self._live, f"task {task}", limit_s=math.inf)

    def begin(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing of the attempt runs any more, and its end has been reported."""
        return self._over

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the attempt's end; returns True when it is over."""
        self._thread.join(timeout_s)
        return self._over

    def pause(self) -> None:
        with self._change:
            if self._wanted is not _Wanted.ENDED:
                self._want(_Wanted.PAUSED)

    def resume(self) -> None:
        with self._change:
            if self._wanted is not _Wanted.ENDED:
                self._want(_Wanted.RUNNING)

    def end(self, attempt: int) -> bool:
        """Ends the attempt, and reports ``attempt`` as stopped when it is over.

        ``attempt`` is its own number, or a newer one that never began. Returns False when it is over already:
        then nothing will be reported.
        """
        with self._change:
            if self._over:
                return False
            if attempt not in self._answers:
                self._answers.append(attempt)
            self._want(_Wanted.ENDED)
            return True

    def _want(self, wanted: _Wanted) -> None:
        if wanted is not self._wanted:
            self._wanted = wanted
            if self._run is not None:
                self._run.cancelled.set()

    def _live(self) -> None:
        name_native_thread(partial(thread_name, self._task))
        if self.previous is not None:
            if not self.previous.wait(_PATIENCE_S):
                now_ms = int(time.time() * 1000)
                text = waiting_progress(Wait("waiting for the previous attempt to end", now_ms))
                self._listener.progress(self._task, self.attempt, text)
                self.previous.wait()
            self.previous = None
        trace = reason = ""
        try:
            while (wanted := self._next()) is not _Wanted.ENDED:
                if wanted is _Wanted.PAUSED:
                    self._stay_paused()
                else:
                    self._run_once()
        except Exception as error:
            trace, reason = describe(error), lasting_reason(error)
        except BaseException as error:  # User code may call sys.exit().
            trace = f"{type(error).__name__}: {error}"
        # The report is made under the lock, so that a stop that arrives now is answered after it.
        with self._change:
            self._over = True
            if self._wanted is _Wanted.ENDED:
                for attempt in self._answers:
                    self._listener.stopped(self._task, attempt)
            else:
                log.warning("task %s, attempt %d failed: %s", self._task, self.attempt, trace)
                self._listener.failed(self._task, self.attempt, trace, reason)

    def _next(self) -> _Wanted:
        with self._change:
            return self._wanted

    def _stay_paused(self) -> None:
        run = self._begun(_Wanted.PAUSED, started=lambda: None)
        if run is None:
            return
        self._listener.paused(self._task, self.attempt)
        try:
            self._idle(run)
        except Exception as error:
            log.info("task %s reports nothing while it is paused: %s", self._task, error)
        run.cancelled.wait()
        with self._change:
            self._run = None

    def _may_run_again(self) -> bool:
        """Whether a session was lost seldom enough: a task that ends each of them has to fail."""
        now_s = time.monotonic()
        self._losses = [*(at_s for at_s in self._losses if now_s - at_s < _LOSSES_S), now_s]
        return len(self._losses) <= _LOSSES

    def _begun(self, wanted: _Wanted, started: Callable[[], None]) -> Run | None:
        """Returns a run that is cancelled when the wanted state changes; None if it has changed already."""
        run = Run(started, lambda text: self._listener.progress(self._task, self.attempt, text))
        with self._change:
            if self._wanted is not wanted:
                return None
            self._run = run
        return run

    def _run_once(self) -> None:
        run = self._begun(_Wanted.RUNNING, started=lambda: self._listener.started(self._task, self.attempt))
        if run is None:
            return
        try:
            self._job(run)
        except Exception as error:
            if not run.cancelled.is_set():
                if isinstance(error, SessionLost) and self._may_run_again():
                    log.info("task %s runs again: %s", self._task, error)
                    return
                raise
            # An error while the task is being stopped is a stop, too; its result is not needed.
            log.info("task %s: %s while stopping", self._task, type(error).__name__)
        else:
            if not run.cancelled.is_set():
                raise RuntimeError("the task ended by itself; a streaming task runs until it is stopped")
        finally:
            with self._change:
                self._run = None
