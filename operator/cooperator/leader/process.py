"""One-time settings of a process that leads."""

import gc
from typing import Final

_YOUNG: Final = 100_000
_OLD: Final = 50


def prepare_process() -> None:
    """Run the garbage collector less often.

    A round creates as many small values as there are items, nearly all of them without cycles, and traverses
    the whole state. With the default thresholds Python would scan the whole heap in mid-round.
    """
    gc.set_threshold(_YOUNG, _OLD, _OLD)
