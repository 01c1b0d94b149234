"""The loop of a task: looks, plans and runs one batch after the other.

Positions are kept in memory while batches succeed, since nobody else can move them: an attempt that did
would have fenced this attempt's producers first. After a failure nothing is known of the batch, so the
attempt *recovers*: it initialises its producers again, which ends what is still under way, and reads the
positions.

Units do not wait for each other. A unit whose first offset cannot be asked for begins later. After a failure
that another try would repeat, the units of the failed slot are tried in halves, until those that fail alone
are *set aside*: the others go on, and they are tried again after a while. The task fails with the last one.
A unit that needs a service that is away is set aside as long as it is, which never fails the task.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cooperator.connectors.base import Cancelled, ServiceAway
from cooperator.connectors.microbatch.apart import Apart
from cooperator.connectors.microbatch.batches import (
    Batches,
    BatchFailed,
    FailureKind,
    OpenFailed,
    Outcome,
    Owned,
    Stand,
    UnitOwnership,
)
from cooperator.connectors.microbatch.ranges import (
    EndBehind,
    Grouping,
    Limits,
    OffsetRange,
    Partition,
    TopicRecreated,
    by_turn,
    group,
    halved,
    plan_ranges,
)
from cooperator.connectors.options import OptionError
from cooperator.model.text import listed

log = logging.getLogger(__name__)

_BACKOFF_S = (0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 15.0)
"""The waits after that many failures in succession: the first one is recovered from at once."""
_LASTING = (FailureKind.DATA_LOSS, FailureKind.ROWS, FailureKind.REFUSED, FailureKind.FAILED)
_HALVINGS = 20
_SHOWN = 300
_MEMORY_REMEDY = (
    "raise spec.spark.heapMb of the Worker, or stop the Connector and alter the offsets behind it"
)
_GROW_AFTER = 20
"""Batches are as large as before after so many that succeeded, for each halving."""
_GROW_AFTER_MEMORY = 5
"""The same after a lack of memory: a trial costs the reading of a part, and plans of Spark hold little."""
_FIRST_S = 1.0
"""The time between two looks for units whose first offset is not known yet."""


class Arrivals(Protocol):
    """The ends of a task's units, as its loop waits for them (see ``ends.Subscription``)."""

    @property
    def topic_ids(self) -> Mapping[str, str]: ...

    @property
    def ends(self) -> Mapping[Partition, int]: ...

    @property
    def troubles(self) -> Mapping[Partition, str]:
        """What keeps units from being read, for users."""

    def restart(self) -> None: ...

    def wait(
        self,
        positions: Mapping[Partition, int],
        ids: Mapping[Partition, str] = {},
        until_s: float = math.inf,
    ) -> Mapping[Partition, int]: ...

    def close(self) -> None: ...


FirstOffsets = Callable[[Collection[Partition]], Mapping[Partition, int]]
"""Returns the offsets at which units start; it may leave out those that cannot be asked for now."""


@dataclass(slots=True)
class UnitCounts:
    """Work on one unit: batches, records that were read, and the offset that was reached."""

    batches: int = 0
    records: int = 0
    next: int | None = None


@dataclass(slots=True)
class LoopCounts:
    """Progress of a loop, for reports. Any thread may read it."""

    batches: int = 0
    offsets: int = 0
    rows: int = 0
    failures: int = 0
    units: dict[Partition, UnitCounts] = field(default_factory=dict)

    def of(self, partition: Partition) -> UnitCounts:
        return self.units.setdefault(partition, UnitCounts())


@dataclass(slots=True)
class TaskLoop:
    """Runs a task's batches until it is stopped. ``run`` is for one thread; ``stop`` may be called by any.

    ``first_offsets`` are those of units without a position, ``earliest`` of topics that were created again.
    ``say`` shows what is being waited for; an empty text ends it. ``started`` is called once the units are
    owned. ``narrowed`` returns the limits of the next batch, and ``cut`` what is read of its ranges: each
    begins where it did. ``stop`` sets ``stopped``, on which ``ownership`` ends its waits with ``Cancelled``.
    """

    units: Sequence[Partition]
    ownership: UnitOwnership
    batches: Batches
    ends: Arrivals
    limits: Limits
    grouping: Grouping
    first_offsets: FirstOffsets
    say: Callable[[str], None]
    earliest: FirstOffsets | None = None
    fail_on_data_loss: bool = True
    started: Callable[[Owned], None] = lambda owned: None
    narrowed: Callable[[Limits], Limits] = lambda limits: limits
    cut: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]] = tuple
    counts: LoopCounts = field(default_factory=LoopCounts)
    stopped: threading.Event = field(default_factory=threading.Event)
    apart: Apart = field(default_factory=Apart)
    _homes: dict[Partition, int] = field(default_factory=dict)
    _failed: int = 0
    _halvings: int = 0
    _succeeded: int = 0
    _grow_after: int = 0

    def run(self) -> None:
        """Claims the units and runs batches.

        Raises ``BatchFailed``, ``OpenFailed``, ``EndBehind``, ``TopicRecreated``, and what ``ownership`` and
        ``batches`` raise.
        """
        try:
            owned = self._owned(self.ownership.claim)
            if owned is not None:
                self.started(owned)
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
                for partition, stand in owned.positions.items():
                    self.counts.of(partition).next = stand.next
                return owned
        return None

    def _run_batches(self, owned: Owned) -> None:
        """Returns after a failed batch, and when the task is stopped."""
        positions = {unit: stand.next for unit, stand in owned.positions.items()}
        ids = {unit: stand.topic_id for unit, stand in owned.positions.items()}
        missing = [unit for unit in self.units if unit not in positions]
        while True:
            if missing:
                # Otherwise "latest" would be another offset after each restart before the first record.
                first = self.first_offsets(missing)
                start = tuple(
                    OffsetRange(unit, first[unit], first[unit]) for unit in missing if unit in first
                )
                if start and not self._batch(owned, start, positions, ids):
                    return
                missing = [unit for unit in missing if unit not in first]
            active = self.apart.active(positions, time.monotonic())
            until_s = time.monotonic() + _FIRST_S if missing else self.apart.due_s
            ends = self.ends.wait(active, {unit: ids.get(unit, "") for unit in active}, until_s)
            if not ends:
                return
            # These ids were found before the records are read. So a topic that is created again meanwhile has
            # another id than the position, and is found by the next look.
            now = self.ends.topic_ids
            moved = self._moved(active, ids, ends, now)
            if moved and not self._batch(owned, moved, positions, {**ids, **_of(moved, now)}):
                return
            stale = _others(active, ids, now) - {each.partition for each in moved}
            active = self.apart.active(positions, time.monotonic())
            readable = {unit: positions[unit] for unit in self.apart.next(active, ends) if unit not in stale}
            ids |= {unit: now[unit.topic] for unit in readable if unit.topic in now}
            limits = halved(self.narrowed(self.limits), self._halvings)
            ranges = self.cut(plan_ranges(readable, ends, limits, self.counts.batches))
            if ranges and not self._batch(owned, ranges, positions, ids):
                return

    def _moved(
        self,
        positions: Mapping[Partition, int],
        ids: Mapping[Partition, str],
        ends: Mapping[Partition, int],
        now: Mapping[str, str],
    ) -> tuple[OffsetRange, ...]:
        """Returns where units go on that cannot go on where they were; their ranges are empty.

        Topics that were created again are read from their beginning, others that have lost their last records
        from their end. Unless that is tolerated, these units are set aside.
        """
        again = sorted(unit for unit in _others(positions, ids, now) if unit in ends)
        rest = positions.keys() - set(again)
        behind = sorted(unit for unit in rest if ends.get(unit, positions[unit]) < positions[unit])
        if self.fail_on_data_loss:
            for unit in again:
                self._set_aside(unit, TopicRecreated(unit, positions[unit]))
            for unit in behind:
                self._set_aside(unit, EndBehind(unit, positions[unit], ends[unit]))
            return ()
        if not again and not behind:
            return ()
        names = ", ".join(map(str, [*again, *behind]))
        log.warning("%s: records were lost, and are not waited for (fail.on.data.loss is false)", names)
        first = (self.earliest or self.first_offsets)(again) if again else {}
        at = {**first, **{unit: ends[unit] for unit in behind}}
        return tuple(OffsetRange(unit, at[unit], at[unit]) for unit in sorted(at))

    def _set_aside(self, unit: Partition, error: Exception) -> None:
        """Leaves the unit to a later try; raises the error if no other unit is left."""
        self.apart.set_aside(unit, error, time.monotonic())
        if self.apart.are_all(self.units):
            raise error

    def _batch(
        self,
        owned: Owned,
        ranges: Sequence[OffsetRange],
        positions: dict[Partition, int],
        ids: Mapping[Partition, str],
    ) -> bool:
        slots = self._slots(ranges)
        chosen = [each for slot in slots for each in slot]
        records = {
            each.partition: self.ownership.record(
                each.partition, Stand(each.end, ids.get(each.partition, ""))
            )
            for each in chosen
        }
        try:
            outcome = self.batches.run(owned.session, slots, records)
        except OptionError as error:
            self._part(chosen, error)
            return False
        except ServiceAway as error:
            if any(each.size for each in chosen):
                self._part(chosen, error)
            else:
                self._note(str(error))
            return False
        self.counts.rows += outcome.rows
        if outcome.failures:
            self._refuse(outcome, slots)
            return False
        if len(slots) > 1:
            self._homes = {each.partition: slot for slot, some in enumerate(slots) for each in some}
        for each in [each for each in chosen if each.partition not in outcome.postponed]:
            positions[each.partition] = each.end
            self._count(each, outcome)
        self.apart.succeeded(each.partition for each in chosen if each.size)
        self.counts.batches += 1
        self._grow()
        if self._failed:
            self._failed = 0
            self.say("")
        return True

    def _slots(self, ranges: Sequence[OffsetRange]) -> tuple[tuple[OffsetRange, ...], ...]:
        if self.batches.reads_topics_apart and any(each.size for each in ranges):
            return by_turn(ranges, self.grouping.slots, self.counts.batches)
        return group(ranges, self.grouping, self._homes)

    def _count(self, each: OffsetRange, outcome: Outcome) -> None:
        of_unit = self.counts.of(each.partition)
        of_unit.next = each.end
        if each.size:
            of_unit.batches += 1
            of_unit.records += outcome.counts.get(each.partition, each.size)
            self.counts.offsets += each.size

    def _grow(self) -> None:
        if self._halvings:
            self._succeeded += 1
            if self._succeeded >= self._grow_after:
                self._succeeded = 0
                self._halvings -= 1

    def _refuse(self, outcome: Outcome, slots: Sequence[Sequence[OffsetRange]]) -> None:
        """Sets units apart if another batch would fail, too, unless the task is stopped.

        Raises ``BatchFailed`` if no other unit is left.
        """
        if self.stopped.is_set():
            return
        worst = max(outcome.failures, key=lambda failure: failure.kind in _LASTING)
        text = f"units {listed([str(each.partition) for each in slots[worst.slot]], 3)}: {worst.error}"
        if worst.kind in _LASTING:
            self._part(slots[worst.slot], BatchFailed(text))
            return
        kinds = {failure.kind for failure in outcome.failures}
        if FailureKind.MEMORY in kinds:
            self._halve_for_memory(slots, text)
            return
        if FailureKind.FENCED in kinds:
            # Brokers tell a transaction that took too long in the same way.
            self._halve(slots, _GROW_AFTER)
        self._note(text)

    def _halve_for_memory(self, slots: Sequence[Sequence[OffsetRange]], text: str) -> None:
        """Lets the next batch be smaller; a single record sets its unit aside."""
        read = [each for slot in slots for each in slot if each.size]
        if sum(each.size for each in read) <= 1:
            place = ", ".join(f"{each.partition} at offset {each.start}" for each in read)
            error = f"{place}: one record needs more memory than there is; {_MEMORY_REMEDY}: {text}"
            self._part(read, BatchFailed(error))
            return
        self._halve(slots, _GROW_AFTER_MEMORY)
        self.counts.failures += 1
        cause = text.rpartition(": caused by ")[2].partition("\n")[0]
        log.info("reading less at once: %s", cause[:_SHOWN])

    def _halve(self, slots: Sequence[Sequence[OffsetRange]], grow_after: int) -> None:
        """Lets the next batch have half of the offsets of this one, until so many have succeeded."""
        self._grow_after = grow_after
        size = sum(each.size for slot in slots for each in slot)
        while self._halvings < _HALVINGS and 2 * halved(self.limits, self._halvings).per_task > max(size, 2):
            self._halvings += 1
        self._succeeded = 0

    def _part(self, ranges: Sequence[OffsetRange], error: Exception) -> None:
        """Tries the units of a batch that failed for good in halves; one that failed alone is set aside.

        Raises the error if it is not one of units: positions alone fail, or so do one unit after the other.
        """
        if not any(each.size for each in ranges):
            raise error
        units = sorted({each.partition for each in ranges})
        self.counts.failures += 1
        log.info("%s: %s", ", ".join(map(str, units)), error)
        is_still_away = isinstance(error, ServiceAway) and all(map(self.apart.waits, units))
        if len(units) > 1 and not is_still_away:
            self.apart.split(units)
            return
        for unit in units:
            self._set_aside(unit, error)

    def _note(self, text: str) -> None:
        self._failed += 1
        self.counts.failures += 1
        log.info("recovering: %s", text)
        self.say(f"recovering from: {text}")


def _others(
    positions: Mapping[Partition, int], ids: Mapping[Partition, str], now: Mapping[str, str]
) -> set[Partition]:
    """Returns the units whose positions belong to a topic of another id than the present one."""
    return {unit for unit in positions if ids.get(unit) and now.get(unit.topic, ids[unit]) != ids[unit]}


def _of(ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> dict[Partition, str]:
    return {each.partition: topic_ids.get(each.partition.topic, "") for each in ranges}
