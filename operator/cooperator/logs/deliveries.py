"""Calling what is called back, in order, beside a thread that must not wait for it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

SLOW_S: Final = 0.25


class Lane:
    """Calls that are made one at a time, in order. Made by ``Deliveries.lane``. Thread-safe."""

    def __init__(self, deliveries: "Deliveries", changed: threading.Condition) -> None:
        self._deliveries = deliveries
        self._changed = changed
        self.calls: deque[tuple[Callable[[], None], int]] = deque()
        self.weight = 0
        self.runner: threading.Thread | None = None
        self.closed = False

    def put(self, call: Callable[[], None], weight: int = 0) -> None:
        """Have it called; after ``close`` nothing is. ``weight``: what counts for ``has_room``."""
        self._deliveries.put(self, call, weight)

    @property
    def idle(self) -> bool:
        with self._changed:
            return not self.calls and self.runner is None

    def has_room(self, most: int, timeout_s: float) -> bool:
        """Whether what waits weighs at most ``most``, now or within ``timeout_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: self.weight <= most, timeout_s)

    def close(self) -> None:
        """Forget what waits. When this returns no call is under way, but for one that closes the lane."""
        with self._changed:
            self.closed = True
            self.calls.clear()
            self.weight = 0
            self._changed.notify_all()
            if self.runner is not threading.current_thread():
                self._changed.wait_for(lambda: self.runner is None)


class Deliveries:
    """Makes the calls of its lanes on one thread; on one more whenever a call takes longer than ``SLOW_S``.

    So a slow callee holds the others up for that long, once; the thread that has waited for it ends with it.
    It is for who has a thread that goes round to ``watch``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._ready: deque[Lane] = deque()
        self._worker: threading.Thread | None = None
        self._calling_since: float | None = None
        self._closed = False

    def lane(self) -> Lane:
        return Lane(self, self._changed)

    def put(self, lane: Lane, call: Callable[[], None], weight: int) -> None:
        with self._changed:
            if lane.closed or self._closed:
                return
            lane.calls.append((call, weight))
            lane.weight += weight
            if lane.runner is None and len(lane.calls) == 1:
                self._ready.append(lane)
            if self._worker is None:
                self._work()
            self._changed.notify_all()

    def watch(self) -> None:
        """To be called several times a second: have another thread go on where a call takes long."""
        with self._changed:
            since = self._calling_since
            if since is not None and time.monotonic() - since > SLOW_S and not self._closed:
                self._work()

    def close(self) -> None:
        """End the threads, but for those in a call, which end with it. No lane is used any more."""
        with self._changed:
            self._closed = True
            idle = self._worker if self._calling_since is None else None
            self._changed.notify_all()
        if idle is not None:
            idle.join()

    def _work(self) -> None:
        """With the lock: have a new thread do the work from now on."""
        self._calling_since = None
        self._worker = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._worker.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while (taken := self._next(me)) is not None:
            lane, call = taken
            try:
                call()
            except Exception:
                logger.exception("a call of the %s failed: %r", self._name, call)
            self._done(me, lane)

    def _next(self, me: threading.Thread) -> tuple[Lane, Callable[[], None]] | None:
        with self._changed:
            while self._worker is me and not self._closed:
                if self._ready:
                    lane = self._ready.popleft()
                    if lane.calls:
                        call, weight = lane.calls.popleft()
                        lane.weight -= weight
                        lane.runner = me
                        self._calling_since = time.monotonic()
                        return lane, call
                else:
                    self._changed.wait()
            return None

    def _done(self, me: threading.Thread, lane: Lane) -> None:
        with self._changed:
            if self._worker is me:
                self._calling_since = None
            lane.runner = None
            if lane.calls:
                self._ready.append(lane)
            self._changed.notify_all()
