"""Exactly-once delivery of a unit's batches into a transactional log.

The log keeps one marker per unit, written in the same transaction as a batch's rows: the last writer (the
owner), the query, and its batch. Opening the log fences earlier writers and ends their transactions; the new
writer reads the marker after that, and skips what it covers. So a batch is committed at most once by any
attempt, provided that every attempt at one batch has the same rows, which Spark's source logs guarantee.

The right to continue is a separate question. A writer that lost its log cannot tell whether it was fenced
or whether the log gave up on a slow transaction. The owner in the marker tells them apart: a writer claims
the marker once, when it starts; if it then loses its log and finds another owner in the marker, it was
replaced, and commits nothing more. A frozen process that wakes up finds just that. Where attempts have an
order (``fence.py``), one that wakes up before it has claimed the marker is refused, too, and does not replace
its successor.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

from cooperator.connectors.base import Cancelled
from cooperator.connectors.output_record import OutputRecord

log = logging.getLogger(__name__)


CLOSED: Final = "-".join(["9" * 12] * 3)
"""The claim of a marker that no attempt may write any more: its unit's position is elsewhere."""

Row = tuple[bytes | None, bytes | None] | OutputRecord
"""A record, or its key and value alone."""

_BACKOFF_S = 0.2
_BACKOFF_MAX_S = 5.0
_SLOWDOWNS = 7
_CLAIMS = 10


class LogLost(Exception):
    """The log is lost: either another writer has opened it, or it has given up on this transaction."""


class TransactionAborted(Exception):
    """The transaction was aborted for a transient reason; it can be retried."""


class Replaced(Exception):
    """Another attempt writes this unit now, so this one must not continue."""


class BatchTooSlow(Exception):
    """A batch does not fit into the longest transaction allowed."""


WAY_OUT = (
    "Restore the newest copy of the checkpoint; or stop the Connector, reset its offsets, alter them "
    "to the end of the sink (kubectl cooperator offsets, cooperator local offsets, or the REST API), and "
    "resume it"
)


class CheckpointBehind(ValueError):
    """The sink contains a batch that the checkpoint never planned: the checkpoint was lost, or restored from
    an older copy.
    """


@dataclass(frozen=True, slots=True)
class Marker:
    """The last attempt that claimed the unit, with its query and its newest committed batch (-1: none).

    ``claim`` is the owner's claim on the unit's fence; the greater of two claims is the newer one (empty:
    none). ``content`` identifies what the batch covers (``content_of``; empty: written before there was one).
    ``position`` is where the source is read from next, in the form of its class (empty: from its beginning;
    None: only the checkpoint tells, as in all earlier releases). ``fixed`` identifies the values of options
    that must not change as long as there is a position (``fixed_options``; empty: not known).
    """

    owner: str
    query: str = ""
    batch: int = -1
    claim: str = ""
    content: str = ""
    position: str | None = None
    fixed: str = ""

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch of that number is committed.

        A new checkpoint counts its batches from 0 again, under a new query id, so that nothing of it is
        covered.
        """
        return self.query == query and batch <= self.batch

    def covers(self, query: str, batch: int, content: str) -> bool:
        """Whether exactly this batch is committed. Spark repeats only the newest batch, with the same
        contents.

        Raises ``CheckpointBehind`` when the number is committed with other contents.
        """
        if not self.has(query, batch):
            return False
        if batch < self.batch or (self.content and self.content != content):
            raise self.behind(f"plans other records as batch {batch}")
        return True

    def refuse_behind(self, query: str, newest: int) -> None:
        """Raises ``CheckpointBehind`` if the checkpoint, whose newest batch is given, lacks this one."""
        if self.query == query and newest < self.batch:
            raise self.behind(f"ends with batch {newest}" if newest >= 0 else "has no batch")

    def behind(self, what: str) -> CheckpointBehind:
        """Returns the refusal of a checkpoint that lacks what this marker says; ``what``: "has no batch"."""
        end = self.content.partition(" ")[2]
        return CheckpointBehind(
            f"the sink has batch {self.batch} of this checkpoint{f', up to {end}' if end else ''}, but the "
            f"checkpoint {what}: the checkpoint was lost, or restored from an older copy, and continuing "
            f"would lose or duplicate records. {WAY_OUT}"
        )

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Marker":
        content = json.loads(value)
        position = content.get("position")
        return cls(
            owner=str(content["owner"]),
            query=str(content["query"]),
            batch=int(content["batch"]),
            claim=str(content.get("claim", "")),
            content=str(content.get("content", "")),
            position=None if position is None else str(position),
            fixed=str(content.get("fixed", "")),
        )


class Log(Protocol):
    """An open log. All calls raise ``LogLost``, ``TransactionAborted``, or errors that no retry can help."""

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        """Commits rows and marker in one transaction; returns the number of rows.

        After an error nothing of it is committed, except after ``LogLost``: then only the marker can tell.
        """

    def close(self) -> None: ...


class UnitClaim(Protocol):
    """An attempt's claim on a unit, such as a ``Fence``. The greater of two claims is the newer one."""

    @property
    def claim(self) -> str: ...

    def check(self) -> None:
        """Raises ``Fenced`` unless it is the latest claim."""


class LogProvider(Protocol):
    """A unit's log, which can be opened."""

    def open(self, slowdown: int) -> Log:
        """Opens the log and ends all transactions of earlier writers.

        ``slowdown`` is how many times the transaction's time limit is doubled.
        """

    def marker(self) -> Marker | None:
        """Returns the committed marker; None when nothing was ever written."""


class UnitWriter:
    """Writes the batches of one unit.

    ``cancelled`` ends every wait with ``Cancelled``. ``fence`` is the attempt's claim on the unit: nothing is
    written, and ``Fenced`` is raised, once it is not the latest claim. ``fixed`` is for its markers.
    """

    def __init__(
        self,
        provider: LogProvider,
        owner: str,
        cancelled: threading.Event,
        fence: UnitClaim | None = None,
        fixed: str = "",
    ) -> None:
        self._provider = provider
        self._owner = owner
        self._cancelled = cancelled
        self._fence = fence
        self._fixed = fixed
        self._claim = "" if fence is None else fence.claim
        self._log: Log | None = None
        self._marker = Marker(owner)
        self.is_closed = False
        """Whether ``claim`` has found a closed marker."""

    def claim(self) -> Marker:
        """Fences all earlier writers and claims the marker; returns what was committed so far."""
        began_with: Marker | None = None
        for attempt in self._attempts():
            try:
                self._check_fence()
                unit_log = self._open(slowdown=0)
                found = self._provider.marker() or Marker("")
                began_with = began_with or found
                if found.owner not in (began_with.owner, self._owner):
                    raise Replaced(f"{found.owner} claimed the unit at the same time as {self._owner}")
                self.is_closed = found.claim == CLOSED
                if self._claim and found.claim > self._claim:
                    raise Replaced(f"{found.owner} claimed the unit later than {self._owner}: {found.claim}")
                claimed = replace(found, owner=self._owner, claim=self._claim)
                unit_log.commit((), claimed)
            except (LogLost, TransactionAborted) as error:
                log.info("claim %d of %s failed: %s", attempt, self._owner, error)
                if attempt == _CLAIMS:
                    raise
            else:
                self._marker = claimed
                return claimed
        raise AssertionError("attempts end by an exception")

    @property
    def position(self) -> str | None:
        """The position that the sink has, as of this writer's claim and its own commits."""
        return self._marker.position

    def write(
        self,
        query: str,
        batch: int,
        rows: Callable[[], Iterable[Row]],
        content: str = "",
        position: str | None = None,
    ) -> int:
        """Commits a batch unless it is committed already; returns the number of rows written now.

        ``rows`` must return the same rows in each call, and is called once for each attempt. ``content``
        identifies what the batch covers, ``position`` is where the next one begins. Raises
        ``CheckpointBehind``.
        """
        target = Marker(self._owner, query, batch, self._claim, content, position, self._fixed)
        return self._commit(target, rows, lambda found: found.covers(query, batch, content))

    def state(
        self,
        query: str,
        batch: int,
        content: str,
        position: str,
        rows: Callable[[], Iterable[Row]] = tuple,
    ) -> None:
        """Commits a position that no batch has reached, with the records that belong to it, once.

        ``rows`` as in ``write``. ``batch`` is the newest one that is finished there.
        """
        target = Marker(self._owner, query, batch, self._claim, content, position, self._fixed)
        self._commit(target, rows, lambda found: found == target)

    def _commit(
        self, target: Marker, rows: Callable[[], Iterable[Row]], is_there: Callable[[Marker], bool]
    ) -> int:
        slowdown, query, batch = 0, target.query, target.batch
        for attempt in self._attempts():
            try:
                unit_log = self._log or self._reopen(slowdown)
                if is_there(self._marker):
                    log.info("batch %d of %s is already committed", batch, query)
                    return 0
                self._check_fence()
                written = unit_log.commit(rows(), target)
            except LogLost as error:
                log.info("attempt %d to write batch %d failed: %s", attempt, batch, error)
                if slowdown == _SLOWDOWNS:
                    raise BatchTooSlow(f"batch {batch} did not fit into the longest transaction") from error
                slowdown += 1
                self._drop()
            except TransactionAborted as error:
                log.info("attempt %d to write batch %d failed: %s", attempt, batch, error)
            else:
                self._marker = target
                return written
        raise AssertionError("attempts end by an exception")

    def close(self) -> None:
        self._drop()

    def _reopen(self, slowdown: int) -> Log:
        """Opens the log again, if this owner still holds the unit.

        The owner is checked before opening, so that a replaced writer does not disturb its successor, and
        again afterwards, when no other writer can interfere.
        """
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
            raise Replaced(
                f"{found.owner or 'another attempt'} writes this unit now; {self._owner} must stop"
            )
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
        """Yields 1, 2, … with a growing wait in between; ends only by ``Cancelled``."""
        attempt, backoff_s = 1, _BACKOFF_S
        while not self._cancelled.is_set():
            yield attempt
            if self._cancelled.wait(backoff_s):
                break
            attempt, backoff_s = attempt + 1, min(backoff_s * 2, _BACKOFF_MAX_S)
        raise Cancelled
