"""Ranges of a batch: fair, bounded, nothing beyond an end, and in slots of about the same size."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.microbatch.ranges import (
    EndBehind,
    Grouping,
    Limits,
    OffsetRange,
    Partition,
    group,
    has_news,
    plan_ranges,
)

partitions = st.builds(Partition, st.sampled_from(["a", "b.c", "d-1"]), st.integers(0, 40))
sizes = st.dictionaries(partitions, st.one_of(st.integers(0, 50), st.integers(0, 2_000_000)), max_size=30)
limits = st.builds(
    Limits,
    st.one_of(st.integers(1, 60), st.integers(1, 1_000_000)),
    st.one_of(st.integers(1, 60), st.integers(1, 1_000_000)),
)
turns = st.integers(0, 1_000)
START = 17


def planned(news: dict[Partition, int], limits: Limits, turn: int = 0) -> dict[Partition, int]:
    positions = dict.fromkeys(news, START)
    ends = {partition: START + size for partition, size in news.items()}
    ranges = plan_ranges(positions, ends, limits, turn)
    assert all(each.start == START and each.end <= ends[each.partition] for each in ranges)
    assert list(ranges) == sorted(ranges)
    return {each.partition: each.size for each in ranges}


@given(sizes, limits, turns)
def test_a_batch_is_bounded_and_no_smaller_than_it_may_be(
    news: dict[Partition, int], limits: Limits, turn: int
) -> None:
    given = planned(news, limits, turn)
    assert all(0 < size <= limits.per_unit for size in given.values())
    wanted = sum(min(size, limits.per_unit) for size in news.values())
    assert sum(given.values()) == min(wanted, limits.per_task)


@given(sizes, limits, turns)
def test_nobody_gets_more_than_another_that_wants_more(
    news: dict[Partition, int], limits: Limits, turn: int
) -> None:
    given = planned(news, limits, turn)
    most = max(given.values(), default=0)
    for partition, size in news.items():
        got = given.get(partition, 0)
        assert got == min(size, limits.per_unit) or got >= most - 1, (partition, got, most)


@given(st.sets(partitions, min_size=1), st.integers(1, 12))
def test_with_less_than_one_offset_each_all_get_one_in_turn(news: set[Partition], per_task: int) -> None:
    limits = Limits(1_000, per_task)
    rounds = -(-len(news) // per_task)
    served = Counter(
        partition for turn in range(rounds) for partition in planned(dict.fromkeys(news, 99), limits, turn)
    )
    assert set(served) == news


def test_slots_that_small_ones_do_not_need_go_to_the_others() -> None:
    news = {Partition("a", 0): 2, Partition("a", 1): 100, Partition("a", 2): 100, Partition("a", 3): 0}
    assert planned(news, Limits(1_000, 100)) == {
        Partition("a", 0): 2,
        Partition("a", 1): 49,
        Partition("a", 2): 49,
    }


def test_an_unknown_end_is_no_news_and_an_earlier_one_is_an_error() -> None:
    known, unknown = Partition("a", 0), Partition("a", 1)
    positions = {known: 5, unknown: 5}
    assert plan_ranges(positions, {known: 7}, Limits(9, 9), 0) == (OffsetRange(known, 5, 7),)
    assert has_news(positions, {known: 7})
    assert not has_news(positions, {known: 5})
    with pytest.raises(EndBehind, match=r"a-0 ends at offset 4, before the position 5 .* reset or alter"):
        plan_ranges(positions, {known: 4}, Limits(9, 9), 0)


@pytest.mark.parametrize("wrong", [lambda: Limits(0, 1), lambda: Limits(1, 0), lambda: Grouping(0)])
def test_limits_are_at_least_one(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="= 0; use 1 or more"):
        wrong()


groupings = st.builds(Grouping, st.integers(1, 8), st.sampled_from([1, 10, 5_000]))
homes = st.dictionaries(partitions, st.integers(0, 9))


def ranges_of(news: dict[Partition, int]) -> list[OffsetRange]:
    return [OffsetRange(partition, START, START + size) for partition, size in sorted(news.items())]


@given(sizes, groupings, homes)
def test_each_range_is_in_one_slot_and_no_slot_is_larger_than_it_must_be(
    news: dict[Partition, int], grouping: Grouping, homes: dict[Partition, int]
) -> None:
    ranges = ranges_of(news)
    slots = group(ranges, grouping, homes)
    assert sorted(each for slot in slots for each in slot) == ranges
    assert 1 <= len(slots) <= grouping.slots
    assert all(slots) or not ranges
    total, largest = sum(news.values()), max(news.values(), default=0)
    least = max(total / len(slots), largest)
    assert max(sum(each.size for each in slot) for slot in slots) <= 4 / 3 * least + 1
    if len(slots) > 1:
        assert total > grouping.slot_size * (len(slots) - 1)


@given(sizes, groupings, homes)
def test_the_same_batch_again_stays_in_its_slots(
    news: dict[Partition, int], grouping: Grouping, homes: dict[Partition, int]
) -> None:
    ranges = ranges_of(news)
    slots = group(ranges, grouping, homes)
    now = {each.partition: index for index, slot in enumerate(slots) for each in slot}
    sizes = [sum(each.size for each in slot) for slot in slots]
    least = max(sum(sizes) / len(sizes), max(news.values(), default=0))
    again = group(ranges, grouping, now)
    if max(sizes) <= 1.25 * least:
        assert {each.partition: index for index, slot in enumerate(again) for each in slot} == now


def test_a_small_batch_is_one_slot_wherever_its_partitions_were() -> None:
    ranges = ranges_of({Partition("a", number): 10 for number in range(100)})
    assert group(ranges, Grouping(4), {Partition("a", 3): 2}) == (tuple(ranges),)
    assert len(group(ranges, Grouping(4, slot_size=250), {})) == 4


@pytest.mark.parametrize("unit", ["a-0", "a-b-12"])
def test_a_unit_is_named_as_its_partition(unit: str) -> None:
    assert str(Partition.of_unit(unit)) == unit


@pytest.mark.parametrize("unit", ["a", "-1", "a-", "a-x"])
def test_other_names_are_no_partitions(unit: str) -> None:
    with pytest.raises(ValueError, match="use TOPIC-NUMBER"):
        Partition.of_unit(unit)
