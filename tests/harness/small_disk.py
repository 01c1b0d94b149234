"""A file system of its own that a test can really fill: a tmpfs, for which the tests must run as root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE_BYTES = 4096


class SmallDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._ballast: list[Path] = []

    def fill(self, free_pages: int = 0) -> None:
        """Takes all space but ``free_pages``; again, what others have freed meanwhile."""
        ballast = self.root / f"ballast-{len(self._ballast)}"
        self._ballast.append(ballast)
        ballast.touch()
        pages = os.statvfs(self.root).f_bavail - free_pages
        if pages > 0:
            with ballast.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, pages * PAGE_BYTES)

    def free(self) -> None:
        while self._ballast:
            self._ballast.pop().unlink()


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[SmallDisk]:
    assert os.geteuid() == 0, "run it as root: it mounts a file system"
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", at], check=True, timeout=30)
    try:
        yield SmallDisk(at)
    finally:
        subprocess.run(["umount", "--lazy", at], check=True, timeout=30)
