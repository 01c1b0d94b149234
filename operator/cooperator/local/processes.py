"""Processes of this machine, identified by a mark in their environment instead of by number alone.

A number may belong to another process by the time it is used, and a child of a member may have left the
member's process group (Spark's Python workers do). The environment is inherited and stays.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from cooperator.local.layout import writing

MARK: Final = "COOPERATOR_INCARNATION"
"""The environment variable that identifies all processes of one incarnation of a member."""

_LONG_BYTES: Final = 10_000_000


def spawn(
    command: Sequence[str], mark: str, output: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts ``command`` in its own session and process group; its output is appended to ``output``.

    The process outlives this one, and a Ctrl-C in the terminal does not reach it. An output that has grown
    too large is renamed first, and replaces the one renamed before. Raises ``StorageError``.
    """
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.exists() and output.stat().st_size > _LONG_BYTES:
            output.replace(output.with_name(f"{output.name}.1"))
        opened = output.open("ab")
    with opened as file:
        return subprocess.Popen(
            command,
            env={**os.environ, **(environment or {}), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def is_marked(pid: int, mark: str) -> bool:
    """Whether ``pid`` lives and belongs to ``mark``; a zombie does not live."""
    try:
        return psutil.Process(pid).environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


def marked(mark: str) -> tuple[int, ...]:
    """Returns all living processes of this user that belong to ``mark``."""
    return tuple(pid for pid in psutil.pids() if is_marked(pid, mark))


def leader_of(mark: str) -> int | None:
    """Returns the process of ``mark`` that leads its session: the one that ``spawn`` started."""
    return next((pid for pid in marked(mark) if _session(pid) == pid), None)


def kill_all(mark: str) -> None:
    """Sends SIGKILL to all processes of ``mark``, groups first so that none is forked meanwhile."""
    for pid in marked(mark):
        signal_group(pid, mark, signal.SIGKILL)
    for pid in marked(mark):
        _signal(pid, signal.SIGKILL)


def signal_group(pid: int, mark: str, number: signal.Signals) -> bool:
    """Signals the process group of ``pid`` if that belongs to ``mark``; returns False if it does not live."""
    if not is_marked(pid, mark):
        return False
    try:
        os.killpg(os.getpgid(pid), number)
    except ProcessLookupError:
        return False
    return True


def signal_process(pid: int, mark: str, number: signal.Signals) -> bool:
    """Signals only ``pid`` if it belongs to ``mark``; returns False when it does not live."""
    return is_marked(pid, mark) and _signal(pid, number)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
