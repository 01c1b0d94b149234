"""The members of one Worker as process groups: started, found again after a restart, ended, proven ended.

A member's directory holds ``life.json`` with its current or last incarnation. It is written before the
process is started, so the next daemon after a crash in between finds the process by the mark in its
environment, and never starts a second one.
"""

import signal
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cooperator.agent.pod import LAST_WORDS
from cooperator.local import processes
from cooperator.local.layout import known_fields, read_json, write_atomically, write_json
from cooperator.model.thread_names import frozen_by

INCARNATION = "life.json"
LOG = "member.log"
LAST_WORDS_FILE = "last-words"
END_REQUESTED = "end-requested"
_IGNORED = frozenset((signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH))
"""Signals that end no process."""
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class ProcessIncarnation:
    """One incarnation of a member. Times are milliseconds since the epoch.

    ``incarnation`` is unique, and also the mark of its processes. ``revision`` is that of the template it
    was started from. ``pid`` leads its session and process group; None until it is known. ``marked_for`` is
    the reason why it is to leave (the pool's mark). ``terminating_ms`` is when it was asked to end.
    ``ended_ms`` is when *nothing* of it ran any more, which proves its end. ``exit_code`` is negative for a
    signal; None when no daemon saw the exit. ``removed``: its end has been handled. ``past`` holds the
    previous incarnations, all ended, newest first (the last few). ``restarts`` counts them all.
    ``frozen_by`` stands for the task whose thread froze it, if its watchdog saw one. ``end_requested``: a
    person had asked for its end (``note_signal``).
    """

    identity: str
    incarnation: str
    revision: str
    started_ms: int
    pid: int | None = None
    marked_for: str = ""
    terminating_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    removed: bool = False
    past: tuple[str, ...] = ()
    restarts: int = 0
    frozen_by: str = ""
    end_requested: bool = False

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None


class MemberProcesses:
    """The processes of one Worker, for one caller at a time. ``directory`` has one folder per member."""

    def __init__(self, directory: Path, clock_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._clock_ms = clock_ms
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def observe(self) -> dict[str, ProcessIncarnation]:
        """Returns the last incarnation of each member, by identity, with its current state.

        Processes that outlive the first process of an incarnation (a JVM) are killed here; the incarnation
        has ended only when they are gone, too.
        """
        return {process.identity: self._look(process) for process in read_incarnations(self._directory)}

    def create(
        self,
        identity: str,
        revision: str,
        command: Callable[[str], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> ProcessIncarnation:
        """Starts a new incarnation; ``command`` is called with the new incarnation's name.

        Raises ``ValueError`` while an earlier incarnation has not ended.
        """
        earlier = self._read(identity)
        if earlier is not None and not earlier.ended:
            raise ValueError(f"{identity} still runs (incarnation {earlier.incarnation})")
        process = ProcessIncarnation(identity, uuid.uuid4().hex[:12], revision, self._clock_ms())
        if earlier is not None:
            past = (earlier.incarnation, *earlier.past)[:_REMEMBERED]
            process = replace(process, past=past, restarts=earlier.restarts + 1)
        self._write(process)
        folder = self._directory / identity
        write_atomically(folder / LAST_WORDS_FILE, "")
        variables = {**(environment or {}), LAST_WORDS: str(folder / LAST_WORDS_FILE)}
        child = processes.spawn(command(process.incarnation), process.incarnation, folder / LOG, variables)
        self._children[process.incarnation] = child
        process = replace(process, pid=child.pid)
        self._write(process)
        return process

    def mark(self, identity: str, incarnation: str, reason: str) -> None:
        """Stores why the incarnation is to leave; an empty reason clears it."""
        process = self._living(identity, incarnation)
        if process is not None and process.marked_for != reason:
            self._write(replace(process, marked_for=reason))

    def terminate(self, identity: str, incarnation: str) -> None:
        """Asks the incarnation to give away its work and end (SIGTERM to its first process)."""
        process = self._living(identity, incarnation)
        if process is None:
            return
        if process.terminating_ms is None:
            self._write(replace(process, terminating_ms=self._clock_ms()))
        child = self._children.get(incarnation)
        if child is not None:
            # This works right after the start, too, when the process does not carry its mark yet.
            child.terminate()
        elif process.pid is not None:
            processes.signal_process(process.pid, incarnation, signal.SIGTERM)

    def kill(self, identity: str, incarnation: str) -> None:
        """Sends SIGKILL to all processes of the incarnation; ``observe`` sees its end."""
        if self._living(identity, incarnation) is not None:
            processes.kill_all(incarnation)

    def remove(self, identity: str, incarnation: str) -> None:
        """Records that the end of this incarnation has been handled; its record and its log stay."""
        process = self._read(identity)
        if process is not None and process.incarnation == incarnation and process.ended:
            self._write(replace(process, removed=True))

    def _look(self, process: ProcessIncarnation) -> ProcessIncarnation:
        if process.ended:
            return process
        child = self._children.get(process.incarnation)
        pid = process.pid
        if pid is None:
            # The daemon that started this incarnation died, or had no space, before it could write down the
            # process.
            pid = processes.leader_of(process.incarnation) if child is None else child.pid
            if pid is not None:
                process = replace(process, pid=pid)
                self._write(process)
        if child is not None:
            running = child.poll() is None
        else:
            running = pid is not None and processes.is_marked(pid, process.incarnation)
        if running:
            return process
        if processes.marked(process.incarnation):
            processes.kill_all(process.incarnation)
            return process
        code = child.returncode if child is not None else None
        words = self._directory / process.identity / LAST_WORDS_FILE
        froze = frozen_by(words.read_text(errors="replace")) if words.exists() else ""
        process = replace(
            process,
            ended_ms=self._clock_ms(),
            exit_code=code,
            frozen_by=froze,
            end_requested=_is_end_requested(self._directory / process.identity, process.incarnation),
        )
        self._write(process)
        # Only now: without space for the record, the next look still needs the exit code.
        self._children.pop(process.incarnation, None)
        return process

    def _living(self, identity: str, incarnation: str) -> ProcessIncarnation | None:
        process = self._read(identity)
        return None if process is None or process.ended or process.incarnation != incarnation else process

    def _read(self, identity: str) -> ProcessIncarnation | None:
        return read_incarnation(self._directory / identity)

    def _write(self, process: ProcessIncarnation) -> None:
        write_json(self._directory / process.identity / INCARNATION, asdict(process))


def note_signal(folder: Path, incarnation: str, number: signal.Signals) -> None:
    """Notes that a person sends a signal to a member, before it is sent: an end by it is nobody's fault.

    ``folder``: the member's. SIGSTOP counts, too, since the watchdog ends a member that stands still; SIGCONT
    takes it back. Raises ``StorageError``.
    """
    if number is signal.SIGCONT:
        (folder / END_REQUESTED).unlink(missing_ok=True)
    elif number not in _IGNORED:
        write_atomically(folder / END_REQUESTED, incarnation)


def _is_end_requested(folder: Path, incarnation: str) -> bool:
    try:
        return (folder / END_REQUESTED).read_text() == incarnation
    except (OSError, ValueError):
        return False


def read_incarnations(directory: Path) -> tuple[ProcessIncarnation, ...]:
    """Returns the recorded incarnations below a Worker's member directory, sorted by identity."""
    if not directory.is_dir():
        return ()
    found = (read_incarnation(folder) for folder in sorted(directory.iterdir()))
    return tuple(process for process in found if process is not None)


def read_incarnation(folder: Path) -> ProcessIncarnation | None:
    value: dict[str, Any] | None = read_json(folder / INCARNATION)
    try:
        if value is None:
            return None
        known = known_fields(ProcessIncarnation, value)
        return ProcessIncarnation(**{**known, "past": tuple(known["past"])})
    except (TypeError, KeyError):
        return None
