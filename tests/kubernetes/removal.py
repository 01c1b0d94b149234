"""Removes what may come again while it is removed, or take time to go: processes, mounts, devices."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tests.kubernetes.processes import ServerFailed

T = TypeVar("T")
Leftover = tuple[str, str]
"""The kind of a thing, and its name."""

_REMOVAL_S: Final = 30.0


def remove_all(
    kind: str, find: Callable[[], Mapping[T, str]], remove: Callable[[T], object]
) -> list[Leftover]:
    """Apply ``remove`` to what ``find`` finds (with its name), in that order, until there is nothing.

    Returns all that was found. An OSError of ``remove`` does not matter: the thing is gone already, or cannot
    go yet. After one of ``find``, it looks again: others remove things at the same time, such as a containerd
    whose shims are killed. Raises ServerFailed if something stays.
    """
    removed: dict[T, Leftover] = {}
    deadline = time.monotonic() + _REMOVAL_S
    while True:
        try:
            found = find()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ServerFailed(f"what has a {kind} cannot be looked at: {error}") from error
        else:
            if not found:
                return list(removed.values())
            if time.monotonic() > deadline:
                raise ServerFailed(f"{kind} {', '.join(found.values())} does not go within {_REMOVAL_S:g} s")
            for thing, name in found.items():
                removed[thing] = (kind, name)
                with suppress(OSError):
                    remove(thing)
        time.sleep(0.02)


def unmount_below(folder: Path) -> list[Leftover]:
    """Deepest first."""

    def mounts() -> dict[str, str]:
        targets = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
        return {target: target for target in sorted(targets, reverse=True) if target.startswith(f"{folder}/")}

    def unmount(target: str) -> None:
        subprocess.run(["umount", "-l", target], capture_output=True, check=False)

    return remove_all("mount", mounts, unmount)
