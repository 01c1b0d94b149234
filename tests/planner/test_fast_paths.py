"""Every short cut of the planner gives what the long way gives."""

from collections.abc import Mapping
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import INSTANCE, Member, Memory, TaskId
from cooperator.planner import View, plan
from cooperator.planner.assignors.deal import Dealer
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.problem import DealtInTurn, Placement, Problem
from cooperator.planner.tally import count_anew, tally

SIZES = st.dictionaries(st.from_regex("[a-e]{1,3}", fullmatch=True), st.integers(0, 7), max_size=12)
NAMES = st.lists(st.sampled_from("mnopqrst"), min_size=1, unique=True)


def plainly(self: Sticky, problem: Problem) -> Placement:
    """As the assignor answers, with a dictionary."""
    placement = dealt(self, problem)
    return Placement(placement.released, dict(placement.placed))


dealt = Sticky.assign


def fresh(names: list[str], sizes: Mapping[str, int], instances: bool) -> Problem:
    """Nobody runs anything, and everything is free."""
    items = [
        TaskId(connector, number)
        for connector in sorted(sizes)
        for number in ([INSTANCE] if instances else range(sizes[connector]))
    ]
    others = {name: n % 2 for n, name in enumerate(names)}
    kept: dict[str, frozenset[TaskId]] = dict.fromkeys(sorted(names), frozenset())
    return Problem(kept, items, {} if instances else sizes, of_other_kind=others)


@settings(deadline=None)
@given(NAMES, SIZES, st.booleans())
def test_dealt_in_turn_is_dealt_as_one_by_one(
    names: list[str], sizes: Mapping[str, int], instances: bool
) -> None:
    problem = fresh(names, sizes, instances)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Dealer, "_deal_in_turn", lambda *_: ([], []))
        one_by_one = Sticky().assign(problem)
    at_once = Sticky().assign(problem)
    assert dict(at_once.placed) == one_by_one.placed
    assert list(at_once.placed) == list(one_by_one.placed)


@given(SIZES, NAMES)
def test_who_was_dealt_what_in_turn(sizes: Mapping[str, int], names: list[str]) -> None:
    items = fresh(names, sizes, False).pool
    placed = DealtInTurn(items, names)
    by_receiver: dict[str, list[TaskId]] = {}
    for item, receiver in placed.items():
        by_receiver.setdefault(receiver, []).append(item)
    assert {receiver: list(given) for receiver, given in placed.by_receiver().items()} == by_receiver
    assert [connector for connector, _ in groupby(placed, lambda item: item.connector)] == sorted(
        connector for connector, size in sizes.items() if size
    )


@settings(deadline=None)
@given(NAMES, SIZES, st.dictionaries(st.sampled_from("mnopqrst"), SIZES, max_size=3))
def test_a_plan_does_not_depend_on_how_it_was_dealt(
    names: list[str], sizes: Mapping[str, int], running: Mapping[str, Mapping[str, int]]
) -> None:
    members = tuple(
        Member(name, name, "1", tuple(TaskId(c, n) for c in running.get(name, ()) for n in range(2)))
        for name in names
    )
    view = View(now_ms=0, generation=1, members=members, tasks=sizes, cause="1")
    short = plan(view, Memory())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Sticky, "assign", plainly)
        assert plan(view, Memory()) == short


ITEMS = st.frozensets(st.builds(TaskId, st.sampled_from("abc"), st.integers(0, 3)), max_size=6)


@given(ITEMS, st.lists(st.dictionaries(st.sampled_from("mnop"), ITEMS), max_size=6), st.data())
def test_a_count_taken_up_is_one_made_anew(
    configured: frozenset[TaskId], rounds: list[dict[str, frozenset[TaskId]]], data: st.DataObject
) -> None:
    for reports in rounds:
        free = set(configured)
        for member, items in reports.items():
            # Most reports are disjoint and known, as only those can be taken up.
            if data.draw(st.integers(0, 5)):
                reports[member] = items & free
                free -= items
        assert tally(reports, configured) == count_anew(reports, configured)
