"""The loop of a task: every offset once and in order, whatever fails, as long as nobody has replaced it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.base import ServiceAway
from cooperator.connectors.microbatch import apart
from cooperator.connectors.microbatch import loop as loop_module
from cooperator.connectors.microbatch.batches import (
    BatchFailed,
    FailureKind,
    OpenFailed,
    Outcome,
    PositionRecord,
)
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import (
    EndBehind,
    Grouping,
    Limits,
    OffsetRange,
    Partition,
    TopicRecreated,
)
from tests.microbatch.fakes import FakeBatches, FakeOwnership, Log, Replaced, from_zero

UNITS = [Partition("a", number) for number in range(4)]


class FakeSubscription:
    """Ends that stay as they are; it is closed when all of them are reached, or after too many batches."""

    def __init__(self, ends: Mapping[Partition, int]) -> None:
        self.ends = ends
        self.topic_ids: dict[str, str] = {}
        self.troubles: dict[Partition, str] = {}
        self.closed = False
        self.waits = 0
        self.until: Callable[[], bool] = lambda: False

    def restart(self) -> None: ...

    def wait(
        self, positions: Mapping[Partition, int], ids: object = None, until_s: float = 0
    ) -> Mapping[Partition, int]:
        self.waits += 1
        assert self.waits < 500
        return {} if self.closed or self.until() else self.ends

    def close(self) -> None:
        self.closed = True


class Task:
    def __init__(
        self, log: Log, ends: Mapping[Partition, int], batches: FakeBatches, *, tolerant: bool = False
    ) -> None:
        self.ownership = FakeOwnership(log)
        self.batches = batches
        self.said: list[str] = []
        self.ends = ends
        self.subscription = FakeSubscription(ends)
        self.until = lambda: self.ownership.log.positions == self.ends
        self.subscription.until = lambda: self.until()
        self.loop = TaskLoop(
            units=UNITS,
            ownership=self.ownership,
            batches=batches,
            ends=self.subscription,
            limits=Limits(10, 25),
            grouping=Grouping(3, slot_size=5),
            first_offsets=from_zero,
            say=self.said.append,
            fail_on_data_loss=not tolerant,
        )

    def run(self) -> None:
        """Runs until the ends are reached; a real loop would wait for more."""
        task, loop = self, self.loop
        recover = self.ownership.recover

        def at_the_end() -> object:
            if task.until():
                loop.stop()
            return recover()

        with patch.object(loop_module, "_BACKOFF_S", (0.0,)):
            self.ownership.recover = at_the_end
            loop.run()


def whole(ends: Mapping[Partition, int]) -> dict[Partition, list[int]]:
    return {partition: list(range(end)) for partition, end in ends.items()}


def test_units_that_were_never_read_get_a_position_before_their_first_record() -> None:
    log = Log({UNITS[0]: 7})
    batches = FakeBatches(log)
    Task(log, {**dict.fromkeys(UNITS, 0), UNITS[0]: 7}, batches).run()
    assert [sorted(each for slot in batch for each in slot) for batch in batches.ran] == [
        [OffsetRange(unit, 0, 0) for unit in UNITS[1:]]
    ]
    assert log.positions == {**dict.fromkeys(UNITS, 0), UNITS[0]: 7}
    assert batches.closed


passing = st.sampled_from([None, None, FailureKind.RETRIABLE, FailureKind.FENCED])
fates = st.dictionaries(
    st.tuples(st.integers(0, 12), st.integers(0, 2)), st.tuples(passing, st.booleans()), max_size=20
)


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), fates)
def test_each_offset_is_committed_once_and_in_order_despite_any_failure(
    sizes: list[int], fates: dict[tuple[int, int], tuple[FailureKind | None, bool]]
) -> None:
    log, ends = Log(), dict(zip(UNITS, sizes, strict=True))

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        kind, commits = fates.get((batch, slot), (None, True))
        return kind, commits or kind is None

    batches = FakeBatches(log, fate)
    task = Task(log, ends, batches)
    task.run()
    assert log.offsets == whole(ends)
    assert log.positions == ends
    assert task.loop.counts.rows <= sum(sizes)


def test_a_failed_batch_is_told_and_a_later_one_ends_the_message() -> None:
    log = Log()
    batches = FakeBatches(
        log, lambda batch, slot: (FailureKind.RETRIABLE, False) if batch == 1 else (None, True)
    )
    task = Task(log, dict.fromkeys(UNITS, 1), batches)
    task.run()
    assert task.said == [
        "recovering from: units a-0, a-1, a-2 and 1 more: slot 0 is retriable",
        "",
    ]
    assert task.ownership.calls[:2] == ["claim", "recover"]


LASTING = [FailureKind.DATA_LOSS, FailureKind.FAILED, FailureKind.ROWS, FailureKind.REFUSED]


def failing(batches: FakeBatches, bad: set[Partition], kind: FailureKind) -> None:
    """Slots that read something of these partitions fail."""

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        is_bad = any(each.partition in bad and each.size for each in batches.ran[batch][slot])
        return (kind, False) if is_bad else (None, True)

    batches.fate = fate


@pytest.mark.parametrize("kind", LASTING)
def test_a_permanent_failure_of_all_units_ends_the_task_with_the_last_one(kind: FailureKind) -> None:
    log = Log()
    batches = FakeBatches(log)
    failing(batches, set(UNITS), kind)
    with pytest.raises(BatchFailed, match=rf"units a-.: slot 0 is {kind.value}"):
        Task(log, dict.fromkeys(UNITS, 9), batches).run()
    assert batches.closed


@pytest.mark.parametrize("kind", LASTING)
def test_positions_that_cannot_be_written_end_the_task(kind: FailureKind) -> None:
    log = Log()
    with pytest.raises(BatchFailed):
        Task(log, dict.fromkeys(UNITS, 9), FakeBatches(log, lambda batch, slot: (kind, False))).run()


@given(
    st.lists(st.integers(1, 60), min_size=4, max_size=4),
    st.sets(st.sampled_from(UNITS), min_size=1, max_size=3),
    st.sampled_from(LASTING),
)
def test_units_that_fail_for_good_stop_no_others(
    sizes: list[int], bad: set[Partition], kind: FailureKind
) -> None:
    log, ends = Log(), dict(zip(UNITS, sizes, strict=True))
    batches = FakeBatches(log)
    failing(batches, bad, kind)
    task = Task(log, ends, batches)
    others = {unit: end for unit, end in ends.items() if unit not in bad}
    task.until = lambda: all(log.positions.get(unit) == end for unit, end in others.items())
    task.run()
    assert {unit: log.offsets.get(unit, []) for unit in others} == whole(others)
    assert all(not log.offsets.get(unit) for unit in bad)


def test_a_unit_that_failed_for_good_is_tried_again_and_goes_on() -> None:
    log, ends = Log(), dict.fromkeys(UNITS, 9)
    batches = FakeBatches(log)
    failing(batches, {UNITS[0]}, FailureKind.REFUSED)
    task = Task(log, ends, batches)

    def is_mended() -> bool:
        if task.loop.apart.aside.keys() == {UNITS[0]} and len(batches.ran) > 4:
            failing(batches, set(), FailureKind.REFUSED)
        return log.positions == ends

    task.until = is_mended
    with patch.object(apart, "_AGAIN_S", (0.0,)):
        task.run()
    assert log.offsets == whole(ends)
    assert not task.loop.apart.aside


class WaitingBatches(FakeBatches):
    """Records of the units in ``needy`` need a service that is away."""

    needy: frozenset[Partition] = frozenset()
    raised = 0

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        if any(each.partition in self.needy and each.size for slot in slots for each in slot):
            self.raised += 1
            raise ServiceAway("waiting for the registry")
        return super().run(session, slots, records)


def test_units_that_need_a_service_that_is_away_stop_no_others() -> None:
    log, ends = Log(), dict.fromkeys(UNITS, 9)
    batches = WaitingBatches(log)
    batches.needy = frozenset(UNITS[:2])
    task = Task(log, ends, batches)
    task.until = lambda: {log.positions.get(unit) for unit in UNITS[2:]} == {9}
    task.run()
    assert not any(log.offsets.get(unit) for unit in UNITS[:2])


@pytest.mark.parametrize("tries", [1, 20])
def test_a_task_waits_for_a_service_as_long_as_it_takes_and_goes_on_by_itself(tries: int) -> None:
    log, ends = Log(), dict.fromkeys(UNITS, 9)
    batches = WaitingBatches(log)
    batches.needy = frozenset(UNITS)
    task = Task(log, ends, batches)

    def is_done() -> bool:
        aside = task.loop.apart.aside
        if aside.keys() == set(UNITS) and max(each.failures for each in aside.values()) >= tries:
            assert {str(each.error) for each in aside.values()} == {"waiting for the registry"}
            batches.needy = frozenset()
        return log.positions == ends

    task.until = is_done
    with patch.object(apart, "_AGAIN_S", (0.0,)):
        task.run()
    assert log.offsets == whole(ends)
    assert not task.loop.apart.aside
    assert batches.raised < tries + 3 * len(UNITS), "those that wait for one service are one try"


class PostponingBatches(FakeBatches):
    """Postpones partitions with odd numbers in large batches, as ``PlannedFirst`` does."""

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        if sum(each.size for slot in slots for each in slot) <= 6:
            return super().run(session, slots, records)
        some = [[each for each in slot if each.partition.number % 2 == 0] for slot in slots]
        outcome = super().run(session, some, records)
        return replace(outcome, postponed=[unit for unit in UNITS if unit.number % 2])


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4))
def test_partitions_that_are_postponed_are_read_from_where_they_were(sizes: list[int]) -> None:
    log, ends = Log(), dict(zip(UNITS, sizes, strict=True))
    task = Task(log, ends, PostponingBatches(log))
    # Every second batch is small.
    task.loop.narrowed = lambda limits: Limits(6, 6) if task.loop.counts.batches % 2 else limits
    task.run()
    assert log.offsets == whole(ends)
    assert log.positions == ends
    assert all(task.loop.counts.of(unit).records == ends[unit] for unit in UNITS)


def test_a_replaced_attempt_commits_nothing_more() -> None:
    log = Log(dict.fromkeys(UNITS, 0))
    batches = FakeBatches(log)
    task = Task(log, dict.fromkeys(UNITS, 50), batches)

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        if batch == 2:
            log.session += 1  # a newer attempt has initialised the producers
            task.ownership.replaced = True
            return FailureKind.FENCED, False
        return None, True

    batches.fate = fate
    with pytest.raises(Replaced):
        task.run()
    assert len(batches.ran) == 3
    assert sum(map(len, log.offsets.values())) == 50


def test_a_topic_that_was_created_again_ends_the_task_before_anything_is_read() -> None:
    """Also where it has more records than the old one: its offsets are those of other records."""
    log = Log(dict.fromkeys(UNITS, 5), dict.fromkeys(UNITS, "old"))
    batches = FakeBatches(log)
    task = Task(log, dict.fromkeys(UNITS, 9), batches)
    task.subscription.topic_ids = {"a": "new"}
    with pytest.raises(TopicRecreated, match=r"topic a was deleted and created again.*reset or alter its"):
        task.run()
    assert batches.ran == []


def test_a_topic_that_was_created_again_is_read_from_its_beginning_if_losses_are_tolerated() -> None:
    log = Log(dict.fromkeys(UNITS, 5), dict.fromkeys(UNITS, "old"))
    ends = dict.fromkeys(UNITS, 7)
    task = Task(log, ends, FakeBatches(log), tolerant=True)
    task.subscription.topic_ids = {"a": "new"}
    task.run()
    assert log.offsets == whole(ends)
    assert log.topic_ids == dict.fromkeys(UNITS, "new")


def test_positions_have_the_id_of_their_topic_as_soon_as_it_is_known() -> None:
    log = Log(dict.fromkeys(UNITS, 0))
    task = Task(log, dict.fromkeys(UNITS, 3), FakeBatches(log))
    task.subscription.topic_ids = {"a": "first"}
    task.run()
    assert log.topic_ids == dict.fromkeys(UNITS, "first")


def test_a_topic_that_has_lost_its_last_records_goes_on_at_its_end_if_that_is_tolerated() -> None:
    log = Log(dict.fromkeys(UNITS, 5))
    ends = {**dict.fromkeys(UNITS, 5), UNITS[0]: 3}
    strict = Task(log, ends, FakeBatches(log))
    strict.until = lambda: strict.subscription.waits > 1
    strict.run()
    [(unit, aside)] = strict.loop.apart.aside.items()
    assert (unit, type(aside.error)) == (UNITS[0], EndBehind)
    assert "a-0 ends at offset 3, before the position 5" in str(aside.error)
    task = Task(log, ends, FakeBatches(log), tolerant=True)
    task.run()
    assert (log.positions, log.offsets[UNITS[0]]) == (ends, [])


def test_batches_that_take_too_long_become_smaller_until_they_fit() -> None:
    """Brokers fence a producer whose transaction takes too long; the same batch would never get through."""
    log = Log(dict.fromkeys(UNITS, 0))
    batches = FakeBatches(log)

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        size = sum(each.size for each in batches.ran[batch][slot])
        return (FailureKind.FENCED, False) if size > 2 else (None, True)

    batches.fate = fate
    ends = dict.fromkeys(UNITS, 30)
    Task(log, ends, batches).run()
    assert log.offsets == whole(ends)


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), st.integers(1, 3))
def test_no_slot_reads_two_topics_if_they_go_to_different_ones(sizes: list[int], slots: int) -> None:
    log = Log()
    batches = FakeBatches(log, reads_topics_apart=True)
    units = [Partition(f"topic-{number // 2}", number) for number in range(4)]
    ends = dict(zip(units, sizes, strict=True))
    task = Task(log, ends, batches)
    task.loop.units, task.loop.grouping = units, Grouping(slots)
    task.run()
    assert log.offsets == whole(ends)
    assert all(
        len({each.partition.topic for each in slot}) == 1
        for batch in batches.ran
        for slot in batch
        if any(each.size for each in slot)
    )


def test_producers_that_cannot_be_initialised_yet_are_tried_again_by_the_same_call() -> None:
    log = Log()
    task = Task(log, dict.fromkeys(UNITS, 3), FakeBatches(log))
    task.ownership.open_fails = [FailureKind.RETRIABLE, FailureKind.RETRIABLE]
    task.run()
    assert task.ownership.calls[:3] == ["claim"] * 3


def test_producers_that_are_refused_end_the_task() -> None:
    task = Task(Log(), dict.fromkeys(UNITS, 3), FakeBatches(Log()))
    task.ownership.open_fails = [FailureKind.FAILED]
    with pytest.raises(OpenFailed, match="no coordinator"):
        task.run()


def test_a_batch_without_memory_is_read_in_smaller_ones_at_once() -> None:
    log = Log()
    ends = dict.fromkeys(UNITS, 12)
    sizes: list[int] = []

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        sizes.append(sum(each.size for each in task.batches.ran[batch][slot]))
        return (FailureKind.MEMORY, False) if sizes[-1] > 2 else (None, True)

    task = Task(log, ends, FakeBatches(log, fate))
    task.run()
    assert log.offsets == whole(ends)
    assert task.said == [], "nothing has to be waited for"


def test_a_record_that_needs_more_memory_than_there_is_is_named_and_other_units_go_on() -> None:
    log = Log(dict.fromkeys(UNITS, 7))
    ends = dict.fromkeys(UNITS, 12)

    def fate(batch: int, slot: int) -> tuple[FailureKind | None, bool]:
        ranges = task.batches.ran[batch][slot]
        has_large = any(each.partition == UNITS[2] and each.start <= 9 < each.end for each in ranges)
        return (FailureKind.MEMORY, False) if has_large else (None, True)

    task = Task(log, ends, FakeBatches(log, fate))
    others = [unit for unit in UNITS if unit != UNITS[2]]
    task.until = lambda: bool(task.loop.apart.aside) and all(log.positions[unit] == 12 for unit in others)
    task.run()
    [(unit, aside)] = task.loop.apart.aside.items()
    assert unit == UNITS[2]
    assert re.search(r"a-2 at offset 9: .*raise spec\.spark\.heapMb", str(aside.error))
    assert [log.offsets[unit] for unit in others] == [[*range(7, 12)]] * len(others)
    assert log.offsets[UNITS[2]] == [7, 8], "what is before it arrives"
