"""Platform support for a leading process: a clock that never jumps, and rounds without garbage-collection
pauses.
"""

import gc
import time
from typing import Final

_YOUNG: Final = 100_000
_OLD: Final = 50


class SteadyClock:
    """Milliseconds since the epoch that neither jump nor run backwards while this process lives.

    They are the wall-clock time of its start, advanced by a monotonic clock. The leader compares its
    deadlines with those written by a previous leader, so they are wall-clock times. They also time the wait
    for a lease, which a clock adjustment must not cut short.
    """

    def __init__(self) -> None:
        self._begin_ms = time.time_ns() // 1_000_000 - int(time.monotonic() * 1000)

    def __call__(self) -> int:
        return self._begin_ms + int(time.monotonic() * 1000)


def prepare_process() -> None:
    """Run the garbage collector less often.

    A round creates as many small values as there are items, nearly all of them without cycles, and traverses
    the whole state. With the default thresholds Python would scan the whole heap in mid-round.
    """
    gc.set_threshold(_YOUNG, _OLD, _OLD)
