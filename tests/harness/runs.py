"""The processes of a test run, and the ids by which everything that they start is known as theirs.

A process of a run is pytest, a worker of pytest-xdist, or what starts pytest. Every other process inherits
the ids of those that it comes from, however it is started, and must outlive none of them: an executed program
has them in its environment. A process that was only forked has the environment area of the
one that it was forked from, but also its mappings, and one of them is that one's mark. Neither goes away with
a session, a parent or open files.

This needs the standard library only: run.py uses it with a Python that has nothing else.
"""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VARIABLE: Final = "COOPERATOR_TEST_RUN"
"""The environment variable with ids, ``PID:START``, separated by spaces: the run's first process first."""
FOLDER: Final = "COOPERATOR_TEST_RUN_FOLDER"
"""The environment variable with the folder of the run: temporary files, and marks of its processes."""

_ROOT: Final = Path(__file__).parents[2]
_FOLDERS: Final = r"cooperator-run-(\d+)-(\w+)"
_MARKS: Final = r"mark-(\d+)-(\w+)"

_lasting: list[object] = []
"""The mark's mapping and the warden, which last as long as this process."""


class NoWarden(Exception):
    """The warden of this run ended before it was ready; its own words are on stderr."""


@dataclass(frozen=True, slots=True)
class RunProcess:
    """``start``: when it started, in the system's own unit; another process may get its number later."""

    pid: int
    start: str

    @classmethod
    def find(cls, pid: int) -> RunProcess | None:
        """Returns None when there is no such process. One that was killed and not yet reaped is none."""
        start = _start(pid)
        return None if start is None else cls(pid, start)

    @property
    def lives(self) -> bool:
        return _start(self.pid) == self.start

    @property
    def id(self) -> str:
        return f"{self.pid}:{self.start}"

    @property
    def mark(self) -> str:
        """The name of its mark."""
        return f"mark-{self.pid}-{self.start}"

    @property
    def folder(self) -> str:
        """The name of the folder of a run that it began."""
        return f"cooperator-run-{self.pid}-{self.start}"


def of_ids(text: str) -> tuple[RunProcess, ...]:
    """Returns the processes of ``VARIABLE``."""
    return _found(r"(?<!\S)(\d+):(\w+)(?!\S)", text)


def of_maps(text: str) -> tuple[RunProcess, ...]:
    """Returns the processes whose marks are mapped, by the text of ``/proc/PID/maps``."""
    return _found(rf"/{_FOLDERS.replace('(', '(?:')}/{_MARKS}\b", text)


def of_folder(folder: Path) -> RunProcess | None:
    """Returns the process that began the run with this folder; None if it is no run's."""
    return next(iter(_found(rf"^{_FOLDERS}$", folder.name)), None)


def marked_in(folder: Path) -> tuple[RunProcess, ...]:
    """Returns the processes of the run with this folder."""
    return tuple(found for path in folder.glob("mark-*") for found in _found(rf"^{_MARKS}$", path.name))


def begin_run(python: str = sys.executable) -> str:
    """Make this process one of the run that it was started by, or else the first one of a run.

    A warden (``leftovers``), which the first process starts, sees to it that all processes that are started
    from now on end with this one, whatever its end is, and that the folder of their temporary files goes with
    the run. Earlier leftovers go before this returns; it returns a line about them, with its end; empty if
    there were none. ``python`` has this project's packages. Raises NoWarden.
    """
    ours = RunProcess.find(os.getpid())
    assert ours is not None, "this process lives"
    enclosing = of_ids(os.environ.get(VARIABLE, ""))
    folder = Path(os.environ.get(FOLDER, ""))
    if ours in enclosing:
        return ""
    if enclosing and all(process.lives for process in enclosing) and marked_in(folder):
        _join(ours, enclosing, folder)
        return ""
    base = Path(tempfile.gettempdir())
    folder = base / ours.folder
    folder.mkdir()
    # Servers that run as users of their own have folders in it.
    folder.chmod(0o711)
    cleaned = _start_warden(python)
    _join(ours, (), folder)
    os.environ[FOLDER] = os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    # pytest keeps the folders of the last runs, so that they can be looked at.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(base))
    # A JVM does not read TMPDIR.
    java_options = (os.environ.get("JDK_JAVA_OPTIONS", ""), f"-Djava.io.tmpdir={folder}")
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(filter(None, java_options))
    return cleaned


def _start_warden(python: str) -> str:
    """Returns its line about earlier leftovers, when these are gone."""
    # It is none of the processes that it ends.
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    warden = subprocess.Popen(
        [python, "-m", "tests.harness.leftovers", "watch", str(os.getpid())],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # A signal to the session or process group of the run must not end the warden.
        start_new_session=True,
    )
    _lasting.append(warden)
    assert warden.stdout is not None
    with warden.stdout as answers:
        answer = answers.readline()
    if not answer:
        raise NoWarden("the warden of this test run did not start: see its error above")
    return answer.lstrip()


def _join(ours: RunProcess, enclosing: tuple[RunProcess, ...], folder: Path) -> None:
    path = folder / ours.mark
    path.write_bytes(b"\0")
    with path.open("rb") as mark:
        _lasting.append(mmap.mmap(mark.fileno(), 1, prot=mmap.PROT_READ))
    os.environ[VARIABLE] = " ".join(process.id for process in (*enclosing, ours))


def _found(pattern: str, text: str) -> tuple[RunProcess, ...]:
    return tuple(RunProcess(int(pid), start) for pid, start in re.findall(pattern, text))


def _start(pid: int) -> str | None:
    """When the process started; None if it has ended."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        # Field 22, in ticks since the machine started; the first one here is field 3.
        return None if fields[0] in "ZX" else fields[19]
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, start = asked.stdout.strip().partition(" ")
    return None if state[:1] in ("", "Z") else re.sub(r"\W+", "_", start.strip())
