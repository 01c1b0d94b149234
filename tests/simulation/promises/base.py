"""Defines a promise of the simulation."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class Broken(Exception):
    """A promise was broken: which one, and how."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise
        self.how = how


class Promise:
    """``check`` looks at the world after each event and raises ``Broken``; it must be almost free if nothing
    has happened that concerns it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation

    def check(self) -> None:
        raise NotImplementedError

    def broken(self, how: str) -> Broken:
        return Broken(type(self).__name__, how)
