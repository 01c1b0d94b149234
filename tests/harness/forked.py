"""Members, operators and commands in processes that have the program's modules already.

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
from importlib import import_module
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

_PRELOADED = (
    "cooperator.cli.app",
    "cooperator.cli.worker",
    "cooperator.agent.main",
    "cooperator.cli.operator",
    "cooperator.controller.main",
    "cooperator.cli.local",
    "cooperator.cli.kubectl.app",
)

_lock = threading.Lock()
"""A start looks at all earlier processes, and an exit code can be read only once."""


class ForkedProcess:
    """``cooperator`` with these words, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        new_session: bool = False,
        errors: Path | None = None,
        stdin: Path | None = None,
        main: str = "cooperator.cli.app",
    ) -> None:
        """``errors`` is written in place of ``log`` by what writes to stderr. ``main`` is the module whose
        function of this name is called."""
        self.args = words
        streams = (stdin or Path(os.devnull), log, errors or log)
        self._process = _server().Process(
            target=_run,
            args=(list(words), streams, dict(environment), new_session, main),
            daemon=True,
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


def run_forked(
    words: Sequence[str],
    environment: Mapping[str, str],
    stdin: str = "",
    main: str = "cooperator.cli.app",
    timeout_s: float = 120,
) -> "subprocess.CompletedProcess[str]":
    """As ``subprocess.run`` of a command whose output is captured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").write_text(stdin)
        process = ForkedProcess(
            words, folder / "out", environment, errors=folder / "err", stdin=folder / "in", main=main
        )
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        said = [path.read_text() if path.exists() else "" for path in (folder / "out", folder / "err")]
        return subprocess.CompletedProcess(list(words), code, *said)


def _run(
    words: list[str],
    streams: tuple[Path, Path, Path],
    environment: dict[str, str],
    new_session: bool,
    main: str,
) -> None:
    from kubernetes.config import kube_config

    if new_session:
        os.setsid()
    for number, path in enumerate(streams):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    # A fork server's child reads from nowhere.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    # Kubernetes' client reads this variable while it is imported.
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = environment.get("KUBECONFIG", "~/.kube/config")
    # Each process draws and caches these for itself.
    random.seed()
    tempfile.tempdir = None
    sys.argv = ["cooperator", *words]
    try:
        import_module(main).main()
    finally:
        # The fork server's children end without them.
        atexit._run_exitfuncs()
