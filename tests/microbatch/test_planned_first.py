"""Batches are tried in Spark's plan, which leaves out what nobody converts; slots that only the plan cannot
convert are converted row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.microbatch.batches import (
    FailureKind,
    Outcome,
    PositionRecord,
    SearchFailed,
    SlotFailure,
)
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.plan_trials import MOST, PlanTrial
from cooperator.connectors.microbatch.planned_first import PlannedFirst, PlanOf
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition
from cooperator.connectors.output_record import OutputRecord

A, B, C = (Partition(topic, 0) for topic in "abc")
Slots = Sequence[Sequence[OffsetRange]]


@dataclass
class Sink:
    """It has committed ``rows`` and ``letters``. Nobody converts ``bad`` offsets, plans not the ``hard`` ones
    either; it refuses the rows of the ``unstorable`` ones itself. ``outages`` are to come."""

    rows: dict[Partition, list[int]] = field(default_factory=dict)
    bad: dict[Partition, set[int]] = field(default_factory=dict)
    hard: dict[Partition, set[int]] = field(default_factory=dict)
    unstorable: dict[Partition, set[int]] = field(default_factory=dict)
    letters: list[tuple[Partition, int]] = field(default_factory=list)
    outages: list[FailureKind] = field(default_factory=list)


@dataclass(eq=False)
class Way:
    """A way of running batches. A plan commits the slots without bad rows, or none ``as_a_whole``."""

    sink: Sink
    is_plan: bool
    as_a_whole: bool = False
    ran: list[Slots] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    searched: list[tuple[Slots, int]] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    """Offsets of a type that the plan does not know."""
    reads_topics_apart: bool = False

    def open(self, session: str) -> None:
        self.calls.append(f"open {session}")

    def run(self, session: str, slots: Slots, records: Mapping[Partition, PositionRecord]) -> Outcome:
        self.ran.append(slots)
        assert all(slot for slot in slots)
        if self.sink.outages:
            kind = self.sink.outages.pop()
            return Outcome(0, [SlotFailure(len(slots) - 1, kind, "the broker is away")])
        refused = {
            n: FailureKind.ROWS if any(self.fails(each) for each in slot) else FailureKind.REFUSED
            for n, slot in enumerate(slots)
            if any(self.fails(each) for each in slot) or (self.is_plan and any(map(self.unstorable, slot)))
        }
        if refused and self.as_a_whole:
            refused = {n: next(iter(refused.values())) for n in range(len(slots))}
        rows, counts = 0, {}
        for each in [each for n, slot in enumerate(slots) if n not in refused for each in slot]:
            letters = self.sink.bad.get(each.partition, set()) & set(range(each.start, each.end))
            letters |= self.unstorable(each)
            assert not self.is_plan or letters == {one.offset for one in each.left_out}
            self.sink.letters += [(each.partition, at) for at in sorted(letters)]
            kept = [at for at in range(each.start, each.end) if at not in letters]
            self.sink.rows.setdefault(each.partition, []).extend(kept)
            counts[each.partition] = each.size
            rows += len(kept)
        failures = [SlotFailure(n, kind, "a bad row\nat x") for n, kind in refused.items()]
        return Outcome(rows, failures, counts)

    def unstorable(self, each: OffsetRange) -> set[int]:
        """Returns the offsets of a range whose rows the sink refuses."""
        wanted = self.sink.unstorable.get(each.partition, set()) & set(range(each.start, each.end))
        return wanted - {one.offset for one in each.left_out}

    def fails(self, each: OffsetRange) -> list[int]:
        """Returns the offsets of a range that the plan does not convert."""
        sink, left_out = self.sink, {one.offset for one in each.left_out}
        refused = sink.bad.get(each.partition, set()) | sink.hard.get(each.partition, set()) | self.unknown
        wanted = refused & set(range(each.start, each.end)) if self.is_plan else set()
        return sorted(wanted - left_out)

    def failing(self, slots: Slots, most: int) -> pa.Table:
        self.searched.append((slots, most))
        if self.sink.outages:
            raise SearchFailed(self.sink.outages.pop(), "the broker is away")
        found = [(each.partition, at) for slot in slots for each in slot for at in self.fails(each)[:most]]
        return pa.table(
            {
                "topic": pa.array([partition.topic for partition, _ in found], pa.string()),
                "partition": pa.array([partition.number for partition, _ in found], pa.int32()),
                "offset": pa.array([at for _, at in found], pa.int64()),
            }
        )

    def cancel(self) -> None:
        self.calls.append("cancel")

    def close(self) -> None:
        self.calls.append("close")


@dataclass
class Unit:
    """The conversion of a unit's records, row by row."""

    sink: Sink
    partition: Partition

    def refused(self, raw: pa.Table, spark: object) -> list[Letter] | None:
        offsets = raw["offset"].to_pylist()
        bad = self.sink.bad.get(self.partition, set())
        letters = [Letter({"offset": at}, "", ValueError("bad")) for at in offsets if at in bad]
        return letters if len(letters) == len(offsets) else None

    def note(self, letters: object) -> None: ...


def planned_first(sink: Sink, plan_of: PlanOf, by_row: Way, most: int = 20) -> PlannedFirst:
    """Batches whose letters are written with the rows."""

    def put(range_: OffsetRange, letters: Sequence[Letter]) -> list[OutputRecord]:
        return [OutputRecord(None, b"%d" % letter.row["offset"]) for letter in letters]

    conversion_of: Any = lambda partition: Unit(sink, partition)  # noqa: E731
    spark: Any = None
    return PlannedFirst(plan_of, by_row, most, LeavingOut(spark, conversion_of, put, lambda text: None))


def ranges(*numbers: tuple[Partition, int, int]) -> list[OffsetRange]:
    return [OffsetRange(*each) for each in numbers]


def run(batches: PlannedFirst, slots: Slots) -> Outcome:
    records = {each.partition: PositionRecord("k", str(each.end)) for slot in slots for each in slot}
    return batches.run("1", slots, records)


def test_a_slot_that_only_a_plan_refuses_is_converted_row_by_row_and_the_others_are_not() -> None:
    sink = Sink(hard={B: {3}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row)
    slots = [ranges((A, 0, 5)), ranges((B, 0, 5), (C, 0, 5))]
    outcome = run(batches, slots)
    assert (outcome.rows, outcome.failures, outcome.counts) == (15, [], {A: 5, B: 5, C: 5})
    assert plan.ran == [slots]
    assert plan.searched == [([slots[1]], 1)], "one record tells"
    assert by_row.ran == [[slots[1]]]
    assert (batches.counts.planned, batches.counts.by_row, batches.counts.refused) == (5, 10, 1)


def test_a_slot_whose_rows_the_sink_refuses_goes_row_by_row_without_a_search() -> None:
    sink = Sink(unstorable={B: {3}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row)
    slots = [ranges((A, 0, 5)), ranges((B, 0, 5), (C, 0, 5))]
    outcome = run(batches, slots)
    assert (outcome.rows, outcome.failures) == (14, [])
    assert (sink.letters, plan.searched) == ([(B, 3)], [])
    assert by_row.ran == [[slots[1]]]


def test_where_no_record_may_be_left_out_only_refusals_of_the_sink_go_row_by_row() -> None:
    """That way names the record; what the plan cannot convert fails as it is."""
    sink = Sink(hard={A: {7}}, unstorable={A: {3}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = PlannedFirst(lambda partition: plan, by_row, 20)
    assert run(batches, [ranges((A, 0, 5))]).failures == []
    assert by_row.ran == [[ranges((A, 0, 5))]]
    [failure] = run(batches, [ranges((A, 5, 10))]).failures
    assert failure.kind is FailureKind.ROWS
    assert len(by_row.ran) == 1


def test_a_plan_leaves_out_what_nobody_converts_and_the_next_batch_is_searched_first() -> None:
    sink = Sink(bad={B: {3, 6}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row)
    outcome = run(batches, [ranges((A, 0, 5)), ranges((B, 0, 5), (C, 0, 5))])
    assert (outcome.rows, outcome.failures, outcome.counts) == (14, [], {A: 5, B: 5, C: 5})
    assert [most for _, most in plan.searched] == [1, 20]
    ran = len(plan.ran)
    run(batches, [ranges((A, 5, 10)), ranges((B, 5, 10))])
    assert (len(plan.ran), len(plan.searched)) == (ran + 1, 3)
    run(batches, [ranges((B, 10, 15))])
    run(batches, [ranges((B, 15, 20))])
    assert len(plan.searched) == 4, "a batch without bad records ends the searches"
    assert (sink.letters, by_row.ran) == ([(B, 3), (B, 6)], [])
    counts = batches.counts
    assert (counts.planned, counts.left_out, counts.by_row, counts.refused) == (33, 2, 0, 1)


def test_a_record_of_a_new_type_makes_another_plan_for_the_same_batch() -> None:
    sink = Sink(bad={A: {1}})
    old, new = Way(sink, is_plan=True, unknown={2}), Way(sink, is_plan=True)
    by_row = Way(sink, is_plan=False)
    known: list[Way] = [old]

    class Settling(Unit):
        def refused(self, raw: pa.Table, spark: object) -> list[Letter] | None:
            if 2 in raw["offset"].to_pylist():
                known.append(new)
            return super().refused(raw, spark)

    conversion_of: Any = lambda partition: Settling(sink, partition)  # noqa: E731
    nothing: Any = None
    leaving_out = LeavingOut(nothing, conversion_of, lambda range_, letters: (), lambda text: None)
    batches = PlannedFirst(lambda partition: known[-1], by_row, 20, leaving_out)
    assert run(batches, [ranges((A, 0, 5))]).rows == 4
    assert (sink.rows, sink.letters, by_row.ran) == ({A: [0, 2, 3, 4]}, [(A, 1)], [])


def test_letters_are_put_once_and_only_where_all_failing_records_are_known() -> None:
    sink = Sink(bad={A: {1, 2}, B: {1}, C: set(range(30))}, hard={B: {4}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    put: list[tuple[OffsetRange, list[int]]] = []

    def written(range_: OffsetRange, letters: Sequence[Letter]) -> tuple[()]:
        put.append((range_, [letter.row["offset"] for letter in letters]))
        return ()

    conversion_of: Any = lambda partition: Unit(sink, partition)  # noqa: E731
    nothing: Any = None
    batches = PlannedFirst(
        lambda partition: plan, by_row, 20, LeavingOut(nothing, conversion_of, written, lambda text: None)
    )
    slots = [ranges((A, 0, 5)), ranges((B, 0, 5)), ranges((C, 0, 10))]
    run(batches, slots)
    assert put == [(slots[0][0], [1, 2]), (slots[2][0], list(range(10)))]
    assert by_row.ran == [[slots[1]]]
    run(batches, [ranges((C, 10, 30))])
    assert by_row.ran[-1] == [ranges((C, 10, 30))], "more fail than are searched for"


def test_batches_are_converted_row_by_row_for_a_while_where_most_records_are_bad() -> None:
    sink = Sink(bad={A: set(range(100_000))})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row, 1_000)
    for number in range(64):
        run(batches, [ranges((A, 200 * number, 200 * (number + 1)))])
    assert len(plan.ran) < 10
    assert [at for _, at in sink.letters] == list(range(12_800))


def test_units_without_a_plan_and_positions_without_rows_go_row_by_row() -> None:
    sink = Sink()
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan if partition == A else None, by_row)
    run(batches, [ranges((A, 0, 5), (B, 0, 5)), ranges((C, 7, 7))])
    assert plan.ran == [[ranges((A, 0, 5))]]
    assert by_row.ran == [[ranges((B, 0, 5)), ranges((C, 7, 7))]]


def test_units_whose_records_differ_have_plans_of_their_own() -> None:
    sink = Sink(hard={C: {0}})
    plans = {A: Way(sink, is_plan=True), B: Way(sink, is_plan=True)}
    by_row = Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plans[A if partition == A else B], by_row)
    slots = [ranges((A, 0, 5), (B, 0, 5)), ranges((C, 0, 5))]
    assert run(batches, slots).failures == []
    assert plans[A].ran == [[ranges((A, 0, 5))]]
    assert plans[B].ran == [[ranges((B, 0, 5)), ranges((C, 0, 5))]]
    assert by_row.ran == [[ranges((C, 0, 5))]]
    batches.cancel()
    batches.close()
    assert plans[A].calls == plans[B].calls == by_row.calls == ["cancel", "close"]


def test_a_failure_that_is_not_about_rows_ends_the_batch_and_names_the_slot_of_the_caller() -> None:
    sink = Sink(outages=[FailureKind.RETRIABLE])
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan if partition == C else None, by_row)
    outcome = run(batches, [ranges((A, 0, 5)), ranges((B, 0, 5)), ranges((C, 0, 5))])
    assert [(one.slot, one.kind) for one in outcome.failures] == [(2, FailureKind.RETRIABLE)]
    assert by_row.ran == []


def test_more_rows_than_fit_into_memory_are_postponed_to_smaller_batches() -> None:
    sink, limits = Sink(hard={A: {3}}), Limits(10, 30)
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row, 10)
    assert batches.narrowed(limits) == Limits(10, 10), "nothing is known of the records yet"
    run(batches, [ranges((C, 0, 10))])
    assert batches.narrowed(limits) == limits
    outcome = run(batches, [ranges((A, 0, 10), (B, 0, 10)), ranges((C, 10, 20))])
    assert (set(outcome.postponed), outcome.failures, sink.rows) == ({A, B}, [], {C: list(range(20))})
    assert batches.narrowed(limits) == Limits(10, 10)
    assert not run(batches, [ranges((A, 0, 5), (B, 0, 5))]).postponed
    assert by_row.ran == [[ranges((A, 0, 5), (B, 0, 5))]]


def test_a_session_is_opened_once_for_both_ways() -> None:
    sink = Sink()
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = planned_first(sink, lambda partition: plan, by_row)
    batches.open("7")
    assert (plan.calls, by_row.calls) == ([], ["open 7"])


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4)), max_size=3),
        min_size=1,
        max_size=12,
    ),
    st.dictionaries(st.sampled_from([A, B, C]), st.sets(st.integers(0, 40), max_size=8)),
    st.dictionaries(st.sampled_from([A, B, C]), st.sets(st.integers(0, 40), max_size=3)),
    st.dictionaries(st.sampled_from([A, B, C]), st.sets(st.integers(0, 40), max_size=3)),
    st.dictionaries(st.sampled_from([A, B, C]), st.sampled_from([0, 1])),
    st.booleans(),
    st.sets(st.integers(0, 12)),
    st.integers(4, 12),
)
def test_every_record_becomes_a_row_or_a_letter_once_and_in_order(
    batches_of: list[list[tuple[Partition, int]]],
    bad: dict[Partition, set[int]],
    hard: dict[Partition, set[int]],
    unstorable: dict[Partition, set[int]],
    kinds: dict[Partition, int],
    as_a_whole: bool,
    outages: set[int],
    most: int,
) -> None:
    sink = Sink(bad=bad, hard=hard, unstorable=unstorable)
    plans = [Way(sink, is_plan=True, as_a_whole=as_a_whole) for _ in range(2)]
    batches = planned_first(
        sink,
        lambda partition: plans[kinds[partition]] if partition in kinds else None,
        Way(sink, is_plan=False),
        most,
    )
    reached = dict.fromkeys([A, B, C], 0)
    for number, sizes in enumerate(batches_of):
        if number in outages:
            sink.outages = [FailureKind.RETRIABLE]
        wanted = dict(sizes)
        slots = [ranges((each, reached[each], reached[each] + size)) for each, size in wanted.items()]
        outcome = run(batches, slots)
        # The loop reads the positions after a failure; the sink's rows and letters are these.
        for each, size in wanted.items():
            of_letters = [at for partition, at in sink.letters if partition == each]
            done = max([*sink.rows.get(each, []), *of_letters, -1]) + 1
            is_due = not outcome.failures and each not in outcome.postponed
            assert done >= reached[each] + (size if is_due else 0)
            reached[each] = max(reached[each], done)
        sink.outages = []
    for each, end in reached.items():
        letters = [at for partition, at in sink.letters if partition == each]
        assert sorted(sink.rows.get(each, []) + letters) == list(range(end))
        assert sink.rows.get(each, []) == sorted(sink.rows.get(each, []))
        due = bad.get(each, set()) | unstorable.get(each, set())
        assert letters == sorted(due & set(range(end)))


@given(st.lists(st.booleans(), max_size=300))
def test_trials_that_fail_become_rare_and_are_never_given_up(works: list[bool]) -> None:
    trial, since, gaps = PlanTrial(), 0, []
    for does_work in works:
        if not trial.is_due:
            trial, since = trial.waited(), since + 1
            continue
        gaps.append(since)
        trial, since = trial.succeeded() if does_work else trial.failed(), 0
    assert max(gaps, default=0) <= MOST
    assert since <= MOST


def test_the_waits_between_trials_that_fail_double_and_a_stream_that_got_clean_is_planned_again() -> None:
    trial, waits = PlanTrial(), []
    for _ in range(10):
        trial, wait = trial.failed(), 0
        while not trial.is_due:
            trial, wait = trial.waited(), wait + 1
        waits.append(wait)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]
    for _ in range(7):
        trial = trial.succeeded()
    assert trial == PlanTrial()
