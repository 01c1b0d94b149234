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
import threading
from pathlib import Path
from typing import Final, NoReturn, Protocol

from cooperator.supervision import supervised, turn

log = logging.getLogger(__name__)

_PULSE_S: Final = 0.4
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
    """Watches ``group``, a process group that this process leads. Thread-safe.

    ``last_words``: a file that gets the task whose thread froze this process (see ``watch_process``).
    """

    def __init__(self, group: int, last_words: Path | None = None) -> None:
        self._group = group
        self._last_words = last_words
        self._deadline = "never"
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._process = self._start()
        self._pulse = supervised(self._live, "watchdog pulse")
        self._pulse.start()

    def watch(self, kill_at_ms: int | None) -> None:
        self._deadline = "never" if kill_at_ms is None else f"at {kill_at_ms}"
        self._say(self._deadline)

    def kill(self) -> NoReturn:
        os.killpg(self._group, signal.SIGKILL)
        # Only PID 1 of a PID namespace survives that; its exit ends everything in the namespace.
        os._exit(137)

    def close(self) -> None:
        self._closed.set()
        with self._lock, contextlib.suppress(OSError):
            self._write("bye")
        self._process.wait(timeout=10)

    def _live(self) -> None:
        """A process that is frozen gives no sign of life."""
        while not self._closed.wait(_PULSE_S):
            turn()
            self._say("alive")

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("watch_process.py")
        command = [sys.executable, "-I", "-S", str(script), str(self._group)]
        command += [str(self._last_words)] if self._last_words is not None else []
        # The child inherits the blocked signals from its first moment on, so that it outlives this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _say(self, line: str) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            try:
                self._write(line)
            except OSError:
                log.warning("the watchdog has died (%s), starting another one", self._process.poll())
                self._process = self._start()
                self._write(self._deadline)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


def own_process_group() -> int:
    """The process group that this process leads; makes one if it does not lead its own yet."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    return os.getpgrp()
