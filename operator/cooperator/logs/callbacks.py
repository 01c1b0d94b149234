"""Runs callbacks: without harm to their caller, or one at a time and off the client's thread."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from cooperator.supervision import TURN_S, supervised, turn

T = TypeVar("T")

logger = logging.getLogger(__name__)

SLOW_S: Final = 0.25
_CALL_S: Final = 30.0
"""No call takes longer: followers wait for single requests at most."""


def call_all(callbacks: Iterable[Callable[[T], None]], value: T) -> None:
    """Call each with ``value``; exceptions are logged, and affect neither other callbacks nor the caller."""
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception:
            logger.exception("a callback failed: %r", callback)


class SerialExecutor:
    """Runs calls one at a time, in order. Created by ``CallbackThreads.executor``. Thread-safe."""

    def __init__(self, threads: "CallbackThreads", changed: threading.Condition) -> None:
        self._threads = threads
        self._changed = changed
        self.calls: deque[tuple[Callable[[], None], int]] = deque()
        self.weight = 0
        self.runner: threading.Thread | None = None
        self.closed = False

    def put(self, call: Callable[[], None], weight: int = 0) -> None:
        """Schedule ``call``; after ``close`` it is dropped. ``weight`` counts for ``has_room``."""
        self._threads.put(self, call, weight)

    @property
    def idle(self) -> bool:
        with self._changed:
            return not self.calls and self.runner is None

    def has_room(self, most: int, timeout_s: float) -> bool:
        """Return whether the waiting calls weigh at most ``most``, now or within ``timeout_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: self.weight <= most, timeout_s)

    def close(self) -> None:
        """Drop waiting calls. When this returns no call is running, except one of this thread, or one that
        stands still."""
        with self._changed:
            self.closed = True
            self.calls.clear()
            self.weight = 0
            self._changed.notify_all()
            if self.runner is not threading.current_thread():
                self._changed.wait_for(lambda: self.runner is None, _CALL_S)


class CallbackThreads:
    """Runs the calls of its executors on one thread; on another whenever a call takes longer than ``SLOW_S``.

    So a slow call delays the others for that long, once; its thread ends with it. The owner must poll
    ``watch``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._ready: deque[SerialExecutor] = deque()
        self._worker: threading.Thread | None = None
        self._calling_since: float | None = None
        self._closed = False

    def executor(self) -> SerialExecutor:
        return SerialExecutor(self, self._changed)

    def put(self, executor: SerialExecutor, call: Callable[[], None], weight: int) -> None:
        with self._changed:
            if executor.closed or self._closed:
                return
            executor.calls.append((call, weight))
            executor.weight += weight
            if executor.runner is None and len(executor.calls) == 1:
                self._ready.append(executor)
            if self._worker is None:
                self._work()
            self._changed.notify_all()

    def watch(self) -> None:
        """Start another thread if a call takes long. The owner must call this several times a second."""
        with self._changed:
            since = self._calling_since
            if since is not None and time.monotonic() - since > SLOW_S and not self._closed:
                self._work()

    def close(self) -> None:
        """End the threads, except those in a call, which end with it. No executor is used after this."""
        with self._changed:
            self._closed = True
            idle = self._worker if self._calling_since is None else None
            self._changed.notify_all()
        if idle is not None:
            idle.join(_CALL_S)

    def _work(self) -> None:
        """Let a new thread do the work from now on. The caller holds the lock."""
        self._calling_since = None
        self._worker = supervised(self._run, self._name)
        self._worker.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while self._is_worker(me):
            turn()
            if (taken := self._next(me)) is None:
                continue
            executor, call = taken
            try:
                call()
            except Exception:
                logger.exception("a call of the %s failed: %r", self._name, call)
            self._done(me, executor)

    def _is_worker(self, me: threading.Thread) -> bool:
        """Return whether the calling thread does the work; waits a while if there is none."""
        with self._changed:
            if self._worker is me and not self._closed and not self._ready:
                self._changed.wait(TURN_S)
            return self._worker is me and not self._closed

    def _next(self, me: threading.Thread) -> tuple[SerialExecutor, Callable[[], None]] | None:
        """Return the next call; None: there is none now."""
        with self._changed:
            while self._ready and self._worker is me and not self._closed:
                executor = self._ready.popleft()
                if executor.calls:
                    call, weight = executor.calls.popleft()
                    executor.weight -= weight
                    executor.runner = me
                    self._calling_since = time.monotonic()
                    return executor, call
            return None

    def _done(self, me: threading.Thread, executor: SerialExecutor) -> None:
        with self._changed:
            if self._worker is me:
                self._calling_since = None
            executor.runner = None
            if executor.calls:
                self._ready.append(executor)
            self._changed.notify_all()
