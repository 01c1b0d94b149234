"""Exactly-once delivery of a unit's batches into a transactional log.

The log keeps one marker per unit, written in the same transaction as a batch's rows: who wrote last
(the owner), and which batch of which query. Opening the log ends every transaction of a writer before
(it is fenced); whoever opens reads the marker after that, and skips what it covers. So a batch is
committed at most once whoever tries, provided that every attempt at one batch has the same rows, which
Spark's source logs promise.

Who may go on is a second question. A log that fences cannot be told from one that gave up on a slow
transaction. The owner in the marker tells them apart: a writer claims the marker once, when it starts;
if it then loses its log and finds another owner in the marker, it was replaced, and commits nothing
more. A process that was frozen and wakes finds just that. Where attempts have an order (``fence.py``), one
that wakes before it has claimed the marker is refused, too, and does not replace its successor.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from cooperator.runtime.connectors.base import Cancelled
from cooperator.runtime.fence import Fence

log = logging.getLogger(__name__)


class Record(NamedTuple):
    """A record to write. ``topic`` empty: the log's own; ``partition`` -1: by the key; ``timestamp_ms`` 0:
    the time of writing."""

    key: bytes | None
    value: bytes | None
    topic: str = ""
    partition: int = -1
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


Row = tuple[bytes | None, bytes | None] | Record
"""A record, or its key and value alone."""

_BACKOFF_S = 0.2
_BACKOFF_MAX_S = 5.0
_SLOWDOWNS = 7
_CLAIMS = 10


class LogLost(Exception):
    """Another writer has opened the log, or the log has given up on this transaction: not known which."""


class TransactionAborted(Exception):
    """The transaction came to nothing for a passing reason; it can be tried again."""


class Replaced(Exception):
    """Another attempt writes this unit now: this one must not go on."""


class BatchTooSlow(Exception):
    """A batch does not fit into the longest transaction that is allowed."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Who claimed the unit last, and the newest batch that is committed (-1: none) of which query.

    ``claim``: the owner's on the unit's fence; of two, the greater is the newer one (empty: it has none).
    """

    owner: str
    query: str = ""
    batch: int = -1
    claim: str = ""

    def covers(self, query: str, batch: int) -> bool:
        """A new checkpoint counts its batches from 0 again, under a new query id: nothing is covered."""
        return self.query == query and batch <= self.batch

    def encode(self) -> bytes:
        content = {"owner": self.owner, "query": self.query, "batch": self.batch, "claim": self.claim}
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Marker":
        content = json.loads(value)
        owner, query, batch = str(content["owner"]), str(content["query"]), int(content["batch"])
        return cls(owner, query, batch, str(content.get("claim", "")))


class Log(Protocol):
    """An open log. All calls raise ``LogLost``, ``TransactionAborted``, or what cannot be helped."""

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        """Rows and marker in one transaction; the number of rows. After an error none of it is there,
        except after ``LogLost``, when only the marker can tell."""

    def close(self) -> None: ...


class LogProvider(Protocol):
    """A unit's log as it can be opened."""

    def open(self, slowdown: int) -> Log:
        """Ends all transactions of writers before. ``slowdown``: how often the transaction's time limit
        is to be doubled."""

    def marker(self) -> Marker | None:
        """The committed marker; None when nothing was ever written."""


class UnitWriter:
    """Writes the batches of one unit. ``cancelled`` ends every wait with ``Cancelled``. ``fence``: the
    attempt's claim on the unit; nothing is written, with ``Fenced``, when that is not the last one."""

    def __init__(
        self, provider: LogProvider, owner: str, cancelled: threading.Event, fence: Fence | None = None
    ) -> None:
        self._provider = provider
        self._owner = owner
        self._cancelled = cancelled
        self._fence = fence
        self._claim = "" if fence is None else fence.claim
        self._log: Log | None = None
        self._marker = Marker(owner)

    def claim(self) -> Marker:
        """Fences all writers before, and writes this owner into the marker; what was committed so far."""
        began_with: Marker | None = None
        for attempt in self._attempts():
            try:
                self._check_fence()
                unit_log = self._open(slowdown=0)
                found = self._provider.marker() or Marker("")
                began_with = began_with or found
                if found.owner not in (began_with.owner, self._owner):
                    raise Replaced(f"{found.owner} claimed the unit while {self._owner} did")
                if self._claim and found.claim > self._claim:
                    raise Replaced(f"{found.owner} claimed the unit later than {self._owner}: {found.claim}")
                claimed = replace(found, owner=self._owner, claim=self._claim)
                unit_log.commit((), claimed)
            except (LogLost, TransactionAborted) as error:
                log.info("claim %d of %s: %s", attempt, self._owner, error)
                if attempt == _CLAIMS:
                    raise
            else:
                self._marker = claimed
                return claimed
        raise AssertionError("attempts end by an exception")

    def write(self, query: str, batch: int, rows: Callable[[], Iterable[Row]]) -> int:
        """Commits a batch unless it is already; the number of rows written now. ``rows`` gives the same
        rows in each call, and is called once for each attempt."""
        slowdown = 0
        target = Marker(self._owner, query, batch, self._claim)
        for attempt in self._attempts():
            try:
                unit_log = self._log or self._reopen(slowdown)
                if self._marker.covers(query, batch):
                    log.info("batch %d of %s was committed before", batch, query)
                    return 0
                self._check_fence()
                written = unit_log.commit(rows(), target)
            except LogLost as error:
                log.info("attempt %d at batch %d: %s", attempt, batch, error)
                if slowdown == _SLOWDOWNS:
                    raise BatchTooSlow(f"batch {batch} did not fit into the longest transaction") from error
                slowdown += 1
                self._drop()
            except TransactionAborted as error:
                log.info("attempt %d at batch %d: %s", attempt, batch, error)
            else:
                self._marker = target
                return written
        raise AssertionError("attempts end by an exception")

    def close(self) -> None:
        self._drop()

    def _reopen(self, slowdown: int) -> Log:
        """The log again, if the unit is still this owner's. Looked at before opening, so that a writer
        that was replaced does not disturb its successor, and after, when nobody can come in between."""
        self._check_owner()
        unit_log = self._open(slowdown)
        self._marker = self._check_owner()
        return unit_log

    def _check_fence(self) -> None:
        if self._fence is not None:
            self._fence.check()

    def _check_owner(self) -> Marker:
        found = self._provider.marker() or Marker("")
        if found.owner != self._owner:
            raise Replaced(f"{found.owner or 'another attempt'} writes this unit now, {self._owner} must end")
        return found

    def _open(self, slowdown: int) -> Log:
        self._drop()
        self._log = self._provider.open(slowdown)
        return self._log

    def _drop(self) -> None:
        if self._log is not None:
            unit_log, self._log = self._log, None
            unit_log.close()

    def _attempts(self) -> Iterator[int]:
        """1, 2, … with a growing wait in between; ends only by ``Cancelled``."""
        attempt, backoff_s = 1, _BACKOFF_S
        while not self._cancelled.is_set():
            yield attempt
            if self._cancelled.wait(backoff_s):
                break
            attempt, backoff_s = attempt + 1, min(backoff_s * 2, _BACKOFF_MAX_S)
        raise Cancelled
