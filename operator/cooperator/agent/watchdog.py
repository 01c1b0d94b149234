"""Ends the process group when this process cannot or may not go on: the last resort of the lease.

A Python process that hangs or dies is no fence: its JVM lives on. So a process beside it, in the same
group, knows when everything must be over.
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
"""Signals that reach a whole process group (a terminal's, a spawner's)."""


class Watchdog(Protocol):
    def watch(self, kill_at_ms: int | None) -> None:
        """Kill the group at this time (ms of the monotonic clock); None: never. Replaces what was said."""

    def kill(self) -> None:
        """Kill the group now."""

    def close(self) -> None:
        """Nothing runs any more: stop watching."""


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
        # Only the first process of a PID namespace outlives that; with it ends everything in there.
        os._exit(137)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._write("bye")
        self._process.wait(timeout=10)

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("watch_process.py")
        command = [sys.executable, "-I", "-S", str(script), str(self._group)]
        # What is blocked here stays blocked there, from its first moment on: it goes only after this process.
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
