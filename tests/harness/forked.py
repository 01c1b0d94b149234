"""Members and operators in processes that have the program's modules already.

Python's imports are most of what a short-lived process costs: 2 s of an operator. A fork server does them
once, so tests with many processes take less time. Such a process has neither arguments nor an environment of
its own in /proc: tests that look there, and those on real nodes, start the program itself.
"""

import atexit
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

_PRELOADED = (
    "cooperator.cli.app",
    "cooperator.cli.worker",
    "cooperator.agent.main",
    "cooperator.cli.operator",
    "cooperator.controller.main",
)

_lock = threading.Lock()
"""A start looks at all earlier processes, and an exit code can be read only once."""


class ForkedProcess:
    """``cooperator`` with these words, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(
        self, words: Sequence[str], log: Path, environment: Mapping[str, str], *, new_session: bool = False
    ) -> None:
        self.args = words
        self._process = _server().Process(
            target=_run, args=(list(words), log, dict(environment), new_session), daemon=True
        )
        with _lock:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int:
        """The exit code, or the negative number of the signal that ended it. Raises if it runs."""
        code = self.poll()
        assert code is not None, f"{self.args} runs"
        return code

    def poll(self) -> int | None:
        with _lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        if not connection.wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _server() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _run(words: list[str], log: Path, environment: dict[str, str], new_session: bool) -> None:
    from kubernetes.config import kube_config

    from cooperator.cli.app import main

    if new_session:
        os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.environ.clear()
    os.environ.update(environment)
    # Kubernetes' client reads this variable while it is imported.
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = environment.get("KUBECONFIG", "~/.kube/config")
    # Each process draws and caches these for itself.
    random.seed()
    tempfile.tempdir = None
    sys.argv = ["cooperator", *words]
    try:
        main()
    finally:
        # The fork server's children end without them.
        atexit._run_exitfuncs()
