"""The command line of ``cooperator local`` as users type it, with a state directory of its own."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.layout import StateDir
from cooperator.local.members import ProcessIncarnation, read_incarnations
from cooperator.local.processes import marked
from tests.harness.forked import run_forked
from tests.harness.support import eventually

CALM_S = 60.0
"""Time-out in seconds for steps that are quick on an idle machine."""


class Local:
    """The command line, with a state directory of its own."""

    def __init__(self, root: Path, worker: str, **environment: str) -> None:
        self.state = StateDir(root / "state")
        self.worker = worker
        self._environment = {
            **os.environ,
            "COOPERATOR_STATE_DIR": str(self.state.root),
            "COOPERATOR_RUNTIME": "inline",
            **environment,
        }

    def __call__(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """Runs a command, asserts its exit code, and returns its output (both streams)."""
        run = self._run(*words, stdin=stdin)
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout + run.stderr

    def program(self, *words: str, code: int = 0) -> str:
        """As a call, of a command that is not one of ``cooperator local``."""
        run = self._run(*words, room=())
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout + run.stderr

    def _run(
        self, *words: str, stdin: str = "", room: tuple[str, ...] = ("local",)
    ) -> "subprocess.CompletedProcess[str]":
        if room and words[0] not in ("up", "down"):
            # These start nothing.
            return run_forked([*room, *words], self._environment, stdin)
        return subprocess.run(
            [sys.executable, "-m", "cooperator.cli", *room, *words],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def said_by_failing(self, *words: str) -> str:
        """All that a command says on stderr, in its order, before it fails."""
        command = [sys.executable, "-m", "cooperator.cli", "local", *words]
        done = subprocess.run(
            command, env=self._environment, stderr=subprocess.PIPE, text=True, timeout=250, check=False
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    def on_a_terminal(self, until: str, *words: str) -> str:
        """All that a command sends to its terminal, which it is told to end by Ctrl-C after ``until``."""
        ours, its = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "cooperator.cli", "local", *words],
            env={**self._environment, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
            stdout=its,
            stderr=its,
        ) as process:
            os.close(its)
            seen = b""
            try:
                with suppress(OSError):  # Linux says so when the other end is closed.
                    while part := os.read(ours, 65_536):
                        if until.encode() not in seen and until.encode() in seen + part:
                            process.send_signal(signal.SIGINT)
                        seen += part
            finally:
                os.close(ours)
        assert process.returncode == 130, seen
        return seen.decode()

    def first_line(self, *words: str) -> str:
        """Returns the first output of a long-running command, then interrupts it."""
        with subprocess.Popen(
            [sys.executable, "-m", "cooperator.cli", "local", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.stdout.read()
        assert process.returncode == 130
        return line

    def apply(self, *texts: str, code: int = 0) -> str:
        return self("apply", "-f", "-", code=code, stdin="---".join(texts).replace("NAME", self.worker))

    def get(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self._run("get", kind, "-o", "json").stdout)["items"]
        return items

    def ask(self, kind: str) -> list[dict[str, Any]]:
        """The same without a process for each question."""
        try:
            items: list[dict[str, Any]] = ask_host(self.state)[kind]
        except HostAway:
            raise AssertionError("the daemon does not answer") from None
        return items

    def placed(self) -> dict[str, str]:
        """Tasks by member, once all tasks run."""
        tasks = self.ask("tasks")
        assert len(tasks) == 5, tasks
        assert {task["state"] for task in tasks} == {"RUNNING"}, tasks
        return {task["name"]: task["member"] for task in tasks}

    def settled(self) -> dict[str, str]:
        return eventually(self.placed, CALM_S, "all tasks run")

    def incarnations(self) -> dict[str, ProcessIncarnation]:
        """Members whose processes live."""
        return {
            incarnation.identity: incarnation
            for folder in self.state.workers.glob("*/members")
            for incarnation in read_incarnations(folder)
            if marked(incarnation.incarnation)
        }

    def condition(self, kind: str) -> str:
        workers = self.ask("workers")
        assert len(workers) == 1, workers
        conditions = workers[0]["status"]["conditions"]
        return next((c["status"] for c in conditions if c["type"] == kind), "")
