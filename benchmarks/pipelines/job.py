"""The job that contenders do, and the interface of a contender."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol, Self

Sink = Literal["kafka", "files", "postgres"]
Converter = Literal["bytes", "json", "json-schema", "avro", "flawed json"]
"""In flawed JSON each hundredth record is not JSON; it goes to the sink as a dead letter."""

ROOT: Final = Path(__file__).parents[2]
COPY_PREFIX: Final = "copy"
"""The target of a topic is ``copy.<topic>``: MirrorSource's default policy names it so."""
_WORDS_BYTES: Final = 4_000
_GRACE_S: Final = 20.0


class ContenderFailed(Exception):
    """A contender ended, or reported a failed task; the message has its last words."""


@dataclass(frozen=True)
class Job:
    """One turn's work: all records of ``topic``, read committed, into the sink.

    ``directory`` is the turn's own. ``database``: psycopg's parameters, for sink postgres. ``trigger_ms`` is
    the interval between batches, for contenders that have batches.
    """

    directory: Path
    bootstrap_servers: str
    topic: str
    partitions: int
    sink: Sink
    converter: Converter = "bytes"
    registry_url: str = ""
    database: Mapping[str, str] = field(default_factory=dict)
    trigger_ms: int = 1_000

    @property
    def target(self) -> str:
        """The topic, or the table, that gets the rows."""
        return f"{COPY_PREFIX}.{self.topic}" if self.sink == "kafka" else self.topic.replace("-", "_")

    @property
    def output(self) -> Path:
        """The directory that gets the files."""
        return self.directory / "output"

    def write(self) -> Path:
        """Write it for a process that ``read``s it; returns the file."""
        path = self.directory / "job.json"
        path.write_text(json.dumps({**asdict(self), "directory": str(self.directory)}))
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        settings = json.loads(path.read_text())
        return cls(**{**settings, "directory": Path(settings["directory"])})


class Running(Protocol):
    """A contender at work. Every method may raise ContenderFailed."""

    def roots(self) -> Sequence[int]:
        """The processes whose trees are measured. They may change, as when a process is replaced."""

    def beside(self) -> Sequence[int]:
        """The processes that belong to the turn, but do not do the work."""

    def check(self) -> None:
        """Raise ContenderFailed if it cannot go on."""

    def go(self) -> None:
        """The clock starts, and the measured records are there. Does something only where they are not read
        from the topic."""

    def stop(self) -> None:
        """End all processes. Never raises."""


class Contender(Protocol):
    """One way to do jobs. ``guarantee`` is what it promises, for the tables."""

    name: str
    guarantee: str

    def start(self, job: Job) -> Running:
        """Start it; does not wait until it works."""


class Processes:
    """A contender that is one process with its children; implements ``Running``."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        paths = [str(ROOT), str(ROOT / "operator"), os.environ.get("PYTHONPATH", "")]
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def roots(self) -> Sequence[int]:
        return [self._child.pid]

    def beside(self) -> Sequence[int]:
        return []

    def check(self) -> None:
        if self._child.poll() is not None:
            raise ContenderFailed(f"it ended with code {self._child.returncode}: {last_words(self._log)}")

    def go(self) -> None: ...

    def stop(self) -> None:
        if self._child.poll() is None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_GRACE_S)
        with suppress(ProcessLookupError):
            # The session is its own, and so is the process group.
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


def module(name: str, job: Job) -> list[str]:
    """The command of a Python module that takes a written job as its argument."""
    return [sys.executable, "-m", name, str(job.write())]


def last_words(log: Path) -> str:
    """The end of a log."""
    if not log.exists():
        return "it wrote no log"
    return log.read_bytes()[-_WORDS_BYTES:].decode(errors="replace").strip()
