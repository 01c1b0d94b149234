"""What a promise is to the simulation."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.world import World


class Broken(Exception):
    """A promise was broken: which one, and how."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise
        self.how = how


class Promise:
    """``check`` looks at the world after each event and raises ``Broken``; it must cost next to nothing
    where nothing has happened that concerns it."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def check(self) -> None:
        raise NotImplementedError

    def broken(self, how: str) -> Broken:
        return Broken(type(self).__name__, how)
