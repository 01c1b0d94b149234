"""What a process that leads does once at its start."""

import gc
from typing import Final

_YOUNG: Final = 100_000
_OLD: Final = 50


def prepare_process() -> None:
    """Look for garbage less often.

    A round makes as many small values as there are items, nearly all of them without cycles, and goes through
    all that is known before it is done; by default Python would search the whole heap in mid-round.
    """
    gc.set_threshold(_YOUNG, _OLD, _OLD)
