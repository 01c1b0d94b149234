"""A leader's clock: the time of day when it began, moved on by a clock that nobody sets."""

import time


class SteadyClock:
    """Milliseconds since the epoch that neither jump nor run backwards while this process lives.

    The leader's deadlines are compared with those that a leader before it has written, so they are times of
    day; but a lease is waited for by them, too, and a wall clock that somebody sets would end that wait.
    """

    def __init__(self) -> None:
        self._begin_ms = time.time_ns() // 1_000_000 - int(time.monotonic() * 1000)

    def __call__(self) -> int:
        return self._begin_ms + int(time.monotonic() * 1000)
