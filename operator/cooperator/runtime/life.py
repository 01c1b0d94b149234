"""One attempt of one task, on a thread of its own, from its start to its proven end.

The thread runs a job again and again as it is wanted: running or paused. A job is a function that
returns (or raises) only when nothing of the task runs any more, which is what makes ``stopped`` true.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from cooperator.artifacts import ArtifactError
from cooperator.model import TaskId
from cooperator.runtime.api import RuntimeListener
from cooperator.runtime.options import OptionError
from cooperator.runtime.places import NoPlace
from cooperator.runtime.references import UnresolvedReference

log = logging.getLogger(__name__)

_TRACE_LIMIT = 8_000  # characters: traces travel in status records
_CAUSES_LIMIT = 2_000  # of them


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job: it ends soon after ``cancelled`` is set, tells ``started`` once, and progress."""

    started: Callable[[], None]
    progress: Callable[[str], None]
    cancelled: threading.Event = field(default_factory=threading.Event)


Job = Callable[[Run], None]


class TaskFailed(Exception):
    """Why a job ended; its message is all that is to be told (cleared of secrets)."""


class _Wanted(Enum):
    RUNNING = auto()
    PAUSED = auto()
    ENDED = auto()


class Life:
    """Drives ``job`` for one attempt. ``idle``: what is done meanwhile when it is paused; nothing of the
    task runs in it. ``previous``: an older attempt that must be over first."""

    def __init__(
        self,
        task: TaskId,
        attempt: int,
        job: Job,
        listener: RuntimeListener,
        *,
        idle: Job,
        paused: bool,
        previous: "Life | None",
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
        self._thread = threading.Thread(target=self._live, name=f"task {task}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        """Nothing of it runs, and its end has been told."""
        return self._over

    def wait(self, timeout_s: float | None = None) -> bool:
        """True when it is over."""
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
        """End it, and tell ``attempt`` (its own, or a newer one that never began) as stopped when it is
        over. False when it is over already: then nothing will be told."""
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
        if self.previous is not None:
            self.previous.wait()
            self.previous = None
        trace = ""
        try:
            while (wanted := self._next()) is not _Wanted.ENDED:
                if wanted is _Wanted.PAUSED:
                    self._stay_paused()
                else:
                    self._run_once()
        except Exception as error:
            trace = describe(error)
        # Told under the lock: a stop that comes now is answered after what is told here.
        with self._change:
            self._over = True
            if self._wanted is _Wanted.ENDED:
                for attempt in self._answers:
                    self._listener.stopped(self._task, attempt)
            else:
                log.warning("task %s, attempt %d failed: %s", self._task, self.attempt, trace)
                self._listener.failed(self._task, self.attempt, trace)

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
            log.info("task %s tells nothing while it is paused: %s", self._task, error)
        run.cancelled.wait()
        with self._change:
            self._run = None

    def _begun(self, wanted: _Wanted, started: Callable[[], None]) -> Run | None:
        """A run that is cancelled as soon as something else is wanted; None if it is already."""
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
                raise
            # What breaks while it is being stopped has stopped; nobody waits for its result.
            log.info("task %s: %s while it was being stopped", self._task, type(error).__name__)
        else:
            if not run.cancelled.is_set():
                raise RuntimeError("the task ended by itself; a streaming task runs until it is stopped")
        finally:
            with self._change:
                self._run = None


def describe(error: Exception) -> str:
    """The trace to report. Errors in a configuration say all in their message; of the rest, the end of
    the traceback counts when it is long, and what it goes back to stands behind it."""
    if isinstance(error, OptionError | UnresolvedReference | TaskFailed | ArtifactError | NoPlace):
        return str(error)
    causes = "".join(f"caused by: {cause}\n" for cause in _causes(error))[:_CAUSES_LIMIT]
    return "".join(traceback.format_exception(error))[len(causes) - _TRACE_LIMIT :] + causes


def _causes(error: Exception) -> Iterator[str]:
    """In the JVM, a line each: PySpark keeps them, and its message is that of the first error only."""
    said = str(error)
    cause = getattr(error, "_cause", None)
    while cause is not None:
        words = str(cause).strip().partition("\n")[0]
        if words and words not in said:
            said += words
            yield words
        cause = getattr(cause, "_cause", None)
