"""The target: balanced, with the fewest moves there can be, and spread to a local optimum."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import TaskId
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.problem import PlacementProblem
from cooperator.planner.target import Target, find, loads
from tests.harness.examples import examples
from tests.planner.flow import best_plan

Layout = Mapping[str, list[TaskId]]


@st.composite
def layouts(
    draw: st.DrawFn, members: int = 7, connectors: int = 8, size: int = 10
) -> tuple[Layout, list[TaskId]]:
    """Kept tasks, however uneven, and free tasks."""
    kept: dict[str, list[TaskId]] = {f"m{i}": [] for i in range(draw(st.integers(1, members)))}
    free: list[TaskId] = []
    places = [*kept, *kept, None]
    for connector in range(draw(st.integers(0, connectors))):
        crowd = draw(st.sampled_from([places, [draw(st.sampled_from(places))], [None]]))
        for number in range(draw(st.integers(0, size))):
            place = draw(st.sampled_from(crowd))
            (free if place is None else kept[place]).append(TaskId(f"c{connector}", number))
    return kept, free


def planned(kept: Layout, free: list[TaskId]) -> tuple[Target, dict[str, set[TaskId]]]:
    """The target, and all members' tasks once it is reached."""
    sizes = Counter(task.connector for tasks in (*kept.values(), free) for task in tasks)
    problem = PlacementProblem({m: frozenset(tasks) for m, tasks in kept.items()}, sorted(free), sizes)
    target = find(problem, Sticky())
    final = {m: set(tasks) - set(target.released.get(m, ())) for m, tasks in kept.items()}
    for task, member in target.placed.items():
        final[member].add(task)
    assert loads(problem, target) == {member: len(tasks) for member, tasks in final.items()}
    return target, final


def cost(final: Mapping[str, set[TaskId]]) -> int:
    return sum(n * n for tasks in final.values() for n in Counter(t.connector for t in tasks).values())


def moves(target: Target) -> int:
    return sum(map(len, target.released.values()))


@settings(max_examples=examples(50, long=150), deadline=None)
@given(layouts())
def test_moves_are_the_fewest_for_the_balance_and_spread_is_close_to_the_best(
    layout: tuple[Layout, list[TaskId]],
) -> None:
    kept, free = layout
    target, final = planned(kept, free)
    sizes = [len(tasks) for tasks in final.values()]
    assert max(sizes) - min(sizes) <= 1
    assert set().union(*final.values()) == set(free).union(*kept.values())
    assert sum(sizes) == len(free) + sum(map(len, kept.values()))
    fewest, least = best_plan(kept, free)
    assert moves(target) == fewest
    assert least <= cost(final)


def test_items_that_go_back_to_their_members_stop_nothing_that_a_better_choice_would_leave() -> None:
    """An owed item does not run yet, so it can go elsewhere for nothing."""
    for seed in range(1_500):
        rng = random.Random(seed)
        own, free = seeded(rng)
        owed = {member: [t for t in sorted(tasks) if rng.random() < 0.4] for member, tasks in own.items()}
        kept = {member: frozenset(tasks) - set(owed[member]) for member, tasks in own.items()}
        sizes = Counter(task.connector for tasks in [*own.values(), free] for task in tasks)
        found = find(PlacementProblem(kept, sorted(free), sizes, owed=owed), Sticky())
        least, extra = divmod(len(free) + sum(map(len, own.values())), len(kept))
        running = sorted(map(len, kept.values()), reverse=True)
        fewest = sum(max(0, n - least - (i < extra)) for i, n in enumerate(running))
        assert moves(found) == fewest, seed


def test_the_gap_of_the_spread_to_the_optimum_is_small() -> None:
    """The sum over 400 seeded layouts; docs/planner.md states the figure."""
    ours = best = 0
    for seed in range(400):
        kept, free = seeded(random.Random(seed))
        ours += cost(planned(kept, free)[1])
        best += best_plan(kept, free)[1]
    assert best <= ours <= best * 1.002


def seeded(rng: random.Random) -> tuple[Layout, list[TaskId]]:
    kept: dict[str, list[TaskId]] = {f"m{i}": [] for i in range(rng.randint(1, 6))}
    free: list[TaskId] = []
    lopsided = rng.random() < 0.3
    for connector in range(rng.randint(1, 8)):
        for number in range(rng.choice([1, 1, 2, 3, 4, 8, 12])):
            place = min(len(kept) - 1, int(rng.expovariate(0.7))) if lopsided else rng.randrange(len(kept))
            (free if rng.random() < 0.2 else kept[f"m{place}"]).append(TaskId(f"c{connector}", number))
    return kept, free


def everything(kept: Layout, free: list[TaskId]) -> Iterator[tuple[int, int]]:
    """Moves and cost of every balanced plan, one by one."""
    members = list(kept)
    homes = {task: member for member, tasks in kept.items() for task in tasks}
    tasks = [*homes, *free]
    for places in product(members, repeat=len(tasks)):
        loads = Counter(places)
        counts = [loads[member] for member in members]
        if max(counts) - min(counts) <= 1:
            moved = sum(homes.get(task, place) != place for task, place in zip(tasks, places, strict=True))
            cells = Counter((task.connector, place) for task, place in zip(tasks, places, strict=True))
            yield moved, sum(n * n for n in cells.values())


@settings(max_examples=60, deadline=None)
@given(
    layouts(members=3, connectors=3, size=3).filter(lambda x: len(x[1]) + sum(map(len, x[0].values())) <= 7)
)
def test_on_tiny_layouts_no_plan_at_all_moves_less(layout: tuple[Layout, list[TaskId]]) -> None:
    kept, free = layout
    target, final = planned(kept, free)
    fewest, least = min(everything(kept, free))
    assert moves(target) == fewest
    assert least <= cost(final)
    assert best_plan(kept, free) == (fewest, least), "the reference itself, against exhaustive search"


@settings(max_examples=examples(50, long=150), deadline=None)
@given(layouts())
def test_no_exchange_spreads_further(layout: tuple[Layout, list[TaskId]]) -> None:
    """Every swap, stay and shift (``spread``), tried one by one on the finished plan."""
    kept, free = layout
    target, final = planned(kept, free)
    homes = {task: member for member, tasks in target.released.items() for task in tasks}
    units = target.placed
    now = cost(final)
    level = min(map(len, final.values()))

    def after(*steps: tuple[TaskId, str, str]) -> int:
        tried = {member: set(tasks) for member, tasks in final.items()}
        for task, source, place in steps:
            tried[source].remove(task)
            tried[place].add(task)
        return cost(tried)

    for (a, at_a), (b, at_b) in combinations(units.items(), 2):
        if at_a != at_b and homes.get(a) != at_b and homes.get(b) != at_a:
            assert after((a, at_a, at_b), (b, at_b, at_a)) >= now, f"swap {a} and {b}"
    for unit, home in homes.items():
        for other in final[home] - units.keys():
            steps = (unit, units[unit], home), (other, home, units[unit])
            assert after(*steps) >= now, f"{unit} stays at {home}, {other} goes"
    for unit, place in units.items():
        for member, tasks in final.items():
            if len(final[place]) > level and len(tasks) == level and homes.get(unit) != member:
                assert after((unit, place, member)) >= now, f"shift {unit} to {member}"


@given(layouts())
def test_the_same_layout_gives_the_same_target(layout: tuple[Layout, list[TaskId]]) -> None:
    kept, free = layout
    shuffled = {member: list(reversed(tasks)) for member, tasks in kept.items()}
    assert planned(kept, free)[0] == planned(shuffled, free[::-1])[0]


def test_without_leave_to_balance_only_the_pool_is_dealt() -> None:
    kept = {"a": frozenset({TaskId("x", 0), TaskId("x", 1), TaskId("x", 2)}), "b": frozenset[TaskId]()}
    problem = PlacementProblem(kept, [TaskId("y", 0)], {"x": 3, "y": 1}, balance=False)
    target = find(problem, Sticky(), ask_what_is_put_off=True)
    assert not target.released
    assert target.placed == {TaskId("y", 0): "b"}
    assert target.put_off


def test_tasks_that_do_not_run_yet_move_before_running_ones() -> None:
    running, back = TaskId("x", 0), TaskId("x", 1)
    kept = {"a": frozenset({running}), "b": frozenset[TaskId]()}
    problem = PlacementProblem(kept, [], {"x": 2}, owed={"a": [back]})
    target = find(problem, Sticky())
    assert not target.released
    assert target.placed == {back: "b"}
    assert loads(problem, target) == {"a": 1, "b": 1}


def test_the_larger_quota_goes_to_who_would_have_to_stop_something() -> None:
    tasks = [TaskId("x", number) for number in range(4)]
    kept = {"a": frozenset[TaskId](), "b": frozenset(tasks[2:]), "c": frozenset[TaskId]()}
    target = find(PlacementProblem(kept, [], {"x": 4}, owed={"a": tasks[:2]}), Sticky())
    assert not target.released
    assert set(target.placed.values()) == {"c"}


def test_the_larger_quota_goes_to_who_has_less_of_the_other_kind() -> None:
    tasks = [TaskId("x", number) for number in range(4)]
    kept = {"a": frozenset(tasks[:2]), "b": frozenset(tasks[2:]), "c": frozenset[TaskId]()}
    target = find(PlacementProblem(kept, [], {"x": 4}, of_other_kind={"a": 1, "b": 0, "c": 0}), Sticky())
    assert target.released.keys() == {"a"}


def test_nothing_that_runs_is_stopped_for_what_comes_back_later() -> None:
    tasks = [TaskId("x", number) for number in range(4)]
    kept = {"a": frozenset(tasks[:2]), "b": frozenset[TaskId]()}
    waiting = find(PlacementProblem(kept, [], {"x": 4}, reserved={"a": tasks[2:]}), Sticky())
    assert (waiting.released, waiting.placed) == ({}, {})
    back = find(PlacementProblem(kept, [], {"x": 4}, owed={"a": tasks[2:]}), Sticky())
    assert back.released == {}
    assert back.placed == dict.fromkeys(tasks[2:], "b")


def test_without_receivers_there_is_no_target() -> None:
    assert find(PlacementProblem({}, [TaskId("x", 0)], {"x": 1}), Sticky()).placed == {}


@pytest.mark.parametrize("size", [9, 10, 11])
def test_a_new_connector_is_spread_from_the_start(size: int) -> None:
    kept = {"a": [TaskId("x", 0)], "b": [TaskId("x", 1)], "c": []}
    _, final = planned(kept, [TaskId("y", number) for number in range(size)])
    counts = [Counter(task.connector for task in tasks)["y"] for tasks in final.values()]
    assert max(counts) - min(counts) <= 1
