"""The assignors: all conform, and each keeps its own promise."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.model import Policy, TaskId
from cooperator.planner import Facts, Workspace
from cooperator.planner.assignors import BUILT_IN
from cooperator.planner.assignors.layout import Uniform
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.assignors.strict import Spread
from cooperator.planner.problem import Assignor, Placement, PlacementProblem
from cooperator.scenarios.conformance import AssignorNotConformant, apply, check, generate
from tests.planner.flow import fewest_moves_to_even_connectors
from tests.planner.unreliable_group import UnreliableGroup, owned

ALL: dict[str, Assignor] = {"Sticky": Sticky(), "Uniform": Uniform(), "Spread": Spread()}


@pytest.mark.parametrize("name", ALL)
def test_the_built_in_assignors_conform(name: str) -> None:
    check(ALL[name])


def skews(final: dict[str, set[TaskId]], sizes: dict[str, int]) -> list[int]:
    """Per connector, most − least tasks on a member."""
    counts = {member: Counter(task.connector for task in tasks) for member, tasks in final.items()}
    return [max(c[x] for c in counts.values()) - min(c[x] for c in counts.values()) for x in sizes]


@pytest.mark.parametrize("name", ["Uniform", "Spread"])
@given(seed=st.integers(0, 10_000))
@settings(deadline=None)
def test_connectors_are_even_whatever_ran_before(name: str, seed: int) -> None:
    problem = generate(seed)
    final = apply(problem, ALL[name].assign(problem))
    assert max(skews(final, dict(problem.sizes))) <= 1


@given(seed=st.integers(0, 10_000))
@settings(deadline=None)
def test_a_layout_depends_on_members_and_tasks_only(seed: int) -> None:
    problem = generate(seed)
    everything = sorted(
        {*problem.pool, *(i for own in (problem.kept, problem.owed) for x in own.values() for i in x)}
    )
    fresh = PlacementProblem({member: frozenset() for member in problem.kept}, everything, problem.sizes)
    assert apply(problem, Uniform().assign(problem)) == apply(fresh, Uniform().assign(fresh))


def test_spread_needs_hardly_more_moves_than_the_fewest() -> None:
    """Over 300 layouts; docs/planner.md states the factor."""
    ours = fewest = 0
    for seed in range(300):
        problem = replace(generate(seed), owed={}, zones={})
        placed = {item for tasks in problem.kept.values() for item in tasks}
        free = sorted({TaskId(c, n) for c, size in problem.sizes.items() for n in range(size)} - placed)
        problem = replace(problem, pool=free)
        ours += sum(map(len, Spread().assign(problem).released.values()))
        fewest += fewest_moves_to_even_connectors(problem.kept, free)
    assert fewest <= ours <= fewest * 1.1


@given(
    loads=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    sizes=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1),
)
@settings(deadline=None)
def test_with_strict_spread_instances_and_tasks_together_are_within_1(
    loads: list[int], sizes: dict[str, int]
) -> None:
    group = UnreliableGroup(Policy(strict_spread=True), **sizes)
    for number, _ in enumerate(loads):
        group.join(f"w{number}")
        group.settle()
    totals = [len(tasks) for tasks in owned(group).values()]
    assert max(totals) - min(totals) <= 1
    group.check_complete_and_balanced()
    group.check_at_rest()


weights_of = st.dictionaries(
    st.sampled_from([f"c{n}" for n in range(8)]), st.sampled_from([0.5, 1, 2, 3.5, 10])
)


@given(seed=st.integers(0, 10_000), weights=weights_of)
@settings(deadline=None)
def test_with_weights_no_load_is_above_the_mean_and_the_heaviest_task(
    seed: int, weights: dict[str, float]
) -> None:
    problem = replace(generate(seed), weights=weights)
    final = apply(problem, Sticky().assign(problem))
    loads = [sum(weights.get(task.connector, 1.0) for task in tasks) for tasks in final.values()]
    heaviest = max(weights.get(task.connector, 1.0) for tasks in final.values() for task in tasks)
    assert max(loads) <= sum(loads) / len(loads) + heaviest + 1e-9


@given(
    seed=st.integers(0, 10_000),
    capacities=st.lists(st.sampled_from([0.0, 0.5, 1, 2, 4]), min_size=7, max_size=7),
)
@settings(deadline=None)
def test_with_capacities_no_task_would_lie_better_with_the_least_loaded(
    seed: int, capacities: list[float]
) -> None:
    problem = generate(seed)
    problem = replace(problem, capacities=dict(zip(problem.kept, capacities, strict=False)))
    final = apply(problem, Sticky().assign(problem))
    relative = {m: len(tasks) / max(problem.capacities[m], 1e-6) for m, tasks in final.items()}
    most, least = max(relative.values()), min(relative, key=lambda m: (relative[m], m))
    assert (len(final[least]) + 1) / max(problem.capacities[least], 1e-6) >= most


def test_a_member_of_twice_the_capacity_gets_twice_as_much() -> None:
    tasks = [TaskId("x", number) for number in range(9)]
    kept = {"small": frozenset[TaskId](), "large": frozenset[TaskId]()}
    problem = PlacementProblem(kept, tasks, {"x": 9}, capacities={"large": 2.0})
    final = apply(problem, Sticky().assign(problem))
    assert (len(final["small"]), len(final["large"])) == (3, 6)


def test_rather_overloaded_than_unassigned() -> None:
    problem = PlacementProblem(
        {"a": frozenset()}, [TaskId("x", 0), TaskId("x", 1)], {"x": 2}, capacities={"a": 0.0}
    )
    assert len(Sticky().assign(problem).placed) == 2


def test_weights_move_what_is_on_its_way_before_what_runs() -> None:
    heavy, light = TaskId("heavy", 0), TaskId("light", 0)
    kept = {"a": frozenset({heavy}), "b": frozenset[TaskId]()}
    placement = Sticky().assign(
        PlacementProblem(kept, [light], {"heavy": 1, "light": 1}, weights={"heavy": 5.0})
    )
    assert placement == Placement({}, {light: "b"})


def test_a_connector_is_spread_over_zones_as_well_as_over_members() -> None:
    zones = {"m0": "a", "m1": "a", "m2": "b", "m3": "b"}
    kept = {member: frozenset[TaskId]() for member in zones}
    tasks = [TaskId(connector, number) for connector in "xy" for number in range(2)]
    problem = PlacementProblem(kept, tasks, {"x": 2, "y": 2}, zones=zones)
    final = apply(problem, Sticky().assign(problem))
    for connector in "xy":
        where = {zones[m] for m, items in final.items() for item in items if item.connector == connector}
        assert where == {"a", "b"}


@given(seed=st.integers(0, 2_000))
@settings(deadline=None)
def test_zones_cost_no_balance_and_no_move(seed: int) -> None:
    problem = generate(seed)
    plain = Sticky().assign(replace(problem, zones={}))
    rng = random.Random(seed)
    zoned = Sticky().assign(replace(problem, zones={m: rng.choice("abc") for m in problem.kept}))
    assert sum(map(len, zoned.released.values())) == sum(map(len, plain.released.values()))
    loads = [len(items) for items in apply(problem, zoned).values()]
    assert max(loads) - min(loads) <= 1


def test_the_policy_names_the_assignor() -> None:
    group = UnreliableGroup(Policy(assignor="Uniform"), a=6)
    for number in range(3):
        group.join(f"w{number}")
    group.settle()
    assert [sorted(t.task for t in tasks if t.task >= 0) for tasks in owned(group).values()] == [
        [0, 3],
        [1, 4],
        [2, 5],
    ]


def test_an_assignor_that_is_not_installed_is_replaced_and_said() -> None:
    group = UnreliableGroup(Policy(assignor="Mine"), a=2)
    group.join("w0")
    (warning,) = group.round().warnings
    assert warning == "assignor 'Mine' is not installed here (Spread, Sticky, Uniform are); Sticky is used"
    group.check_complete_and_balanced()


class Lazy:
    """Leaves everything to the first member."""

    def assign(self, problem: PlacementProblem) -> Placement:
        return Placement({}, dict.fromkeys(problem.pool, min(problem.kept)))


def test_a_plug_in_is_chosen_where_the_leader_has_it() -> None:
    group = UnreliableGroup(Policy(assignor="Lazy"), a=4)
    group.workspace = Workspace({**BUILT_IN, "Lazy": Lazy()})
    group.join("w0")
    group.join("w1")
    group.settle()
    assert not owned(group)["w1"]


def test_joins_are_waited_for_whatever_the_assignor() -> None:
    group = UnreliableGroup(Policy(assignor="Uniform"), a=6)
    group.join("w0")
    group.settle()
    group.facts = Facts(expected=frozenset({"w0", "w1", "w2"}))
    group.join("w1")
    assert not group.round().revoked_why
    assert group.round().rejoin_at_ms is not None


class Broken:
    def __init__(self, wrong: str) -> None:
        self.wrong = wrong
        self.calls = 0

    def assign(self, problem: PlacementProblem) -> Placement:
        good = Sticky().assign(problem)
        members = sorted(problem.kept)
        self.calls += 1
        match self.wrong:
            case "forgets":
                return Placement(
                    good.released, {i: m for i, m in good.placed.items() if i != problem.pool[0]}
                )
            case "strangers":
                return Placement(good.released, dict.fromkeys(good.placed, "nobody"))
            case "releases":
                return Placement({members[0]: [TaskId("zz", 0)]}, good.placed)
            case "unbalanced":
                return Placement({}, dict.fromkeys(problem.pool, members[0]))
            case "restless":
                first = sorted(problem.kept[members[0]])[:1]
                moved = dict.fromkeys(first, members[-1])
                if len(members) < 2 or not problem.balance or problem.pool or not moved:
                    return good
                return Placement({members[0]: first}, moved)
            case "chance":
                return good if self.calls % 2 else Sticky().assign(replace(problem, zones={}, pool=()))
            case "moves":
                return Sticky().assign(replace(problem, balance=True))
        return Placement(good.released, {**good.placed, TaskId("zz", 9): members[0]})


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("forgets", "not placed"),
        ("strangers", "which is not a receiver"),
        ("releases", "releases an item that it does not keep"),
        ("unbalanced", "differ by more than 1"),
        ("restless", "not stable"),
        ("moves", "although balance is False"),
        ("surplus", "placed without a request"),
    ],
)
def test_a_nonconformant_assignor_is_told_its_error(wrong: str, complaint: str) -> None:
    with pytest.raises(AssignorNotConformant, match=f"problem .*{complaint}"):
        check(Broken(wrong))


def test_an_assignor_that_depends_on_its_history_does_not_conform() -> None:
    with pytest.raises(AssignorNotConformant, match="different placements"):
        check(Broken("chance"), balanced_within=None)
