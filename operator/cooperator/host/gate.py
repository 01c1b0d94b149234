"""A gate that every write of a host passes, to the API or to Kafka.

Tests end the process here, before or after its n-th write (``COOPERATOR_END_AT=before:12``), and check
whether a new process can continue from what is left. Without that variable the gate is always open.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cooperator.model.visible import visible_line

VARIABLE: Final = "COOPERATOR_END_AT"

_lock: Final = threading.Lock()
_passed = 0


@contextmanager
def passing(what: str) -> Iterator[None]:
    """Guards one write, ``what``."""
    asked = os.environ.get(VARIABLE)
    if asked is None:
        yield
        return
    side, _, number = asked.partition(":")
    count = _next()
    if side == "before" and count == int(number):
        _end(what)
    yield
    if side == "after" and count == int(number):
        _end(what)


def _next() -> int:
    global _passed
    with _lock:
        _passed += 1
        return _passed


def _end(what: str) -> None:
    os.write(2, f"ended at the gate: {visible_line(what)}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
