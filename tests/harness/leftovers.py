"""Ends and removes what test runs have left, however they ended: processes, cluster slots, files.

``python -m tests.harness.leftovers watch PID`` is the warden of the run that the process PID begins
(``runs.begin_run`` starts it). It prints one line when earlier leftovers are gone, about them if there were
any. Until the run has ended, it looks whether one of the run's processes has, and clears what that one has
left. It needs no cooperation of the killed: their processes are found by their ids, and cluster slots by
their locks, which the system releases.

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

from tests.harness import runs
from tests.harness.runs import RunProcess
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


def clean_up() -> list[Leftover]:
    """End and remove what belongs to ended processes of runs; returns it."""
    found: list[Leftover] = []
    for remove in (_end_processes, clear_abandoned, _remove_folders, _remove_stores):
        try:
            found += remove()
        except ServerFailed as error:
            # Another user's, or in the hands of a kernel that does not let go: tests are worth running.
            sys.stderr.write(f"left behind by a killed test run: {error}\n")
    return found


def abandoned_processes() -> Iterator[psutil.Process]:
    """Yields what has outlived a process of a run, and all that this has started; never this process."""
    children: dict[int, list[psutil.Process]] = {}
    found: list[psutil.Process] = []
    # Numbers may have new processes since the warden's last look, which psutil would not notice.
    psutil.process_iter.cache_clear()
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
        if any(not owner.lives for owner in _owners(process)):
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


def watch(pid: int) -> None:
    """Be the warden of the run that ``pid`` begins; returns when that has ended and nothing of it is left."""
    first = RunProcess.find(pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write(f"{describe(clean_up())}\n")
    sys.stdout.flush()
    _let_go_of_the_output()
    if first is not None:
        folder = Path(tempfile.gettempdir(), first.folder)
        # No other way to wait, such as psutil's, ends before a killed process is reaped, and its parent may
        # first wait for the end of its output, which leftovers hold.
        while first.lives:
            time.sleep(_LOOK_S)
            for ended in [process for process in runs.marked_in(folder) if not process.lives]:
                clean_up()
                (folder / ended.mark).unlink(missing_ok=True)
    clean_up()


def _let_go_of_the_output() -> None:
    """A reader of the run's output must not wait for the warden."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _owners(process: psutil.Process) -> set[RunProcess]:
    """The processes of runs that it must not outlive."""
    found: set[RunProcess] = set()
    with suppress(psutil.Error, OSError):
        found.update(runs.of_ids(process.environ().get(runs.VARIABLE, "")))
    with suppress(OSError):
        found.update(runs.of_maps(Path(f"/proc/{process.pid}/maps").read_text(errors="replace")))
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end_processes() -> list[Leftover]:
    def found() -> dict[psutil.Process, str]:
        return {process: _name(process) for process in abandoned_processes()}

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
        first = runs.of_folder(folder)
        # The warden of another run may remove it at the same time.
        with suppress(FileNotFoundError):
            if first is not None and not first.lives and folder.lstat().st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)
                yield ("temporary folder", folder.name)


def _remove_stores() -> Iterator[Leftover]:
    for folder in remove_unfinished(cache_folder("image-stores")):
        yield ("image store", folder.name)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "watch":
        sys.exit("usage: python -m tests.harness.leftovers watch PID")
    watch(int(sys.argv[2]))
