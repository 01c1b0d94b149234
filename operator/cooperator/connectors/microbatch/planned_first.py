"""Batches that run in Spark's plan where they can, and row by row where their rows need it.

The plan converts in Spark's tasks, and fails as a whole for a row that it cannot convert. Nothing was written
then. Records that nobody can convert are left out of the plan (``left_out``). Where a record can be
converted, but not by the plan, the same ranges are converted row by row; so are those of which the sink
refuses a row, since only the conversion row by row knows its record.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cooperator.connectors.microbatch.batches import (
    Batches,
    FailureKind,
    Outcome,
    PlannedBatches,
    PositionRecord,
    SearchFailed,
    SlotFailure,
)
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.plan_trials import PlanTrial
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition

log = logging.getLogger(__name__)

_SHOWN: Final = 300
_PLANS: Final = 3
"""The number of plans that a batch is tried in: records of new types make another one."""
_FEW: Final = 100
"""So many failing records of a partition are never too many to search for."""
_MOST_PART: Final = 0.5
"""The part of a range from which on a search for failing records costs more than a conversion row by row."""

_OF_ROWS: Final = (FailureKind.ROWS, FailureKind.REFUSED)

PlanOf = Callable[[Partition], PlannedBatches | None]
"""Returns what runs a partition's next batch in Spark's plan; None: it has to be converted row by row."""
Slots = Sequence[Sequence[OffsetRange]]
Numbered = Mapping[int, Sequence[OffsetRange]]
"""Ranges by the number of their slot."""


@dataclass(slots=True)
class WayCounts:
    """The offsets that each way has committed, those that a plan has left out, and the slots that a plan
    failed for because of their rows."""

    planned: int = 0
    by_row: int = 0
    left_out: int = 0
    refused: int = 0


class PlannedFirst:
    """``Batches`` of one task, all in one thread; ``cancel`` may be called by any.

    ``by_row`` opens the sessions of both ways: a plan uses the same producers. Without ``leaving_out`` a
    record that a plan cannot convert fails the batch.

    Rows that are converted one by one are held in memory: those of ``most_by_row`` offsets at most. More are
    postponed, and the next batches are smaller until one ran in plans alone.
    """

    def __init__(
        self,
        plan_of: PlanOf,
        by_row: Batches,
        most_by_row: int,
        leaving_out: LeavingOut | None = None,
        *,
        reads_topics_apart: bool = False,
    ) -> None:
        self._plan_of = plan_of
        self._by_row = by_row
        self._most = most_by_row
        self._leaving_out = leaving_out
        self._is_narrow = True
        self._apart = reads_topics_apart
        self._trials: dict[Partition, PlanTrial] = {}
        self._failing: set[Partition] = set()
        """Those of whose last batch records were left out: the next one is searched first."""
        self._used: tuple[Batches, ...] = (by_row,)
        self.counts = WayCounts()

    @property
    def reads_topics_apart(self) -> bool:
        return self._apart

    def open(self, session: str) -> None:
        self._by_row.open(session)

    def run(self, session: str, slots: Slots, records: Mapping[Partition, PositionRecord]) -> Outcome:
        batch = _Batch(session, records)
        plans = self._plans(slots)
        by_row = {each.partition for slot in slots for each in slot} - plans.keys()
        for _ in range(_PLANS):
            again: dict[Partition, PlannedBatches] = {}
            for plan in dict.fromkeys(plans.values()):
                if plan not in self._used:
                    self._used += (plan,)
                some = {partition for partition, its in plans.items() if its is plan}
                try:
                    refused = self._planned(plan, batch, _numbered(slots, some))
                except SearchFailed as error:
                    batch.add(Outcome(0, [SlotFailure(0, error.kind, str(error))]))
                if batch.total.failures:
                    # Producers are initialised again now, and positions read: by these the rest follows.
                    return batch.total
                for ranges in refused.values():
                    others = {each.partition: self._plan_of(each.partition) for each in ranges}
                    known = {partition: other for partition, other in others.items() if other is not None}
                    if len(known) == len(others) and any(other is not plan for other in known.values()):
                        again |= known
                    else:
                        by_row |= self._given_up(others)
            if not (plans := again):
                break
        by_row |= self._given_up(plans)
        rest = sum(each.size for slot in slots for each in slot if each.partition in by_row)
        if any(each.size for slot in slots for each in slot):
            self._is_narrow = rest > 0
        if rest > self._most:
            return replace(batch.total, postponed=by_row)
        if by_row:
            batch.run(self._by_row, _numbered(slots, by_row))
            self.counts.by_row += rest if not batch.total.failures else 0
        return batch.total

    def narrowed(self, limits: Limits) -> Limits:
        """Returns the limits of the next batch."""
        return Limits(limits.per_unit, min(limits.per_task, self._most)) if self._is_narrow else limits

    def cancel(self) -> None:
        for batches in self._used:
            batches.cancel()

    def close(self) -> None:
        for batches in reversed(self._used):
            batches.close()

    def _plans(self, slots: Slots) -> dict[Partition, PlannedBatches]:
        """Returns the plans of the partitions that are tried in one; the others have waited for a batch."""
        found: dict[Partition, PlannedBatches] = {}
        for partition in [each.partition for slot in slots for each in slot if each.size]:
            trial = self._trials.get(partition, PlanTrial())
            if not trial.is_due:
                self._trials[partition] = trial.waited()
            elif (plan := self._plan_of(partition)) is not None:
                found[partition] = plan
        return found

    def _planned(self, plan: PlannedBatches, batch: "_Batch", slots: Numbered) -> Numbered:
        """Runs slots by a plan; returns those that it does not convert. Raises ``SearchFailed``."""
        if self._leaving_out is None:
            return {n: slots[n] for n in self._ran(plan, batch, slots)}
        first = {n: slots[n] for n in slots if self._failing & {each.partition for each in slots[n]}}
        ready = self._leaving_out.searched(plan, first, self._most)
        failed = self._ran(plan, batch, {**{n: slots[n] for n in slots if n not in first}, **ready})
        late = {n: slots[n] for n in failed if n not in first and failed[n] is FailureKind.ROWS}
        refused = {
            n: slots[n] for n in (*first, *failed) if n not in late and (n not in ready or n in failed)
        }
        if not late or batch.total.failures:
            return refused
        ready = self._leaving_out.searched(plan, self._leaving_out.probed(plan, late), self._most)
        failed = self._ran(plan, batch, ready)
        return refused | {n: late[n] for n in late if n not in ready or n in failed}

    def _ran(self, plan: PlannedBatches, batch: "_Batch", slots: Numbered) -> Mapping[int, FailureKind]:
        """Runs slots, and notes how the plan did; returns those that failed because of their rows."""
        if not slots:
            return {}
        kinds = [FailureKind.REFUSED] if self._leaving_out is None else [*_OF_ROWS]
        refused = batch.run(plan, slots, kinds)
        failed = {one.slot for one in batch.total.failures} | refused.keys()
        for each in [each for n, ranges in slots.items() if n not in failed for each in ranges]:
            left_out = len(each.left_out)
            self.counts.planned += each.size - left_out
            self.counts.left_out += left_out
            (self._failing.add if left_out else self._failing.discard)(each.partition)
            trial = self._trials.get(each.partition, PlanTrial())
            is_slow = left_out > max(_FEW, _MOST_PART * each.size)
            self._trials[each.partition] = trial.failed() if is_slow else trial.succeeded()
        for number, failure in refused.items():
            self.counts.refused += 1
            names = ", ".join(str(each.partition) for each in slots[number])
            cause = failure.error.rpartition(": caused by ")[2].partition("\n")[0]
            log.info("%s: Spark's plan fails for a record: %s", names, cause[:_SHOWN])
        return {number: failure.kind for number, failure in refused.items()}

    def _given_up(self, partitions: Collection[Partition]) -> set[Partition]:
        for partition in partitions:
            self._failing.discard(partition)
            self._trials[partition] = self._trials.get(partition, PlanTrial()).failed()
        return set(partitions)


class _Batch:
    """The outcome of the parts of one batch."""

    def __init__(self, session: str, records: Mapping[Partition, PositionRecord]) -> None:
        self._session = session
        self._records = records
        self.total = Outcome(0)

    def run(
        self, batches: Batches, slots: Numbered, kinds: Collection[FailureKind] = ()
    ) -> Mapping[int, SlotFailure]:
        """Runs slots; returns those with failures of these kinds, which are no failures of the batch."""
        numbers = list(slots)
        outcome = batches.run(self._session, list(slots.values()), self._records)
        failures = [replace(one, slot=numbers[one.slot]) for one in outcome.failures]
        of_rows = {one.slot: one for one in failures if one.kind in kinds}
        self.add(replace(outcome, failures=[one for one in failures if one.slot not in of_rows]))
        return of_rows

    def add(self, other: Outcome) -> None:
        one = self.total
        self.total = Outcome(
            one.rows + other.rows, [*one.failures, *other.failures], {**one.counts, **other.counts}
        )


def _numbered(slots: Slots, some: Collection[Partition]) -> dict[int, list[OffsetRange]]:
    """Returns the ranges of some partitions."""
    found = {n: [each for each in slot if each.partition in some] for n, slot in enumerate(slots)}
    return {n: ranges for n, ranges in found.items() if ranges}
