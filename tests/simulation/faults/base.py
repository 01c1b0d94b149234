"""What a fault is: it happens at a moment, may last, and is always over before the liveness phase."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from simulation.world import World

T = TypeVar("T")


class Fault:
    """``happen`` changes the world and says in a few words what it did; empty when there was nothing to do.

    ``random``: this fault's own chance, so that leaving another fault out changes nothing here.
    """

    concerns_stock = True
    """Whether it means something in a world of stock workers."""

    def __init__(self, world: "World", random: Random) -> None:
        self.world = world
        self.random = random

    def happen(self) -> str:
        raise NotImplementedError

    def lasting(self, low_ms: int, high_ms: int, heal: Callable[[], None]) -> str:
        """Undo by ``heal`` after a while, at the latest when all faults end. Returns the duration, to say."""
        duration_ms = self.random.randint(low_ms, high_ms)
        healing = self.world.healing
        healing.append(heal)

        def over() -> None:
            if heal in healing:
                healing.remove(heal)
                self.world.tell(f"(over: {type(self).__name__})")
                heal()

        self.world.scheduler.after(duration_ms, over)
        return f"for {duration_ms} ms"

    def one_of(self, choices: Sequence[T]) -> T | None:
        return self.random.choice(choices) if choices else None
