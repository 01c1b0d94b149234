"""A schema registry in a process of its own, as another one's tests run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_RUNS = (
    "import pathlib, sys; from tests.runtime.registry import Registry; "
    "registry = Registry(pathlib.Path(sys.argv[1])); print(registry.url, flush=True); "
    "sys.stdin.read(); registry.close()"
)


class RegistryProcess:
    """Runs until it is closed, or this process ends."""

    def __init__(self, log: Path) -> None:
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUNS, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        assert self._process.stdout is not None
        # The first user of a machine downloads the registry, and the process says so before its URL.
        self.url = next((line.strip() for line in self._process.stdout if line.startswith("http://")), "")
        assert self.url, "the registry has not begun"

    def close(self) -> None:
        self._process.communicate(timeout=60)
