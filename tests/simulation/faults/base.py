"""Defines a fault: it happens at a moment, may last, and is always over before the liveness phase."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

T = TypeVar("T")


class Fault:
    """``happen`` changes the world and returns a short description; empty if there was nothing to do.

    ``random`` is this fault's own, so that leaving another fault out changes nothing here.
    """

    concerns_stock = True
    """Whether it applies to a world of stock workers."""

    def __init__(self, simulation: "Simulation", random: Random) -> None:
        self.simulation = simulation
        self.random = random

    def happen(self) -> str:
        raise NotImplementedError

    def lasting(self, low_ms: int, high_ms: int, heal: Callable[[], None]) -> str:
        """Undo with ``heal`` after a while, at the latest when all faults end. Returns the duration, as
        text."""
        duration_ms = self.random.randint(low_ms, high_ms)
        healing = self.simulation.healing
        healing.append(heal)

        def over() -> None:
            if heal in healing:
                healing.remove(heal)
                self.simulation.tell(f"(over: {type(self).__name__})")
                heal()

        self.simulation.scheduler.after(duration_ms, over)
        return f"for {duration_ms} ms"

    def one_of(self, choices: Sequence[T]) -> T | None:
        return self.random.choice(choices) if choices else None
