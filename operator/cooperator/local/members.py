"""The members of one Worker as process groups: made, found again after a restart, ended, proven ended.

A member's directory holds ``life.json``: which life of it runs, or ran last. It is written before the
process is started, so a daemon that dies in between finds the process by the mark in its environment, and
never starts a second one.
"""

import signal
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cooperator.local import processes
from cooperator.local.layout import read_json, write_json

LIFE = "life.json"
LOG = "member.log"
_REMEMBERED = 8


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a member. Times are milliseconds since the epoch.

    ``incarnation``: unique; also the mark of its processes. ``revision``: of the template it was started
    from. ``pid``: leads its session and process group; None until it is known. ``marked_for``: why it is to
    leave (the pool's mark), since ``marked_ms``. ``terminating_ms``: when it was told to end. ``ended_ms``:
    when *nothing* of it ran any more, which is proof of its end. ``exit_code``: negative for a signal; None
    when nobody was there to see it. ``removed``: its end has been dealt with. ``past``: the incarnations
    before this one, all ended, newest first (the last few). ``restarts``: how many there were.
    """

    identity: str
    incarnation: str
    revision: str
    started_ms: int
    pid: int | None = None
    marked_for: str = ""
    marked_ms: int = 0
    terminating_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    removed: bool = False
    past: tuple[str, ...] = ()
    restarts: int = 0

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None


class MemberProcesses:
    """The processes of one Worker. ``directory``: one folder per member below it. One caller at a time."""

    def __init__(self, directory: Path, clock_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._clock_ms = clock_ms
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def observe(self) -> dict[str, Life]:
        """The last life of each member, by identity, as true as it can be told now.

        What outlived the first process of a life (a JVM) is killed here, and only when that is gone, too,
        has the life ended.
        """
        return {life.identity: self._look(life) for life in read_lives(self._directory)}

    def create(
        self,
        identity: str,
        revision: str,
        command: Callable[[str], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> Life:
        """Begin a new life; ``command`` is given its incarnation.

        Raises ValueError while an earlier life has not ended.
        """
        earlier = self._read(identity)
        if earlier is not None and not earlier.ended:
            raise ValueError(f"{identity} still lives ({earlier.incarnation})")
        life = Life(identity, uuid.uuid4().hex[:12], revision, self._clock_ms())
        if earlier is not None:
            past = (earlier.incarnation, *earlier.past)[:_REMEMBERED]
            life = replace(life, past=past, restarts=earlier.restarts + 1)
        self._write(life)
        child = processes.spawn(
            command(life.incarnation), life.incarnation, self._directory / identity / LOG, environment
        )
        self._children[life.incarnation] = child
        life = replace(life, pid=child.pid)
        self._write(life)
        return life

    def mark(self, identity: str, incarnation: str, reason: str) -> None:
        """Keep with the life why it is to leave; an empty reason takes that back."""
        life = self._living(identity, incarnation)
        if life is not None and life.marked_for != reason:
            self._write(replace(life, marked_for=reason, marked_ms=self._clock_ms() if reason else 0))

    def terminate(self, identity: str, incarnation: str) -> None:
        """Ask the life to give its work away and end (SIGTERM to its first process)."""
        life = self._living(identity, incarnation)
        if life is None:
            return
        if life.terminating_ms is None:
            self._write(replace(life, terminating_ms=self._clock_ms()))
        child = self._children.get(incarnation)
        if child is not None:
            # Also right after its start, when it does not carry its mark yet.
            child.terminate()
        elif life.pid is not None:
            processes.signal_process(life.pid, incarnation, signal.SIGTERM)

    def kill(self, identity: str, incarnation: str) -> None:
        """SIGKILL to all that belongs to the life; that it ended is seen by ``observe``."""
        if self._living(identity, incarnation) is not None:
            processes.kill_all(incarnation)

    def remove(self, identity: str, incarnation: str) -> None:
        """The end of this life has been dealt with; what is known of it stays, and so does its log."""
        life = self._read(identity)
        if life is not None and life.incarnation == incarnation and life.ended:
            self._write(replace(life, removed=True))

    def _look(self, life: Life) -> Life:
        if life.ended:
            return life
        child = self._children.get(life.incarnation)
        pid = life.pid
        if pid is None and child is None:
            # Whoever began this life died before it could write down which process it is.
            pid = processes.leader_of(life.incarnation)
            if pid is not None:
                life = replace(life, pid=pid)
                self._write(life)
        if child is not None:
            running = child.poll() is None
        else:
            running = pid is not None and processes.is_marked(pid, life.incarnation)
        if running:
            return life
        if processes.marked(life.incarnation):
            processes.kill_all(life.incarnation)
            return life
        code = child.returncode if child is not None else None
        self._children.pop(life.incarnation, None)
        life = replace(life, ended_ms=self._clock_ms(), exit_code=code)
        self._write(life)
        return life

    def _living(self, identity: str, incarnation: str) -> Life | None:
        life = self._read(identity)
        return None if life is None or life.ended or life.incarnation != incarnation else life

    def _read(self, identity: str) -> Life | None:
        return read_life(self._directory / identity)

    def _write(self, life: Life) -> None:
        write_json(self._directory / life.identity / LIFE, asdict(life))


def read_lives(directory: Path) -> tuple[Life, ...]:
    """The recorded lives below a Worker's member directory, sorted by identity."""
    if not directory.is_dir():
        return ()
    found = (read_life(folder) for folder in sorted(directory.iterdir()))
    return tuple(life for life in found if life is not None)


def read_life(folder: Path) -> Life | None:
    value: dict[str, Any] | None = read_json(folder / LIFE)
    try:
        return Life(**{**value, "past": tuple(value["past"])}) if value is not None else None
    except (TypeError, KeyError):
        return None
