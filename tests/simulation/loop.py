"""The event loop of kafka-python's coroutines here: simulated time, no sockets.

It has the methods of ``kafka.net.selector.NetworkSelector`` that the package ``group`` uses.
"""

import contextlib
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from kafka.future import Future

from tests.simulation.process import Process
from tests.simulation.scheduler import Timer


class Loop:
    """Ready callbacks run within the event that made them ready; a wait for time is an event."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.closed = False
        self._ready: deque[Callable[[], None]] = deque()
        self._draining = False
        # Unfinished coroutines must not be collected, and so closed, at an arbitrary time.
        process.simulation.loops.append(self)
        self._tasks: dict[int, Coroutine[Any, Any, Any]] = {}

    def close(self) -> None:
        self.closed = True
        self._ready.clear()

    def dispose(self) -> None:
        """Close the remaining coroutines quietly at the end of the world."""
        self.close()
        for coroutine in list(self._tasks.values()):
            with contextlib.suppress(BaseException):
                coroutine.close()
        self._tasks.clear()

    def call_soon_threadsafe(self, callback: Callable[[], Any]) -> None:
        if self.closed:
            raise RuntimeError("the loop has ended")
        self._soon(callback)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        # Rounded up: a waiter must not wake before its time.
        delay_ms = max(0, -int(-delay_s * 1000 // 1))
        return self.process.after(delay_ms, lambda: self._soon(callback))

    def cancel(self, timer: Timer) -> None:
        timer.cancel()

    def call_soon_with_future(self, work: Any, *args: Any) -> Future:
        future = Future()

        async def run() -> None:
            try:
                result = work(*args) if callable(work) else work
                while inspect.iscoroutine(result) or isinstance(result, Future):
                    result = await result
            except Exception as error:
                if not future.is_done:
                    future.failure(error)
            else:
                future.success(result)

        self.spawn(run())
        return future

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._tasks[id(coroutine)] = coroutine
        self._soon(lambda: self._resume(coroutine, None))

    def sleep(self, delay_s: float) -> Future:
        future = Future()
        self.call_later(delay_s, lambda: future.success(None))
        return future

    def _soon(self, callback: Callable[[], Any]) -> None:
        if self.closed:
            return
        self._ready.append(callback)
        if self._draining:
            return
        self._draining = True
        try:
            while self._ready and self.process.alive:
                self._ready.popleft()()
        finally:
            self._draining = False

    def _resume(self, coroutine: Coroutine[Any, Any, Any], done: Future | None) -> None:
        try:
            # A resumed Future raises or returns its content by itself.
            waited: Future = coroutine.send(None)
        except StopIteration:
            del self._tasks[id(coroutine)]
            return
        waited.add_both(lambda _: self._soon(lambda: self._resume(coroutine, waited)))
