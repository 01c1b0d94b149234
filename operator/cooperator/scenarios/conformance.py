"""Checks the rules that every assignor must follow, for authors of plug-ins:

from cooperator.scenarios.conformance import check

def test_my_assignor() -> None:
    check(MyAssignor())
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.planner.problem import Assignor, Placement, PlacementProblem


class AssignorNotConformant(AssertionError):
    """The assignor broke a rule; the message says how, and gives the seed of the problem."""


def check(assignor: Assignor, problems: int = 300, balanced_within: int | None = 1) -> None:
    """Check ``assignor`` on generated problems. Raises NotConformant.

    ``balanced_within``: the largest difference of loads at rest if items weigh the same and capacities are
    equal; None if the strategy does not level loads.
    """
    for seed in range(problems):
        try:
            _check(assignor, generate(seed), balanced_within)
        except AssignorNotConformant as failure:
            raise AssignorNotConformant(f"problem {seed}: {failure}") from None


def generate(seed: int) -> PlacementProblem:
    """Generate a problem of up to 7 receivers and 8 connectors, unbalanced or not; some items are free, some
    owed."""
    rng = random.Random(seed)
    members = [f"m{number}" for number in range(rng.randint(1, 7))]
    kept: dict[str, set[TaskId]] = {member: set() for member in members}
    owed: dict[str, list[TaskId]] = {}
    pool: list[TaskId] = []
    sizes = {f"c{number}": rng.choice([1, 1, 2, 3, 4, 8, 12]) for number in range(rng.randint(1, 8))}
    crowded = rng.random() < 0.3
    for connector, size in sizes.items():
        for number in range(size):
            member = (
                members[min(len(members) - 1, int(rng.expovariate(0.7)))] if crowded else rng.choice(members)
            )
            item, chance = TaskId(connector, number), rng.random()
            if chance < 0.25:
                pool.append(item)
            elif chance < 0.35:
                owed.setdefault(member, []).append(item)
            else:
                kept[member].add(item)
    return PlacementProblem(
        kept={member: frozenset(items) for member, items in kept.items()},
        pool=sorted(pool),
        sizes=sizes,
        owed=owed,
        zones={member: rng.choice(["a", "b"]) for member in members} if seed % 5 == 0 else {},
    )


def apply(problem: PlacementProblem, placement: Placement) -> dict[str, set[TaskId]]:
    """Return what each receiver runs once the placement is carried out."""
    final = {identity: set(kept) for identity, kept in problem.kept.items()}
    for identity, items in problem.owed.items():
        final[identity].update(item for item in items if item not in placement.placed)
    for identity, items in placement.released.items():
        final[identity].difference_update(items)
    for item, identity in placement.placed.items():
        final[identity].add(item)
    return final


def _check(assignor: Assignor, problem: PlacementProblem, balanced_within: int | None) -> None:
    placement = assignor.assign(problem)
    for complaint in _complaints(problem, placement):
        raise AssignorNotConformant(complaint)
    final = apply(problem, placement)
    loads = [len(items) for items in final.values()]
    if balanced_within is not None and max(loads) - min(loads) > balanced_within:
        raise AssignorNotConformant(f"loads {loads} differ by more than {balanced_within}")
    if assignor.assign(problem) != placement:
        raise AssignorNotConformant("the same problem gives different placements")
    shuffled = {identity: frozenset(sorted(items, reverse=True)) for identity, items in problem.kept.items()}
    if assignor.assign(replace(problem, kept=shuffled)) != placement:
        raise AssignorNotConformant("the result depends on the iteration order of a set")
    at_rest = replace(problem, kept={i: frozenset(items) for i, items in final.items()}, pool=(), owed={})
    if assignor.assign(at_rest) != Placement():
        raise AssignorNotConformant("the result is not stable: a second call moves something")
    held_back = assignor.assign(replace(problem, balance=False))
    if held_back.released:
        raise AssignorNotConformant("an item is released although balance is False")
    for complaint in _complaints(replace(problem, balance=False), held_back):
        raise AssignorNotConformant(f"without balance: {complaint}")


def _complaints(problem: PlacementProblem, placement: Placement) -> Iterator[str]:
    for identity, items in placement.released.items():
        if identity not in problem.kept or not set(items) <= problem.kept[identity]:
            yield f"{identity} releases an item that it does not keep"
    released = {item for items in placement.released.values() for item in items}
    owed = {item for items in problem.owed.values() for item in items}
    if missing := (released | set(problem.pool)) - placement.placed.keys():
        yield f"not placed: {sorted(missing)[0]} and {len(missing) - 1} more"
    if surplus := placement.placed.keys() - released - owed - set(problem.pool):
        yield f"placed without a request: {sorted(surplus)[0]}"
    if strangers := set(placement.placed.values()) - problem.kept.keys():
        yield f"placed with {sorted(strangers)[0]!r}, which is not a receiver"
    for identity, items in placement.released.items():
        if back := [item for item in items if placement.placed.get(item) == identity]:
            yield f"{identity} releases {back[0]} and runs it"
