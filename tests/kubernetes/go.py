"""Programs that tests build from Go modules where nothing else has them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class NotBuilt(Exception):
    """A program cannot be had; the message says what to do."""


@dataclass(frozen=True)
class Toolchain:
    """Go, for building ``what``, which asks for ``oldest``. ``remedy`` ends the message of each ``error``."""

    what: str
    oldest: tuple[int, int]
    remedy: str
    error: type[NotBuilt]

    def find(self) -> str:
        """Go's own program. Raises ``error`` when there is none, or it is too old."""
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
        if go is None:
            raise self.error(f"{self.what} not found, and neither was Go: {self.remedy}")
        text = self.run([go, "env", "GOVERSION"]).strip()
        match = re.match(r"go(\d+)\.(\d+)", text)
        if match is None or (int(match[1]), int(match[2])) < self.oldest:
            raise self.error(f"{self.what} not found, and {go} is {text}, which is too old: {self.remedy}")
        return go

    def run(self, command: list[str], folder: Path | None = None, **variables: str) -> str:
        """Returns what ``command`` writes to its output. Raises ``error``."""
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", **variables}
        if nice := shutil.which("nice"):
            command = [nice, "-n", "10", *command]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise self.error(
                f"`{' '.join(command)}` failed: see below; check that the Go module proxy (`go env GOPROXY`) "
                f"can be reached, or {self.remedy}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        return done.stdout
