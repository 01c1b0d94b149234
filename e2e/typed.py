"""Commands of pages and notes, typed as they stand by a user who has helm, kubectl and our plug-in."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import helm
from tests.kubernetes.images import ROOT

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMPT = "$ "
_INDENT = "    "


def blocks(page: str, heading: str) -> list[list[str]]:
    """The commands of each block of console text below a heading of the second level."""
    text = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [_commands(block) for block in _BLOCK.findall(text)]


def _commands(block: str) -> list[str]:
    """Lines that begin with a prompt, each with the lines that continue it."""
    lines = block.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(_PROMPT)]
    assert starts[:1] == [0], f"a block begins with a command: {block}"
    ends = [*starts[1:], len(lines)]
    return ["\n".join(lines[a:b]).removeprefix(_PROMPT) for a, b in zip(starts, ends, strict=True)]


def noted(notes: str) -> list[str]:
    """The indented lines of a chart's notes, which are commands."""
    return [line.strip() for line in notes.splitlines() if line.startswith(_INDENT)]


class Watched:
    """A command that goes on in the background, such as ``kubectl get --watch``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def lines(self) -> Sequence[str]:
        return self._file.read_text().splitlines()


class Terminal:
    """A shell in the project's folder, with the rights of the cluster's administrator."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "helm").symlink_to(helm())
        if known := getattr(plane, "programs", None):
            (programs / "kubectl").symlink_to(Path(known["kubectl"]).absolute())
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}

    def type(self, command: str, timeout_s: float = 600) -> str:
        """Returns what the command prints. Raises AssertionError with it if the command fails."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def watching(self, command: str) -> Iterator[Watched]:
        """Run it in the background until the end of the block. A final ``&``, as in a shell, may stand."""
        file = self._folder / "watched.txt"
        words = ["bash", "-c", f"exec {command.removesuffix('&')}"]
        with file.open("wb") as out:
            process = subprocess.Popen(words, cwd=ROOT, env=self._environment, stdout=out, stderr=out)
        try:
            yield Watched(file)
        finally:
            process.kill()
            process.wait()
