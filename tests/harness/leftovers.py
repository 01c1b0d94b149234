"""Ends and removes what a test run has left, however the run ended: processes, cluster slots, files.

``python -m tests.harness.leftovers watch PID`` is the warden of the run of that process (``runs.begin_run``
starts it). It prints one line when earlier leftovers are gone, about them if there were any, and waits for
the end of the process. It needs no cooperation of the killed: their processes are found by the run's id, and
cluster slots by their locks, which the system releases.

So the servers of tests need no protection of their own against the death of their tests.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from tests.harness.runs import VARIABLE, Run, run_of_folder, runs_of_marks
from tests.kubernetes.caches import cache_folder, remove_unfinished
from tests.kubernetes.processes import ServerFailed
from tests.kubernetes.removal import Leftover, remove_all
from tests.kubernetes.slots import clear_abandoned

_LOOK_S: Final = 0.1
_PLURALS: Final = {"process": "processes"}


def describe(leftovers: Iterable[Leftover]) -> str:
    """Returns a line for the output of a run; empty if there were none."""
    names: dict[str, list[str]] = {}
    for kind, name in leftovers:
        names.setdefault(kind, []).append(name)
    parts = []
    for kind, found in names.items():
        part = f"{len(found)} {kind if len(found) == 1 else _PLURALS.get(kind, f'{kind}s')}"
        if kind == "process":
            counts = Counter(found).items()
            part += f" ({', '.join(name if count == 1 else f'{name} x{count}' for name, count in counts)})"
        parts.append(part)
    return f"cleaned up after a killed test run: {', '.join(parts)}" if parts else ""


def clean_up(variable: str = VARIABLE) -> list[Leftover]:
    """End and remove what belongs to runs that have ended; returns it. Nothing of a living run is touched."""
    found: list[Leftover] = []
    for remove in (lambda: _end_processes(variable), clear_abandoned, _remove_folders, _remove_stores):
        try:
            found += remove()
        except ServerFailed as error:
            # Another user's, or in the hands of a kernel that does not let go: tests are worth running.
            sys.stderr.write(f"left behind by a killed test run: {error}\n")
    return found


def abandoned_processes(variable: str = VARIABLE) -> Iterator[psutil.Process]:
    """Yields processes of runs that have ended, and all that these have started; never this one."""
    children: dict[int, list[psutil.Process]] = {}
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
        if any(not run.lives for run in _runs_of(process, variable)):
            found.append(process)
    reached = {os.getpid()}
    # A program may overwrite its environment with its title, as PostgreSQL's processes do.
    while found:
        process = found.pop()
        if process.pid not in reached:
            reached.add(process.pid)
            found += children.get(process.pid, ())
            if _lives(process):
                yield process


def watch(pid: int, variable: str = VARIABLE) -> None:
    """Be the warden of the run of ``pid``; returns when the run has ended and nothing of it is left."""
    run = Run.of_process(pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(f"{describe(clean_up(variable))}\n")
    sys.stdout.flush()
    _let_go_of_the_output()
    # psutil would wait until the run is reaped as well; its parent may first wait for the end of its output,
    # which leftovers hold.
    while run is not None and run.lives:
        time.sleep(_LOOK_S)
    clean_up(variable)


def _let_go_of_the_output() -> None:
    """Whoever reads the run's output must not wait for the warden."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _runs_of(process: psutil.Process, variable: str) -> set[Run]:
    """The run in its environment, and the runs whose marks it has mapped."""
    found: set[Run] = set()
    with suppress(psutil.Error, OSError):
        if run := Run.parse(process.environ().get(variable, "")):
            found.add(run)
    with suppress(OSError):
        found |= runs_of_marks(Path(f"/proc/{process.pid}/maps").read_text(errors="replace"))
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end_processes(variable: str) -> list[Leftover]:
    def found() -> dict[psutil.Process, str]:
        return {process: _name(process) for process in abandoned_processes(variable)}

    def kill(process: psutil.Process) -> None:
        with suppress(psutil.Error):
            process.kill()

    return remove_all("process", found, kill)


def _name(process: psutil.Process) -> str:
    """The program; of a JVM, its main class."""
    try:
        name = process.name()
        words = process.cmdline()[1:] if name == "java" else []
    except psutil.Error:
        return "ended meanwhile"
    return next((word for word in words if re.fullmatch(r"[A-Za-z][\w.$]*", word)), name)


def _remove_folders() -> Iterator[Leftover]:
    for folder in Path(tempfile.gettempdir()).iterdir():
        run = run_of_folder(folder.name)
        if run is not None and not run.lives and folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)
            yield ("temporary folder", folder.name)


def _remove_stores() -> Iterator[Leftover]:
    for folder in remove_unfinished(cache_folder("image-stores")):
        yield ("image store", folder.name)


if __name__ == "__main__":
    _, command, pid, *rest = sys.argv
    if command != "watch":
        sys.exit("usage: python -m tests.harness.leftovers watch PID [VARIABLE]")
    watch(int(pid), *rest)
