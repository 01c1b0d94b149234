"""A unit's transactional log in memory: fences, gives up on slow transactions, fails as it is told."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from cooperator.runtime.connectors.exactly_once import LogLost, Marker, Row, TransactionAborted


class Fate(Enum):
    """What becomes of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """It comes to nothing, and its writer knows."""
    TIMED_OUT = "timed out"
    """It comes to nothing; to its writer that looks like having been fenced."""
    UNANSWERED = "unanswered"
    """It is committed, and its writer cannot know."""


@dataclass
class TwinLogs:
    """All writers of one unit share it. ``fates``: of the transactions to come, then all are committed.
    ``before_commit``: runs before a transaction ends (what others do meanwhile)."""

    fates: list[Fate] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    committed: Marker | None = None
    epoch: int = 0
    slowdowns: list[int] = field(default_factory=list)
    before_commit: Callable[[], object] | None = None

    def open(self, slowdown: int) -> "TwinLog":
        self.epoch += 1
        self.slowdowns.append(slowdown)
        return TwinLog(self, self.epoch)

    def marker(self) -> Marker | None:
        return self.committed


@dataclass
class TwinLog:
    logs: TwinLogs
    epoch: int
    closed: bool = False

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        assert not self.closed, "committed after it was closed"
        written = list(rows)
        meanwhile, self.logs.before_commit = self.logs.before_commit, None
        if meanwhile is not None:
            meanwhile()
        if self.epoch != self.logs.epoch:
            raise LogLost("fenced")
        fate = self.logs.fates.pop(0) if self.logs.fates else Fate.COMMITTED
        if fate is Fate.ABORTED:
            raise TransactionAborted("not enough replicas")
        if fate is Fate.TIMED_OUT:
            self.logs.epoch += 1
            raise LogLost("fenced")
        self.logs.rows += written
        self.logs.committed = Marker.decode(marker.encode())
        if fate is Fate.UNANSWERED:
            self.logs.epoch += 1
            raise LogLost("fenced")
        return len(written)

    def close(self) -> None:
        self.closed = True


class Impatient(threading.Event):
    """Never waits: time plays no part in these tests."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()
