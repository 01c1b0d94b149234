"""Every short cut of the planner gives what the long way gives."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import INSTANCE, Member, Memory, TaskId
from cooperator.planner import Facts, View, Workspace, plan
from cooperator.planner.assignors import release, sticky
from cooperator.planner.assignors.deal import Dealer
from cooperator.planner.assignors.running import Running
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.itemsets import by_connector, configured
from cooperator.planner.problem import DealtInTurn, Placement, PlacementProblem
from tests.harness.examples import examples

SIZES = st.dictionaries(st.from_regex("[a-e]{1,3}", fullmatch=True), st.integers(0, 7), max_size=12)
NAMES = st.lists(st.sampled_from("mnopqrst"), min_size=1, unique=True)


def plainly(self: Sticky, problem: PlacementProblem) -> Placement:
    """As the assignor answers, with a dictionary."""
    placement = dealt(self, problem)
    return Placement(placement.released, dict(placement.placed))


dealt = Sticky.assign


def fresh(names: list[str], sizes: Mapping[str, int], instances: bool) -> PlacementProblem:
    """Nobody runs anything, and everything is free."""
    items = [
        TaskId(connector, number)
        for connector in sorted(sizes)
        for number in ([INSTANCE] if instances else range(sizes[connector]))
    ]
    others = {name: n % 2 for n, name in enumerate(names)}
    kept: dict[str, frozenset[TaskId]] = dict.fromkeys(sorted(names), frozenset())
    return PlacementProblem(kept, items, {} if instances else sizes, of_other_kind=others)


@settings(deadline=None)
@given(NAMES, SIZES | st.builds(dict.fromkeys, st.just("abcdef"), st.integers(1, 7)), st.booleans())
def test_dealt_in_turn_is_dealt_as_one_by_one(
    names: list[str], sizes: Mapping[str, int], instances: bool
) -> None:
    problem = fresh(names, sizes, instances)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sticky, "_is_even_start", lambda *_: False)
        patched.setattr(Dealer, "_deal_in_turn", lambda *_: ([], []))
        patched.setattr(Dealer, "_deal_singles", lambda *_: {})
        one_by_one = Sticky().assign(problem)
    at_once = Sticky().assign(problem)
    assert dict(at_once.placed) == one_by_one.placed
    assert list(at_once.placed) == list(one_by_one.placed)


@given(SIZES, NAMES)
def test_the_result_of_dealing_in_turn(sizes: Mapping[str, int], names: list[str]) -> None:
    items = fresh(names, sizes, False).pool
    placed = DealtInTurn(items, names)
    by_receiver: dict[str, list[TaskId]] = {}
    for item, receiver in placed.items():
        by_receiver.setdefault(receiver, []).append(item)
    assert {receiver: list(given) for receiver, given in placed.by_receiver()} == by_receiver
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


@st.composite
def under_way(draw: st.DrawFn) -> PlacementProblem:
    """A group in its middle: most members run most connectors, something is owed, something is free."""
    names = sorted(draw(NAMES))
    connectors = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    sizes = {connector: draw(st.integers(0, len(names) + 1)) for connector in sorted(connectors)}
    items = [TaskId(connector, number) for connector in sizes for number in range(sizes[connector])]
    # One and the same draw for many: dealt in turn, but for those that are free or owed.
    shift, period = draw(st.integers(0, 7)), draw(st.integers(2, 9))
    idle = draw(st.sets(st.sampled_from(names), max_size=2))
    busy = [name for name in names if name not in idle] or names
    kept: dict[str, set[TaskId]] = {name: set() for name in names}
    owed: dict[str, list[TaskId]] = {}
    pool: list[TaskId] = []
    for n, item in enumerate(items):
        if (n + shift) % period == 0:
            pool.append(item)
        elif draw(st.integers(0, 9)) == 0:
            owed.setdefault(draw(st.sampled_from(names)), []).append(item)
        else:
            kept[busy[n % len(busy)]].add(item)
    others = {name: n % 3 for n, name in enumerate(names)}
    frozen = {name: frozenset(own) for name, own in kept.items()}
    return PlacementProblem(frozen, pool, sizes, owed, balance=draw(st.booleans()), of_other_kind=others)


@settings(deadline=None, max_examples=examples(100, long=300))
@given(under_way())
def test_the_fast_path_deals_as_one_by_one_does(problem: PlacementProblem) -> None:
    short = Sticky().assign(problem)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Dealer, "_all_to_one", lambda *_: None)
        patched.setattr(Dealer, "_deal_singles", lambda *_: {})
        patched.setattr(Running, "_many_lookups", lambda *_: True)
        long = Sticky().assign(problem)
    assert dict(short.placed) == dict(long.placed)
    assert short.released == long.released


@settings(deadline=None, max_examples=examples(100, long=300))
@given(under_way(), st.data())
def test_single_and_bulk_lookups_of_running_items_agree(
    problem: PlacementProblem, data: st.DataObject
) -> None:
    leaving = {
        item: identity
        for identity, own in problem.kept.items()
        for item in sorted(own)
        if data.draw(st.booleans())
    }
    connectors = sorted(problem.sizes)
    singly, at_once = (Running(problem, leaving, connectors) for _ in range(2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Running, "_many_lookups", lambda self: self is at_once)
        for connector in connectors:
            here = singly.of(connector)
            assert here == at_once.of(connector)
            assert (here is not None) is (connector in singly.occupied(connectors))
            if here and max(here.values()) > 1:
                assert connector in singly.several
    for identity, lacking in singly.lacking(connectors).items():
        assert lacking == [connector for connector in connectors if connector in lacking]
        for connector in lacking:
            here = singly.of(connector) or {}
            assert here == dict.fromkeys(problem.kept.keys() - {identity}, 1)


@given(SIZES, st.frozensets(st.integers(0, 60)), st.booleans())
def test_items_are_sorted_and_looked_up_by_connector_as_one_by_one(
    sizes: Mapping[str, int], chosen: frozenset[int], instances: bool
) -> None:
    wanted = configured(sizes)
    everything = wanted.items.instances if instances else wanted.items.tasks
    items = frozenset(item for n, item in enumerate(sorted(everything)) if n in chosen)
    assert list(wanted.sort(items, instances)) == sorted(items)
    found = by_connector(items, 0)
    assert found.counts == Counter(item.connector for item in items)
    singly = max(found.counts.values(), default=1) == 1
    assert found.only == ({item.connector: item for item in items} if singly else None)


@settings(deadline=None, max_examples=examples(100, long=300))
@given(under_way())
def test_a_member_with_one_item_per_connector_releases_the_same_on_the_fast_path(
    problem: PlacementProblem,
) -> None:
    short = Sticky().assign(problem)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(release, "by_connector", lambda *given: by_connector(*given)._replace(only=None))
        long = Sticky().assign(problem)
    assert short.released == long.released
    assert short.placed == long.placed


@settings(deadline=None)
@given(SIZES, st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=6))
def test_a_plan_does_not_depend_on_the_rounds_that_a_workspace_has_seen(
    sizes: Mapping[str, int], rounds: list[tuple[list[str], bool]]
) -> None:
    """Members come and go, and report what they were given: in the same tuples as before, or in new ones."""
    memory, workspace = Memory(), Workspace()
    owned: dict[str, tuple[TaskId, ...]] = {}
    for generation, (names, same) in enumerate(rounds):
        members = tuple(Member(name, name, "1", owned.get(name, ())) for name in names)
        gone = frozenset((name, "1") for name in owned if name not in names)
        view = View(now_ms=generation, generation=generation, members=members, tasks=sizes, cause="1")
        view = replace(view, facts=Facts(gone=frozenset(i for i, _ in gone), ended=gone))
        decided, after = plan(view, memory, workspace)
        assert plan(view, memory) == (decided, after)
        memory, before = after, owned
        owned = {}
        for name, assignment in decided.assignments.items():
            own = before.get(name, ())
            if not (same and assignment.is_empty):
                own = (*(item for item in own if item not in assignment.revoked), *assignment.assigned)
            owned[name] = own
