"""Measures the lag of tasks, running or paused, in the background, a few at a time."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger(__name__)

LAG_S = 5.0
"""The interval between two measurements of one task."""
VALID_S = 6 * LAG_S
"""A measurement expires when later ones have had no answer for this long."""
_AT_ONCE = 2

Measure = Callable[[Mapping[str, str]], int | None]
"""Maps each unit's delivered end to the number of records after it; None: unknown."""


class LagPool:
    """Queries sources, which may be slow to answer, for all tasks of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, "lag")
        self._clock = clock

    def of(self, measure: Measure) -> "Lag":
        return Lag(self._pool, measure, self._clock)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Lag:
    """The lag of one task, for one caller. Without an answer the lag is unknown, which is not a failure."""

    def __init__(self, pool: ThreadPoolExecutor, measure: Measure, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._clock = clock
        self._answered_s = clock()
        self._measure = measure
        self._asked: Future[int | None] | None = None
        self._next_s = 0.0
        self.records: int | None = None

    def look(self, ends: Mapping[str, str]) -> int | None:
        """Returns the newest measurement, and starts another one when it is due. Returns at once."""
        now_s = self._clock()
        if self._asked is not None and self._asked.done():
            try:
                self.records = self._asked.result(0)
            except Exception as error:
                log.debug("the lag is unknown: %s", error)
                self.records = None
            self._asked = None
            self._answered_s = now_s
        elif now_s > self._answered_s + VALID_S:
            self.records = None
        if self._asked is None and now_s >= self._next_s:
            self._next_s = now_s + LAG_S
            try:
                self._asked = self._pool.submit(self._measure, dict(ends))
            except RuntimeError:  # the process is ending
                self.records = None
        return self.records
