"""Runs other programs, and names those that are missing."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from release.errors import ReleaseError


def check_programs(names: Iterable[str]) -> None:
    """Raises ReleaseError with all that are not on the PATH."""
    if missing := [name for name in names if shutil.which(name) is None]:
        raise ReleaseError(f"not on the PATH: {', '.join(missing)}: install them (docs/releases.md)")


def run(*command: str | Path, folder: Path | None = None, **variables: str) -> str:
    """Returns what the program prints; its errors are shown. Raises ReleaseError."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(
            f"`{' '.join(map(str, command))}` failed with {done.returncode}: see above\n{done.stdout[-2000:]}"
        )
    return done.stdout
