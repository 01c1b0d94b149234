"""Lets the flocks of several pairs travel at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.values.cells import Cell, Exception_, Outcome
from tests.values.pairs import Flock, Pair, Part
from tests.values.world import World, wait_for

_PATIENCE_S = 240.0
_LOOKS = 15
"""A look at tasks costs a process, one at what arrives a request."""


def outcomes_of(
    world: World, pairs: Sequence[Pair], exceptions: Sequence[Exception_], part: Part
) -> dict[Cell, Outcome]:
    """The cells of a part of the table, with what came of them. Their Connectors end before this returns."""
    travels = [(pair, flock) for pair in pairs for flock in pair.flocks(exceptions, part)]
    world.apply([pair.begin(world, flock) for pair, flock in travels])
    failed = _settle(world, travels, {}, "the first row arrives")
    for pair, flock in travels:
        if flock.name not in failed:
            pair.send(world, flock)
    failed = _settle(world, travels, failed, "all rows arrive")
    found: dict[Cell, Outcome] = {}
    for pair, flock in travels:
        read = pair.read(world, flock)
        if flock.name in failed:
            said = Outcome("failed", failed[flock.name])
            read = {cell: said if outcome.kind == "missing" else outcome for cell, outcome in read.items()}
        found |= read
    world.local("delete", "connector", *(flock.name for _, flock in travels))
    return found


def _settle(
    world: World, travels: Sequence[tuple[Pair, Flock]], failed: dict[str, str], what: str
) -> dict[str, str]:
    """Waits until each flock is done or its task has failed; returns the failures."""
    waiting = [travel for travel in travels if travel[1].name not in failed]
    failed = dict(failed)
    looks = itertools.count(1)

    def settled() -> bool:
        waiting[:] = [
            (pair, flock)
            for pair, flock in waiting
            if not pair.done(world, flock) and flock.name not in failed
        ]
        if waiting and next(looks) % _LOOKS == 0:
            failed.update(world.failures())
        return not waiting

    wait_for(settled, _PATIENCE_S, what)
    return failed
