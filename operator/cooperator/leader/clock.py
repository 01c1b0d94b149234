"""A leader's clock: the wall-clock time of its start, advanced by a monotonic clock."""

import time


class SteadyClock:
    """Milliseconds since the epoch that neither jump nor run backwards while this process lives.

    The leader compares its deadlines with those written by a previous leader, so they are wall-clock times.
    They also time the wait for a lease, which a clock adjustment must not cut short.
    """

    def __init__(self) -> None:
        self._begin_ms = time.time_ns() // 1_000_000 - int(time.monotonic() * 1000)

    def __call__(self) -> int:
        return self._begin_ms + int(time.monotonic() * 1000)
