"""Things that are made once and kept outside the clone: a folder appears whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes.removal import unmount_below


def cache_folder(*parts: str) -> Path:
    """``${XDG_CACHE_HOME:-~/.cache}/cooperator/…``; it need not be there yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "cooperator", *parts)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Whether nobody holds the lock of that name. If so, it is held until the end of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock of that name; a process that wants it, too, waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, filled by ``make`` if it is not there yet.

    Two processes that want it at once: the second waits for the first. ``make`` fills another folder, which
    is renamed when it is whole, so an interrupted ``make`` leaves nothing that looks finished.
    """
    if folder.is_dir():
        os.utime(folder)
        return folder
    with locked(folder.parent / f".{folder.name}.lock"):
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
        with try_lock(lock) as ours:
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
