"""Lets the flocks of several pairs travel at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.values.cells import Cell, Listed, Outcome
from tests.values.pairs import Flock, Pair, Part
from tests.values.world import World, wait_for

_PATIENCE_S = 400.0
_LOOKS = 15
"""A look at tasks costs a process, one at what arrives a request."""


def outcomes_of(
    world: World, pairs: Sequence[Pair], exceptions: Sequence[Listed], part: Part
) -> dict[Cell, Outcome]:
    """The cells of a part of the table, with what came of them. Their Connectors end before this returns."""
    travels = [(pair, flock) for pair in pairs for flock in pair.flocks(exceptions, part)]
    world.apply([pair.begin(world, flock) for pair, flock in travels])
    failed = _travel(world, travels)
    found: dict[Cell, Outcome] = {}
    for pair, flock in travels:
        read = pair.read(world, flock)
        if flock.name in failed:
            said = Outcome("failed", failed[flock.name])
            read = {cell: said if outcome.kind == "missing" else outcome for cell, outcome in read.items()}
        found |= read
    world.local("delete", "connector", *(flock.name for _, flock in travels))
    return found


def _travel(world: World, travels: Sequence[tuple[Pair, Flock]]) -> dict[str, str]:
    """Sends each flock when its first, ordinary row has arrived, and waits until it has arrived or its task
    has failed; returns the failures. The first batch of a topic has another path than the later ones.
    """
    first, rest = list(travels), list[tuple[Pair, Flock]]()
    failed: dict[str, str] = {}
    looks = itertools.count(1)

    def arrived() -> bool:
        for travel in [each for each in first if each[0].done(world, each[1])]:
            travel[0].send(world, travel[1])
            first.remove(travel)
            rest.append(travel)
        for waiting in (first, rest):
            waiting[:] = [(pair, flock) for pair, flock in waiting if flock.name not in failed]
        rest[:] = [(pair, flock) for pair, flock in rest if not pair.done(world, flock)]
        if next(looks) % _LOOKS == 0:
            failed.update(world.failures())
        return not first and not rest

    wait_for(arrived, _PATIENCE_S, "each value has arrived, or its task has failed")
    return failed
