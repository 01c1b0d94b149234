"""Locks of files, which the system releases when their process ends."""

import fcntl
import time
from typing import IO, Any, Final

_LOOK_S: Final = 0.01


def acquire(file: IO[Any], timeout_s: float) -> bool:
    """Locks an open file for this process alone. Returns False if another one holds it for ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
