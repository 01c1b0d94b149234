"""Calls of ``cooperator local`` beside a running daemon, each in a process of its own.

The daemon has a Worker without members and a broker that is not there, so that nothing else has to be
started.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cooperator.local.daemon import ask_host, end_host, host_pid, start_host
from cooperator.local.layout import StateDir, write_json
from tests.harness.support import eventually

MANIFESTS: Final = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 0}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: copy}
spec: {workerRef: {name: lake}, class: files-to-kafka, config: {path: ./data, topic: lines, format: text}}
"""
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "apply": ("apply", "-f", "m.yaml"),
    "pause": ("pause", "copy"),
    "resume": ("resume", "copy"),
    "stop": ("stop", "copy"),
    "start": ("start", "copy"),
    "scale": ("scale", "worker", "lake", "--replicas", "0"),
    "get": ("get", "connectors"),
    "delete": ("delete", "connector", "copy"),
}
"""In this order, each one finds what it needs."""


@contextmanager
def daemon(root: Path) -> Iterator[StateDir]:
    """A running daemon with both resources."""
    state = StateDir(root / "state")
    write_json(state.cluster, {"id": "test", "bootstrap_servers": "127.0.0.1:9", "down": False})
    (root / "m.yaml").write_text(MANIFESTS)
    call(state, "apply")
    start_host(state)
    try:
        eventually(lambda: ask_host(state)["workers"], 120, "the daemon runs its Worker")
        yield state
    finally:
        pid = host_pid(state)
        if pid is not None:
            end_host(pid, state)


def call(state: StateDir, command: str, code: str = "") -> tuple[float, str]:
    """Returns the seconds of CPU time that the command takes, and what it prints.

    ``code``: a program to run with the command's words, instead of the command.
    """
    program = ["-c", code] if code else ["-m", "cooperator.cli"]
    words = ["local", *COMMANDS[command], "--state-dir", str(state.root)]
    with subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=state.root.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, printed
    return used.ru_utime + used.ru_stime, printed
