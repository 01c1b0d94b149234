"""Units are grouped into tasks evenly, and changes of units change the fewest tasks."""

import itertools
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.grouping import Groups, regroup


def names(*numbers: int) -> list[str]:
    return [f"u-{number}" for number in numbers]


def changed(before: Sequence[Sequence[str]], after: Groups) -> int:
    """The number of tasks that are reconfigured, added or removed."""
    pairs = itertools.zip_longest(before, after, fillvalue=())
    return sum(tuple(old) != tuple(new) for old, new in pairs)


def check(groups: Groups, units: Sequence[str], tasks_max: int) -> None:
    assert sorted(itertools.chain(*groups)) == sorted(units), "not every unit is in one task"
    assert len(groups) == min(tasks_max, len(units))
    sizes = [len(group) for group in groups]
    assert not sizes or max(sizes) - min(sizes) <= 1, sizes


def balanced(units: Sequence[str], count: int) -> Iterator[list[set[str]]]:
    """Every balanced grouping of the units into ``count`` tasks."""
    for choice in itertools.product(range(count), repeat=len(units)):
        groups: list[set[str]] = [set() for _ in range(count)]
        for unit, index in zip(units, choice, strict=True):
            groups[index].add(unit)
        if max(map(len, groups)) - min(map(len, groups)) <= 1:
            yield groups


def test_new_units_are_dealt_in_order() -> None:
    assert regroup((), names(0, 1, 2, 3, 4), 3) == [("u-0", "u-1"), ("u-2", "u-3"), ("u-4",)]
    assert regroup((), [], 3) == []


def test_an_added_unit_goes_to_the_smallest_task_and_the_first_of_several() -> None:
    groups = regroup((), names(0, 1, 2, 3, 4), 3)
    six = regroup(groups, names(0, 1, 2, 3, 4, 5), 3)
    assert six == [*groups[:2], ("u-4", "u-5")]
    assert regroup(six, names(0, 1, 2, 3, 4, 5, 6), 3) == [("u-0", "u-1", "u-6"), *six[1:]]


def test_a_removed_unit_changes_no_other_task_needlessly() -> None:
    groups = regroup((), names(0, 1, 2, 3, 4), 3)
    assert regroup(groups, names(0, 2, 3, 4), 3) == [("u-0",), *groups[1:]]


def test_one_task_a_unit_keeps_every_task_when_units_are_added_anywhere() -> None:
    groups = regroup((), ["a-0", "b-0"], 9)
    assert regroup(groups, ["a-0", "a-1", "b-0"], 9) == [("a-0",), ("b-0",), ("a-1",)]


UNITS = st.lists(st.integers(0, 40), unique=True).map(lambda numbers: names(*numbers))
TASKS = st.integers(1, 12)
HISTORY = st.lists(st.tuples(UNITS, TASKS), max_size=8)


@given(HISTORY)
def test_over_any_history_units_are_grouped_evenly_and_repetition_changes_nothing(
    history: list[tuple[list[str], int]],
) -> None:
    groups: Groups = []
    for units, tasks_max in history:
        groups = regroup(groups, units, tasks_max)
        check(groups, units, tasks_max)
        assert regroup(groups, units, tasks_max) == groups
        assert regroup(groups, units[::-1], tasks_max) == groups, "the result depends on the order of units"


@given(HISTORY, st.integers(0, 40), TASKS)
def test_one_unit_more_changes_one_task(history: list[tuple[list[str], int]], new: int, last: int) -> None:
    groups: Groups = []
    units: list[str] = []
    for units, tasks_max in history:
        groups = regroup(groups, units, tasks_max)
    groups = regroup(groups, units, last)
    added = [*units, f"new-{new}"]
    assert changed(groups, regroup(groups, added, last)) == 1


SMALL = st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=6).map(lambda numbers: names(*numbers))
ANYTHING = st.lists(st.lists(st.sampled_from(names(*range(8))), max_size=4), max_size=5)
EARLIER = ANYTHING.filter(lambda groups: len({*itertools.chain(*groups)}) == sum(map(len, groups)))
"""Any earlier groups: no unit is in two of them, or twice in one."""


@given(earlier=ANYTHING, units=SMALL, tasks_max=st.integers(1, 4))
def test_any_units_are_grouped_evenly(earlier: list[list[str]], units: list[str], tasks_max: int) -> None:
    check(regroup(earlier, units, tasks_max), units, tasks_max)


@given(earlier=EARLIER, units=SMALL, tasks_max=st.integers(1, 4))
def test_no_even_grouping_changes_fewer_tasks(
    earlier: list[list[str]], units: list[str], tasks_max: int
) -> None:
    """Compares with every balanced grouping, for any earlier groups."""
    groups = regroup(earlier, units, tasks_max)
    check(groups, units, tasks_max)

    def kept(candidate: list[set[str]]) -> int:
        pairs = zip(candidate, earlier, strict=False)
        return sum(new == set(old) and len(old) == len(new) for new, old in pairs)

    best = max(map(kept, balanced(units, len(groups))))
    assert sum(new == tuple(old) for new, old in zip(groups, earlier, strict=False)) == best
