"""Servers that a test starts, ends, freezes and starts again; what they say goes into a file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cooperator.local.settings import free_port
from tests.harness.support import freeze

READY_S: Final = 200.0
"""A machine that does many things at once is slow; a server that ends is noticed at once."""


class ServerFailed(Exception):
    """A server ended or did not get ready; the message has its last words."""


def said(*command: str, stdin: str | None = None, timeout_s: float | None = None) -> str:
    """Returns what a command prints. Raises CalledProcessError with its words."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode:
        failure = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        failure.add_note(done.stderr)
        raise failure
    return done.stdout


def documents(manifests: Iterable[Mapping[str, Any]]) -> str:
    """As kubectl takes them from its stdin."""
    return "\n---\n".join(json.dumps(manifest) for manifest in manifests)


class Server:
    """One program with fixed arguments and one log file over all its incarnations.

    Ends by SIGKILL only: what these servers keep is thrown away after the test, and told politely they
    wait for open watches for up to 15 seconds.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        # They are Go's, and many share few cores: less is collected, at the price of memory.
        self._environment = {"GOGC": "400", **os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Id of the process that was started last. Raises ServerFailed before the first."""
        if self._child is None:
            raise ServerFailed(f"{self.name} was not started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.alive:
            raise ServerFailed(f"{self.name} is running already (pid {self.pid})")
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at a test run must not take away what a teardown still needs.
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """-9, and wait until it is gone; nothing happens when it is gone already."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(30)

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = READY_S) -> None:
        """Until ``ready``; ServerFailed, with the end of the log, if it ends or time runs out before."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive:
                raise ServerFailed(f"{self.name} ended while it started; its log says:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{self.name} was not ready within {timeout_s:g} s; its log says:\n{self.tail()}"
                )
            time.sleep(0.02)

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return f"(no log: {error})"


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on just now, and that no client is given by the system meanwhile."""
    found: list[int] = []
    while len(found) < count:
        port = free_port()
        with suppress(OSError), socket.create_server((host, port)):
            found.append(port)
    return found if len(set(found)) == count else free_ports(count, host)
