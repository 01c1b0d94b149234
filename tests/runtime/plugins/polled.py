"""Units that are not Spark queries: a thread polls the source, batch by batch.

The progress of such a unit is kept in Spark's format (``offsets/<n>``: where batch n ends, ``commits/<n>``:
it is done, ``metadata``: the query's id), so that tools that read and move Spark's checkpoints work here,
too. The end of a batch is written before any of its rows is read, and by one attempt only: the entry is
written whole and then put in place only if none exists. If two attempts plan the same batch, the second finds
the entry of the first, and both mean the same rows.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from cooperator.connectors.base import UnitContext, UnitProgress
from cooperator.connectors.output_owner import ensure_query
from cooperator.connectors.places import Place, create, names
from cooperator.model import thread_name
from cooperator.supervision import name_native_thread

log = logging.getLogger(__name__)

_KEPT = 5
_METADATA = "{}"


class Batch(NamedTuple):
    """The rows after ``start`` up to and including ``end``.

    Positions are JSON text; ``start`` is empty for the beginning.
    """

    number: int
    start: str
    end: str


class BatchLog:
    """The checkpoint of one unit."""

    def __init__(self, checkpoint: Place, check: Callable[[], None]) -> None:
        """``check`` raises when this attempt no longer holds the unit."""
        self._checkpoint = checkpoint
        self._check = check
        self.query = ensure_query(checkpoint, check)

    def begun(self) -> Batch | None:
        """Returns the batch that was planned and is not known to be done."""
        newest = self._newest("offsets")
        return self._read(newest) if newest > self._newest("commits") else None

    def position(self) -> str:
        """Returns where the next batch begins; empty for the beginning."""
        return self._end(self._newest("commits"))

    def plan(self, end: str) -> Batch:
        """Returns the next batch: up to ``end``, or as another attempt has planned it."""
        number = self._newest("commits") + 1
        self._put(self._entry("offsets", number), f"v1\n{_METADATA}\n{end}")
        return self._read(number)

    def done(self, batch: Batch) -> None:
        self._put(self._entry("commits", batch.number), f"v1\n{_METADATA}")
        for log in ("offsets", "commits"):
            self._entry(log, batch.number - _KEPT).unlink(missing_ok=True)

    def _newest(self, log: str) -> int:
        return max((int(name) for name in names(self._checkpoint / log) if name.isdigit()), default=-1)

    def _read(self, number: int) -> Batch:
        return Batch(number, self._end(number - 1), self._end(number))

    def _end(self, number: int) -> str:
        return self._entry("offsets", number).read_text().split("\n", 2)[2] if number >= 0 else ""

    def _entry(self, log: str, number: int) -> Place:
        return self._checkpoint / log / str(number)

    def _put(self, entry: Place, text: str) -> None:
        """Creates an entry atomically unless it exists."""
        if entry.exists():
            return
        if not create(entry, text.encode(), self._check):
            log.info("%s already exists", entry)


class PolledSource(ABC):
    """A source to poll. Both methods end soon after the unit's ``cancelled`` is set."""

    @abstractmethod
    def next_end(self, position: str) -> str | None:
        """Returns where the batch after ``position`` ends; None when there is nothing more for now.

        The rows up to the returned end must not change later: all of them exist, and can be read again.
        """

    @abstractmethod
    def deliver(self, batch: Batch, query: str) -> int:
        """Delivers the rows of a batch to the sink once, even if it is called again for the same batch.

        Returns how many rows were read now.
        """


class PolledUnit:
    """A running unit. It polls ``source`` again at once after a batch, else after ``pause_s``."""

    def __init__(self, source: PolledSource, batches: BatchLog, context: UnitContext, pause_s: float) -> None:
        self._source = source
        self._batches = batches
        self._context = context
        self._pause_s = pause_s
        self._progress = UnitProgress()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=context.unit, daemon=True)
        self._thread.start()

    def poll(self) -> UnitProgress:
        if self._failure is not None:
            raise self._failure
        return self._progress

    def stop(self) -> None:
        self._thread.join()
        self._context.closing.close()

    def _run(self) -> None:
        name_native_thread(partial(thread_name, self._context.task))
        try:
            batch = self._batches.begun()
            while not self._context.cancelled.is_set():
                if batch is not None:
                    self._finish(batch)
                looked_at = time.monotonic()
                end = self._source.next_end(self._batches.position())
                batch = None if end is None else self._batches.plan(end)
                if batch is None:
                    self._context.cancelled.wait(max(0.0, looked_at + self._pause_s - time.monotonic()))
        except Exception as error:
            self._failure = error

    def _finish(self, batch: Batch) -> None:
        rows = self._source.deliver(batch, self._batches.query)
        self._batches.done(batch)
        self._progress = UnitProgress(
            batch.number, self._progress.rows_in + rows, self._context.counts.rows_out
        )
