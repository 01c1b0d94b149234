"""Things that are made once and kept outside the clone: a folder appears whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

import psutil

from tests.kubernetes.removal import unmount_below

SAYS_AFTER_S: Final = 3.0
"""A process that has waited this long for a lock says so."""

BUILD_LIMIT_S: Final = 3_600.0
"""The longest of these builds (Kubernetes' programs) takes 850 CPU-seconds: a busy machine gets four times
as long."""

_PAUSE_S: Final = 0.05


def cache_folder(*parts: str) -> Path:
    """``${XDG_CACHE_HOME:-~/.cache}/cooperator/…``; it need not be there yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "cooperator", *parts)


class LockHeld(TimeoutError):
    """A lock was not had in time; the message names its holder and the remedy."""


def announce(text: str) -> None:
    """Tell the user what this process waits for. Runs of pytest replace it (``fixtures``)."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def locked(
    path: Path,
    purpose: str,
    *,
    limit_s: float = BUILD_LIMIT_S,
    remedy: str = "end it",
    now_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold a lock of that name; a process that wants it, too, waits, says so, and raises LockHeld at last.

    ``purpose``: what the lock is for, as the object of a sentence. ``remedy``: what helps besides waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    began_s = now_s()
    announced = False
    with path.open("a+") as lock:
        while not _acquire(lock):
            waited_s = now_s() - began_s
            if waited_s > limit_s:
                raise LockHeld(
                    f"waited {limit_s:g} s for {purpose}: {_holder(path)} holds {path}; "
                    f"wait until it has ended, or {remedy}"
                )
            if waited_s >= SAYS_AFTER_S and not announced:
                announced = True
                announce(
                    f"waiting for {purpose}, {limit_s:g} s at most: {_holder(path)} holds {path} "
                    f"(you can {remedy})"
                )
            pause(_PAUSE_S)
        with _named(lock):
            yield


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold a lock of that name, unless another process does; whether it is held here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        if not _acquire(lock):
            yield False
            return
        with _named(lock):
            yield True


def _acquire(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _named(lock: TextIO) -> Iterator[None]:
    """While it is held, the lock's file has the id of this process."""
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    try:
        yield
    finally:
        lock.truncate(0)


def _holder(path: Path) -> str:
    text = path.read_text().strip()
    if not text:
        return f"another process (`fuser {path}` finds it)"
    try:
        command = shlex.join(psutil.Process(int(text)).cmdline())
    except psutil.Error:
        return f"a child of process {text}, which has ended (`fuser {path}` finds it),"
    return f"process {text} ({command[:120]})"


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, filled by ``make`` if it is not there yet.

    Two processes that want it at once: the second waits for the first. ``make`` fills another folder, which
    is renamed when it is whole, so an interrupted ``make`` leaves nothing that looks finished.
    """
    if folder.is_dir():
        os.utime(folder)
        return folder
    with locked(folder.parent / f".{folder.name}.lock", f"{folder}, which is made once"):
        if folder.is_dir():
            return folder
        _remove_unfinished(folder)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            unfinished.chmod(0o755)
            make(unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def remove_unfinished(parent: Path) -> list[Path]:
    """Remove what calls of ``once`` that were killed have left in ``parent``; returns it."""
    found: list[Path] = []
    for lock in parent.glob(".*.lock"):
        with locked_if_free(lock) as ours:
            if ours:
                found += _remove_unfinished(parent / lock.name.removeprefix(".").removesuffix(".lock"))
    return found


def _remove_unfinished(folder: Path) -> list[Path]:
    """The caller holds the folder's lock."""
    found = list(folder.parent.glob(f".{folder.name}.*/"))
    for unfinished in found:
        # A containerd that unpacks an image has it mounted.
        unmount_below(unfinished)
        shutil.rmtree(unfinished, ignore_errors=True)
    return found


def forget_unused(parent: Path, days: float = 14) -> None:
    """Remove what ``once`` has kept in ``parent`` and nobody has asked for in so many days."""
    oldest = time.time() - days * 86_400
    for folder in parent.glob("*/"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
