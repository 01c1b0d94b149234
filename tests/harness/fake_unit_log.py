"""A unit's transactional log in memory: it fences, times out slow transactions, and fails on request."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from cooperator.connectors.exactly_once import LogLost, Marker, Row, TransactionAborted


class Fate(Enum):
    """The outcome of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """It is aborted, and its writer knows."""
    TIMED_OUT = "timed out"
    """It is aborted; to its writer that looks like being fenced."""
    UNANSWERED = "unanswered"
    """It is committed, and its writer cannot know."""


@dataclass
class FakeLogs:
    """Shared by all writers of one unit. ``fates`` are the outcomes of the coming transactions; all later
    ones are committed. ``before_commit`` runs before a transaction ends, as another writer's action."""

    fates: list[Fate] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    committed: Marker | None = None
    epoch: int = 0
    slowdowns: list[int] = field(default_factory=list)
    before_commit: Callable[[], object] | None = None

    def open(self, slowdown: int) -> "FakeLog":
        self.epoch += 1
        self.slowdowns.append(slowdown)
        return FakeLog(self, self.epoch)

    def marker(self) -> Marker | None:
        return self.committed


@dataclass
class FakeLog:
    logs: FakeLogs
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
