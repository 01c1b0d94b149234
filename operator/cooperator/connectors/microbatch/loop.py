"""The loop of a task: looks, plans and runs one batch after the other.

Positions are kept in memory while batches succeed, since nobody else can move them: whoever did would have
fenced this attempt's producers first. After a failure nothing is known of the batch, so the attempt
*recovers*: it initialises its producers again, which ends what is still under way, and reads the positions.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cooperator.connectors.base import Cancelled
from cooperator.connectors.microbatch.batches import (
    Batches,
    BatchFailed,
    Kind,
    OpenFailed,
    Outcome,
    Owned,
    UnitOwnership,
)
from cooperator.connectors.microbatch.ends import Subscription
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition, Range, group, plan_ranges

log = logging.getLogger(__name__)

_BACKOFF_S = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""The waits after that many failures in succession: the first one is recovered from at once."""
_LASTING = (Kind.DATA_LOSS, Kind.FAILED)

FirstOffsets = Callable[[Collection[Partition]], Mapping[Partition, int]]
"""Returns the offsets at which units without a position start."""


@dataclass(slots=True)
class Counts:
    """What a loop has done, for reports."""

    batches: int = 0
    offsets: int = 0
    rows: int = 0
    failures: int = 0


@dataclass(slots=True)
class TaskLoop:
    """Runs a task's batches until it is stopped. ``run`` is for one thread; ``stop`` may be called by any.

    ``say`` shows what is being waited for; an empty text ends it. ``stop`` sets ``stopped``, on which
    ``ownership`` ends its waits with ``Cancelled``.
    """

    units: Sequence[Partition]
    ownership: UnitOwnership
    batches: Batches
    ends: Subscription
    limits: Limits
    grouping: Grouping
    first_offsets: FirstOffsets
    say: Callable[[str], None]
    counts: Counts = field(default_factory=Counts)
    stopped: threading.Event = field(default_factory=threading.Event)
    _homes: dict[Partition, int] = field(default_factory=dict)
    _failed: int = 0

    def run(self) -> None:
        """Claims the units and runs batches.

        Raises ``BatchFailed``, ``OpenFailed``, ``EndBehind``, and what ``ownership`` raises.
        """
        try:
            owned = self._owned(self.ownership.claim)
            while owned is not None:
                self._run_batches(owned)
                owned = self._owned(self.ownership.recover)
        except Cancelled:
            if not self.stopped.is_set():
                raise
        finally:
            self.stop()
            self.batches.close()

    def stop(self) -> None:
        """Ends ``run`` soon. A batch that runs is cancelled; the next attempt reads what was committed."""
        if not self.stopped.is_set():
            self.stopped.set()
            self.ends.close()
            self.batches.cancel()

    def _owned(self, call: Callable[[], Owned]) -> Owned | None:
        """Returns what the call does, as soon as the producers could be initialised; None: it was stopped."""
        while not self.stopped.wait(_BACKOFF_S[min(self._failed, len(_BACKOFF_S) - 1)]):
            try:
                owned = call()
            except OpenFailed as error:
                if error.kind in _LASTING:
                    raise
                self._note(str(error))
            else:
                self.ends.restart()
                return owned
        return None

    def _run_batches(self, owned: Owned) -> None:
        """Returns after a failed batch, and when the task is stopped."""
        positions = dict(owned.positions)
        missing = [unit for unit in self.units if unit not in positions]
        if missing:
            # Otherwise "latest" would be another offset after each restart before the first record.
            first = self.first_offsets(missing)
            start = tuple(Range(unit, first[unit], first[unit]) for unit in missing)
            if not self._batch(owned, start, positions):
                return
        while ends := self.ends.wait(positions):
            ranges = plan_ranges(positions, ends, self.limits, self.counts.batches)
            if ranges and not self._batch(owned, ranges, positions):
                return

    def _batch(self, owned: Owned, ranges: Sequence[Range], positions: dict[Partition, int]) -> bool:
        slots = group(ranges, self.grouping, self._homes)
        records = {each.partition: self.ownership.record(each.partition, each.end) for each in ranges}
        outcome = self.batches.run(owned.session, slots, records)
        self.counts.rows += outcome.rows
        if outcome.failures:
            self._refuse(outcome, slots)
            return False
        if len(slots) > 1:
            self._homes = {each.partition: slot for slot, some in enumerate(slots) for each in some}
        positions.update((each.partition, each.end) for each in ranges)
        self.counts.batches += 1
        self.counts.offsets += sum(each.size for each in ranges)
        if self._failed:
            self._failed = 0
            self.say("")
        return True

    def _refuse(self, outcome: Outcome, slots: Sequence[Sequence[Range]]) -> None:
        """Raises ``BatchFailed`` if another batch would fail, too, unless the task is stopped."""
        if self.stopped.is_set():
            return
        worst = max(outcome.failures, key=lambda failure: failure.kind in _LASTING)
        units = ", ".join(str(each.partition) for each in slots[worst.slot][:3])
        more = len(slots[worst.slot]) - 3
        text = f"units {units}{f' and {more} more' if more > 0 else ''}: {worst.error}"
        if worst.kind in _LASTING:
            raise BatchFailed(text)
        self._note(text)

    def _note(self, text: str) -> None:
        self._failed += 1
        self.counts.failures += 1
        log.info("recovering: %s", text)
        self.say(f"recovering from: {text}")
