"""Runs commands at once, ends them at a signal, and measures what each costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

TEARDOWN_S = 60.0
"""After a signal, a command has this time to end what it started; then it is killed."""


@dataclass(frozen=True)
class Command:
    """``is_quiet``: its output matters only if it fails."""

    name: str
    words: tuple[str, ...]
    is_quiet: bool = False


@dataclass(frozen=True)
class Result:
    """``processor_s``: user and system time of the command and of all its descendants that it waited for."""

    name: str
    code: int
    elapsed_s: float
    processor_s: float = 0.0


class Interrupted(Exception):
    """A signal, the only argument, ends the run."""


@dataclass(frozen=True)
class _Running:
    command: Command
    child: subprocess.Popen[bytes]
    began_s: float
    output: IO[bytes] | None


def say(text: str) -> None:
    sys.stdout.write(f"==> {text}\n")
    sys.stdout.flush()


def raise_on_signals() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP raise :exc:`Interrupted`."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def run_at_once(commands: Sequence[Command], directory: Path) -> list[Result]:
    """Runs commands in ``directory``, also after a failure. Returns their results in the same order.

    The output of a command is printed in one piece when it ends, and as it comes if it is the only one.
    Raises :exc:`Interrupted` after a signal, when what ran has ended.
    """
    running: dict[int, _Running] = {}
    results: dict[str, Result] = {}
    try:
        for command in commands:
            each = _start(command, directory, is_alone=len(commands) == 1)
            running[each.child.pid] = each
        while running:
            pid, status, usage = os.wait4(-1, 0)
            ended = running.pop(pid, None)
            if ended is not None:
                code = ended.child.returncode = os.waitstatus_to_exitcode(status)
                elapsed_s = time.monotonic() - ended.began_s
                result = Result(ended.command.name, code, elapsed_s, usage.ru_utime + usage.ru_stime)
                results[result.name] = result
                _show(ended, result)
    except Interrupted:
        _interrupt(running)
        raise
    return [results[command.name] for command in commands]


def _start(command: Command, directory: Path, *, is_alone: bool) -> _Running:
    say(f"{command.name}: {' '.join(command.words)}")
    output = None if is_alone else tempfile.TemporaryFile()  # noqa: SIM115 (closed by _show)
    # A session of its own: a Ctrl-C reaches it once, from here.
    child = subprocess.Popen(
        command.words,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
    )
    return _Running(command, child, time.monotonic(), output)


def _show(ended: _Running, result: Result) -> None:
    outcome = "ok" if result.code == 0 else f"FAILED with {result.code}"
    if ended.output is not None:
        if result.code or not ended.command.is_quiet:
            ended.output.seek(0)
            sys.stdout.write(ended.output.read().decode(errors="replace"))
        ended.output.close()
    say(f"{result.name}: {outcome} after {result.elapsed_s:.0f} s")


def _interrupt(running: dict[int, _Running]) -> None:
    """Ends commands as Ctrl-C does, so that their fixtures end what they started; kills what does not end."""
    for each in running.values():
        each.child.send_signal(signal.SIGINT)
    deadline_s = time.monotonic() + TEARDOWN_S
    for each in running.values():
        try:
            each.child.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.child.kill()
        _show(each, Result(each.command.name, each.child.returncode or 1, time.monotonic() - each.began_s))
