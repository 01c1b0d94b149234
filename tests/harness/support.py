"""Shared test support: waiting on conditions instead of time, freezing processes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
"""Every wait for a condition lasts at least this long: a busy machine takes seconds to start a process."""
_LONGEST_PAUSE_S = 0.5


def eventually(
    condition: Callable[[], T], timeout_s: float = 30.0, what: str = "", every_s: float = 0.05
) -> T:
    """The first truthy value of ``condition``, which is asked no more often than this. Raises AssertionError
    after ``timeout_s`` (at least ``PATIENCE_S``) with the last value.

    It says nothing about how long that takes: a test of that compares it with what would take longer. An
    AssertionError raised by the condition counts as "not yet", and is what is reported at the end.

    A look that takes long, such as one with a consumer of its own, is repeated later: it leaves the processor
    to what is waited for.
    """
    timeout_s = max(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + timeout_s
    while True:
        failure: AssertionError | None = None
        value = None
        began = time.monotonic()
        try:
            value = condition()
        except AssertionError as error:
            failure = error
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout_s:g} s: {what or condition}; last seen: {failure or value!r}"
            )
        took_s = time.monotonic() - began
        time.sleep(min(max(every_s, 4 * took_s), _LONGEST_PAUSE_S))


@contextmanager
def bounded_work(limit_s: float = 5.0) -> Iterator[None]:
    """Asserts that this thread needs less CPU time than ``limit_s``; other processes do not count.

    The limit separates linear work, some tenths of a second on a slow machine, from minutes or years.
    """
    began = time.thread_time()
    yield
    took_s = time.thread_time() - began
    assert took_s < limit_s, f"{took_s:.1f} s of CPU time"


def freeze(*pids: int) -> None:
    """Send SIGSTOP and wait until all threads have stopped: on a busy machine some run on for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        _await_standstill(pid)


def freeze_group(group: int) -> None:
    """The same for all processes of a process group."""
    os.killpg(group, signal.SIGSTOP)
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == group:
                _await_standstill(pid)


def _await_standstill(pid: int) -> None:
    waits_from = time.monotonic() + 2
    eventually(partial(_stands_still, pid, waits_from), what=f"process {pid} stands still")


def _stands_still(pid: int, waits_from: float) -> bool:
    """Whether all threads are stopped or ended; the state is the first word after the name in parentheses.

    A process that has begun a child (vfork) waits for it in the kernel (D), and never reaches the stopped
    state if the child was stopped. It does nothing, either. Others wait there for their disk, and not for
    long.
    """
    states = []
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            states.append(thread.read_text().rpartition(")")[2].split()[0])
    still = "TtZX" if time.monotonic() < waits_from else "TtZXD"
    return all(state in still for state in states)
