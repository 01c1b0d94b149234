"""What must be true after every event, one class a promise. ``ALL`` is the list: what is in it is checked."""

from simulation.promises.base import Broken, Promise
from simulation.promises.consistent import Consistent
from simulation.promises.durable import MemoryBeforeShares
from simulation.promises.forgotten import NothingForgotten
from simulation.promises.moves import LeastMoves
from simulation.promises.once import NoTaskRunsTwice
from simulation.promises.untouched import UntouchedTasksRunOn
from simulation.promises.warm import NothingIsTakenForTheCold

ALL: tuple[type[Promise], ...] = (
    NoTaskRunsTwice,
    UntouchedTasksRunOn,
    NothingForgotten,
    MemoryBeforeShares,
    NothingIsTakenForTheCold,
    LeastMoves,
    Consistent,
)

__all__ = ["ALL", "Broken", "Promise"]
