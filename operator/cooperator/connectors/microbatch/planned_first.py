"""Batches that run in Spark's plan where they can, and row by row where their rows need it.

The plan converts in Spark's tasks, and fails as a whole for a row that it cannot convert. Nothing was written
then, so the same ranges are converted row by row, which decides about each record.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cooperator.connectors.microbatch.batches import Batches, FailureKind, Outcome, PositionRecord
from cooperator.connectors.microbatch.plan_trials import PlanTrial
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition

log = logging.getLogger(__name__)

_SHOWN = 300

PlanOf = Callable[[Partition], Batches | None]
"""Returns what runs a partition's next batch in Spark's plan; None: it has to be converted row by row."""
Slots = Sequence[Sequence[OffsetRange]]


@dataclass(slots=True)
class WayCounts:
    """The offsets that each way has committed, and the slots that a plan failed for because of their rows."""

    planned: int = 0
    by_row: int = 0
    refused: int = 0


class PlannedFirst:
    """``Batches`` of one task, all in one thread; ``cancel`` may be called by any.

    ``by_row`` opens the sessions of both ways: a plan uses the same producers. A plan reports
    ``FailureKind.ROWS`` for each slot of which it has written nothing for that reason.

    Rows that are converted one by one are held in memory: those of ``most_by_row`` offsets at most. More are
    postponed, and the next batches are smaller until one ran in plans alone.
    """

    def __init__(
        self, plan_of: PlanOf, by_row: Batches, most_by_row: int, *, reads_topics_apart: bool = False
    ) -> None:
        self._plan_of = plan_of
        self._by_row = by_row
        self._most = most_by_row
        self._is_narrow = True
        self._apart = reads_topics_apart
        self._trials: dict[Partition, PlanTrial] = {}
        self._used: tuple[Batches, ...] = (by_row,)
        self.counts = WayCounts()

    @property
    def reads_topics_apart(self) -> bool:
        return self._apart

    def open(self, session: str) -> None:
        self._by_row.open(session)

    def run(self, session: str, slots: Slots, records: Mapping[Partition, PositionRecord]) -> Outcome:
        plans = self._plans(slots)
        by_row = {each.partition for slot in slots for each in slot} - plans.keys()
        total = Outcome(0)
        for plan in dict.fromkeys(plans.values()):
            if plan not in self._used:
                self._used += (plan,)
            some = {partition for partition, its in plans.items() if its is plan}
            outcome = _run(plan, session, slots, some, records)
            refused = {one.slot: one.error for one in outcome.failures if one.kind is FailureKind.ROWS}
            failures = [one for one in outcome.failures if one.slot not in refused]
            total = _sum(total, replace(outcome, failures=failures))
            by_row |= self._tried(slots, some, refused, {one.slot for one in failures})
            if failures:
                # Producers are initialised again now, and positions read: by these the rest follows.
                return total
        rest = sum(each.size for slot in slots for each in slot if each.partition in by_row)
        if any(each.size for slot in slots for each in slot):
            self._is_narrow = rest > 0
        if rest > self._most:
            return replace(total, postponed=by_row)
        if by_row:
            outcome = _run(self._by_row, session, slots, by_row, records)
            total = _sum(total, outcome)
            self.counts.by_row += rest if not outcome.failures else 0
        return total

    def narrowed(self, limits: Limits) -> Limits:
        """Returns the limits of the next batch."""
        return Limits(limits.per_unit, min(limits.per_task, self._most)) if self._is_narrow else limits

    def cancel(self) -> None:
        for batches in self._used:
            batches.cancel()

    def close(self) -> None:
        for batches in reversed(self._used):
            batches.close()

    def _plans(self, slots: Slots) -> dict[Partition, Batches]:
        """Returns the plans of the partitions that are tried in one; the others have waited for a batch."""
        found: dict[Partition, Batches] = {}
        for partition in [each.partition for slot in slots for each in slot if each.size]:
            trial = self._trials.get(partition, PlanTrial())
            if not trial.is_due:
                self._trials[partition] = trial.waited()
            elif (plan := self._plan_of(partition)) is not None:
                found[partition] = plan
        return found

    def _tried(
        self, slots: Slots, some: Collection[Partition], refused: Mapping[int, str], failed: Collection[int]
    ) -> set[Partition]:
        """Notes how a plan did for some partitions; returns those that it refused."""
        by_row = set()
        for slot, ranges in enumerate(slots):
            for each in [each for each in ranges if each.partition in some and slot not in failed]:
                trial = self._trials.get(each.partition, PlanTrial())
                if slot in refused:
                    by_row.add(each.partition)
                    self._trials[each.partition] = trial.failed()
                else:
                    self.counts.planned += each.size
                    self._trials[each.partition] = trial.succeeded()
        for slot, error in refused.items():
            self.counts.refused += 1
            names = ", ".join(str(each.partition) for each in slots[slot] if each.partition in some)
            cause = error.rpartition(": caused by ")[2].partition("\n")[0]
            log.info("%s: converting a batch row by row: %s", names, cause[:_SHOWN])
        return by_row


def _run(
    batches: Batches,
    session: str,
    slots: Slots,
    some: Collection[Partition],
    records: Mapping[Partition, PositionRecord],
) -> Outcome:
    """Runs the ranges of some partitions; returns failures with the numbers of ``slots``."""
    numbers = [n for n, slot in enumerate(slots) if any(each.partition in some for each in slot)]
    chosen = [[each for each in slots[n] if each.partition in some] for n in numbers]
    outcome = batches.run(session, chosen, records)
    failures = [replace(one, slot=numbers[one.slot]) for one in outcome.failures]
    return replace(outcome, failures=failures)


def _sum(one: Outcome, other: Outcome) -> Outcome:
    return Outcome(one.rows + other.rows, [*one.failures, *other.failures], {**one.counts, **other.counts})
