"""Batches are tried in Spark's plan; where it refuses rows, exactly their slots are converted row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.microbatch.batches import FailureKind, Outcome, PositionRecord, SlotFailure
from cooperator.connectors.microbatch.plan_trials import MOST, PlanTrial
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition

A, B, C = (Partition(topic, 0) for topic in "abc")
Slots = Sequence[Sequence[OffsetRange]]


@dataclass
class Sink:
    """It has committed ``rows`` and ``letters``. Plans refuse ``bad`` offsets; ``outages`` are to come."""

    rows: dict[Partition, list[int]] = field(default_factory=dict)
    bad: dict[Partition, set[int]] = field(default_factory=dict)
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
    reads_topics_apart: bool = False

    def open(self, session: str) -> None:
        self.calls.append(f"open {session}")

    def run(self, session: str, slots: Slots, records: Mapping[Partition, PositionRecord]) -> Outcome:
        self.ran.append(slots)
        assert all(slot for slot in slots)
        if self.sink.outages:
            kind = self.sink.outages.pop()
            return Outcome(0, [SlotFailure(len(slots) - 1, kind, "the broker is away")])
        bad = self.sink.bad if self.is_plan else {}
        refused = [
            n
            for n, slot in enumerate(slots)
            if any(at in bad.get(each.partition, ()) for each in slot for at in range(each.start, each.end))
        ]
        if refused and self.as_a_whole:
            refused = list(range(len(slots)))
        rows, counts = 0, {}
        for each in [each for n, slot in enumerate(slots) if n not in refused for each in slot]:
            letters = self.sink.bad.get(each.partition, set()) & set(range(each.start, each.end))
            self.sink.letters += [(each.partition, at) for at in sorted(letters)]
            kept = [at for at in range(each.start, each.end) if at not in letters]
            self.sink.rows.setdefault(each.partition, []).extend(kept)
            counts[each.partition] = each.size
            rows += len(kept)
        return Outcome(rows, [SlotFailure(n, FailureKind.ROWS, "a bad row\nat x") for n in refused], counts)

    def cancel(self) -> None:
        self.calls.append("cancel")

    def close(self) -> None:
        self.calls.append("close")


def ranges(*numbers: tuple[Partition, int, int]) -> list[OffsetRange]:
    return [OffsetRange(*each) for each in numbers]


def run(batches: PlannedFirst, slots: Slots) -> Outcome:
    records = {each.partition: PositionRecord("k", str(each.end)) for slot in slots for each in slot}
    return batches.run("1", slots, records)


def test_a_slot_that_a_plan_refuses_is_converted_row_by_row_and_the_others_are_not() -> None:
    sink = Sink(bad={B: {3}})
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = PlannedFirst(lambda partition: plan, by_row, 20)
    slots = [ranges((A, 0, 5)), ranges((B, 0, 5), (C, 0, 5))]
    outcome = run(batches, slots)
    assert (outcome.rows, outcome.failures, outcome.counts) == (14, [], {A: 5, B: 5, C: 5})
    assert plan.ran == [slots]
    assert by_row.ran == [[slots[1]]]
    assert sink.letters == [(B, 3)]
    assert (batches.counts.planned, batches.counts.by_row, batches.counts.refused) == (5, 10, 1)


def test_units_without_a_plan_and_positions_without_rows_go_row_by_row() -> None:
    sink = Sink()
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = PlannedFirst(lambda partition: plan if partition == A else None, by_row, 20)
    run(batches, [ranges((A, 0, 5), (B, 0, 5)), ranges((C, 7, 7))])
    assert plan.ran == [[ranges((A, 0, 5))]]
    assert by_row.ran == [[ranges((B, 0, 5)), ranges((C, 7, 7))]]


def test_units_whose_records_differ_have_plans_of_their_own() -> None:
    sink = Sink(bad={C: {0}})
    plans = {A: Way(sink, is_plan=True), B: Way(sink, is_plan=True)}
    by_row = Way(sink, is_plan=False)
    batches = PlannedFirst(lambda partition: plans[A if partition == A else B], by_row, 20)
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
    batches = PlannedFirst(lambda partition: plan if partition == C else None, by_row, 20)
    outcome = run(batches, [ranges((A, 0, 5)), ranges((B, 0, 5)), ranges((C, 0, 5))])
    assert [(one.slot, one.kind) for one in outcome.failures] == [(2, FailureKind.RETRIABLE)]
    assert by_row.ran == []


def test_more_rows_than_fit_into_memory_are_postponed_to_smaller_batches() -> None:
    sink, limits = Sink(bad={A: {3}}), Limits(10, 30)
    plan, by_row = Way(sink, is_plan=True), Way(sink, is_plan=False)
    batches = PlannedFirst(lambda partition: plan, by_row, 10)
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
    batches = PlannedFirst(lambda partition: plan, by_row, 20)
    batches.open("7")
    assert (plan.calls, by_row.calls) == ([], ["open 7"])


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4)), max_size=3),
        min_size=1,
        max_size=12,
    ),
    st.dictionaries(st.sampled_from([A, B, C]), st.sets(st.integers(0, 40), max_size=8)),
    st.dictionaries(st.sampled_from([A, B, C]), st.sampled_from([0, 1])),
    st.booleans(),
    st.sets(st.integers(0, 12)),
    st.integers(4, 12),
)
def test_every_record_becomes_a_row_or_a_letter_once_and_in_order(
    batches_of: list[list[tuple[Partition, int]]],
    bad: dict[Partition, set[int]],
    kinds: dict[Partition, int],
    as_a_whole: bool,
    outages: set[int],
    most: int,
) -> None:
    sink = Sink(bad=bad)
    plans = [Way(sink, is_plan=True, as_a_whole=as_a_whole) for _ in range(2)]
    batches = PlannedFirst(
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
        assert letters == sorted(bad.get(each, set()) & set(range(end)))


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
