"""Kills the process group when this process cannot or may not go on: the last resort of the lease.

A Python process that hangs or dies fences nothing: its JVM lives on. Therefore a separate process in the same
group knows when everything must be over.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn, Protocol

log = logging.getLogger(__name__)

_NOT_FOR_IT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that reach a whole process group (from a terminal or a spawner)."""


class Watchdog(Protocol):
    def watch(self, kill_at_ms: int | None) -> None:
        """Kill the group at this time (ms of the monotonic clock); None: never. Replaces earlier calls."""

    def kill(self) -> None:
        """Kill the group now."""

    def close(self) -> None:
        """Stop watching; nothing runs any more."""


class ProcessWatchdog:
    """Watches ``group``, a process group that this process leads."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._kill_at_ms: int | None = None
        self._process = self._start()

    def watch(self, kill_at_ms: int | None) -> None:
        self._kill_at_ms = kill_at_ms
        self._say("never" if kill_at_ms is None else f"at {kill_at_ms}")

    def kill(self) -> NoReturn:
        os.killpg(self._group, signal.SIGKILL)
        # Only PID 1 of a PID namespace survives that; its exit ends everything in the namespace.
        os._exit(137)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._write("bye")
        self._process.wait(timeout=10)

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("watch_process.py")
        command = [sys.executable, "-I", "-S", str(script), str(self._group)]
        # The child inherits the blocked signals from its first moment on, so that it outlives this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _say(self, line: str) -> None:
        try:
            self._write(line)
        except OSError:
            log.warning("the watchdog has died (%s), starting another one", self._process.poll())
            self._process = self._start()
            self._write(line)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


def own_process_group() -> int:
    """The process group that this process leads; makes one if it does not lead its own yet."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    return os.getpgrp()
