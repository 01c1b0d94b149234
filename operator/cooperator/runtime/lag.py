"""How far tasks are behind their sources: measured beside them, running or paused, a few at a time."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger(__name__)

LAG_S = 5.0
"""Between two measurements of one task."""
_AT_ONCE = 2

Measure = Callable[[Mapping[str, str]], int | None]
"""The end of what each unit has delivered to the number of records behind it; None: not known."""


class LagPool:
    """Asks sources, which may be slow to answer, for all tasks of a process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, "lag")

    def of(self, measure: Measure) -> "Lag":
        return Lag(self._pool, measure)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Lag:
    """Of one task; one caller. What a source does not answer is not known, and no reason to fail."""

    def __init__(self, pool: ThreadPoolExecutor, measure: Measure) -> None:
        self._pool = pool
        self._measure = measure
        self._asked: Future[int | None] | None = None
        self._next_s = 0.0
        self.records: int | None = None

    def look(self, ends: Mapping[str, str]) -> int | None:
        """The newest measurement, and begins another one when it is time. Returns at once."""
        if self._asked is not None and self._asked.done():
            try:
                self.records = self._asked.result()
            except Exception as error:
                log.debug("the lag is not known: %s", error)
                self.records = None
            self._asked = None
        now_s = time.monotonic()
        if self._asked is None and now_s >= self._next_s:
            self._next_s = now_s + LAG_S
            try:
                self._asked = self._pool.submit(self._measure, dict(ends))
            except RuntimeError:  # the process is ending
                self.records = None
        return self.records
