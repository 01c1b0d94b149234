"""Runs commands in lanes: those of one lane in turn, and the lanes at once. Measures what each costs."""

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
    lane: list[Command]
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


def run_lanes(lanes: Sequence[Sequence[Command]], directory: Path) -> list[Result]:
    """Runs everything in ``directory``, also after a failure. Returns the results in the order of the lanes.

    The output of a command is printed in one piece when it ends, and at once if there is one lane.
    Raises :exc:`Interrupted` after a signal, when what ran has ended.
    """
    queues = [list(lane) for lane in lanes]
    is_alone = len(queues) == 1
    running: dict[int, _Running] = {}
    results: dict[str, Result] = {}

    def start_next(lane: list[Command]) -> None:
        if lane:
            each = _start(lane.pop(0), lane, directory, is_alone)
            running[each.child.pid] = each

    try:
        for lane in queues:
            start_next(lane)
        while running:
            pid, status, usage = os.wait4(-1, 0)
            ended = running.pop(pid, None)
            if ended is not None:
                code = ended.child.returncode = os.waitstatus_to_exitcode(status)
                elapsed_s = time.monotonic() - ended.began_s
                result = Result(ended.command.name, code, elapsed_s, usage.ru_utime + usage.ru_stime)
                results[result.name] = result
                _show(ended, result)
                start_next(ended.lane)
    except Interrupted:
        _interrupt(running)
        raise
    return [results[command.name] for lane in lanes for command in lane]


def _start(command: Command, lane: list[Command], directory: Path, is_alone: bool) -> _Running:
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
    return _Running(command, lane, child, time.monotonic(), output)


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
