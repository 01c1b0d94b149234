"""The identity of a test run, which every process that it starts inherits, however it is started.

A process that was executed has it in its environment. A process that was only forked has the environment
area of the process that it was forked from, but also its mappings, and one of them is the run's mark. Neither
goes away with a session, a parent or open files, so that ``leftovers`` finds all processes of a run.

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
"""The environment variable with the run's id, ``PID:START``."""

_ROOT: Final = Path(__file__).parents[2]
_FOLDER: Final = "cooperator-run-{}-{}"
_FOLDERS: Final = _FOLDER.format(r"(\d+)", r"(\w+)")
"""The pattern of such names."""
_MARK: Final = "mark"

_lasting: list[object] = []
"""The mark's mapping and the warden, which last as long as this process."""


class NoWarden(Exception):
    """The warden of this run ended before it was ready; its own words are on stderr."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run is the process that began it. ``start``: when that process started, in the system's own unit."""

    pid: int
    start: str

    @classmethod
    def of_process(cls, pid: int) -> Run | None:
        """Returns None when there is no such process. One that was killed and not yet reaped is none."""
        start = _start(pid)
        return None if start is None else cls(pid, start)

    @classmethod
    def parse(cls, text: str) -> Run | None:
        """Returns the run of an id; None if it is none."""
        found = re.fullmatch(r"(\d+):(\w+)", text)
        return cls(int(found[1]), found[2]) if found else None

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}"

    @property
    def lives(self) -> bool:
        return _start(self.pid) == self.start

    def folder(self, base: Path) -> Path:
        """The folder of the run's temporary files."""
        return base / _FOLDER.format(self.pid, self.start)


def run_of_folder(name: str) -> Run | None:
    """Returns the run whose folder has this name; None if it is no such folder."""
    found = re.fullmatch(_FOLDERS, name)
    return Run(int(found[1]), found[2]) if found else None


def runs_of_marks(maps: str) -> set[Run]:
    """Returns the runs whose marks are mapped; ``maps`` is the text of ``/proc/PID/maps``."""
    found = re.findall(rf"/{_FOLDERS}/{_MARK}\b", maps)
    return {Run(int(pid), start) for pid, start in found}


def begin_run(python: str = sys.executable, variable: str = VARIABLE) -> str:
    """Make this process a test run, unless it belongs to one that lives.

    From now on, its children have the id, and temporary files of their own in a folder of the run; a warden
    (``leftovers``) waits for the end of this process, whatever it may be, and ends and removes what is left.
    Before it returns, the same is done for earlier runs whose wardens were killed, too. Returns a line about
    what they had left, with its end; empty if there was nothing. ``python`` has this project's packages. Raises NoWarden.
    """
    enclosing = Run.parse(os.environ.get(variable, ""))
    if enclosing is not None and enclosing.lives:
        return ""
    run = Run.of_process(os.getpid())
    assert run is not None, "this process lives"
    # The warden is none of the processes that it ends.
    environment = {name: value for name, value in os.environ.items() if name != variable}
    warden = subprocess.Popen(
        [python, "-m", "tests.harness.leftovers", "watch", str(run.pid), variable],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # What ends the run's session or process group must not end the warden.
        start_new_session=True,
    )
    _lasting.append(warden)
    assert warden.stdout is not None
    with warden.stdout as answers:
        answer = answers.readline()
    if not answer:
        raise NoWarden("the warden of this test run did not start: see its error above")
    _enter(run, variable)
    return answer.lstrip()


def _enter(run: Run, variable: str) -> None:
    base = Path(tempfile.gettempdir())
    folder = run.folder(base)
    folder.mkdir()
    # Servers that run as users of their own have folders in it.
    folder.chmod(0o711)
    with (folder / _MARK).open("w+b") as mark:
        mark.write(b"\0")
        mark.flush()
        _lasting.append(mmap.mmap(mark.fileno(), 1, prot=mmap.PROT_READ))
    os.environ[variable] = str(run)
    # pytest keeps the folders of the last runs, so that they can be looked at.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(base))
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    # A JVM does not read TMPDIR.
    java_options = (os.environ.get("JDK_JAVA_OPTIONS", ""), f"-Djava.io.tmpdir={folder}")
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(filter(None, java_options))


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
