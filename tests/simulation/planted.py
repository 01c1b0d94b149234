"""Plants bugs and searches for histories that find them. The bugs are in ``mutations``."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.simulation.run import Outcome, run

LIMIT = 200
"""All planted bugs are found within this number of seeds."""

Patch = Any


@dataclass(frozen=True, slots=True)
class Mutation:
    """``plant`` makes the patches that plant the bug. ``reconciling``: as in ``Shape``."""

    name: str
    bug: str
    plant: Callable[[], Sequence[Patch]]
    reconciling: float = 0.0


ALL: list[Mutation] = []


def planted(plant: Callable[[], Sequence[Patch]], reconciling: float = 0.0) -> Callable[[], Sequence[Patch]]:
    name = "".join(word.capitalize() for word in plant.__name__.split("_"))
    ALL.append(Mutation(name, (plant.__doc__ or "").strip(), plant, reconciling))
    return plant


def find(mutation: Mutation, limit: int = LIMIT, start: int = 0) -> tuple[int, Outcome] | None:
    """The number of seeds until the bug was found, and the history that shows it; None if not found."""
    with ExitStack() as stack:
        for each in mutation.plant():
            stack.enter_context(each)
        for count, seed in enumerate(range(start, start + limit), 1):
            outcome = run(seed, reconciling=mutation.reconciling)
            if outcome.broken is not None:
                return count, outcome
    return None
