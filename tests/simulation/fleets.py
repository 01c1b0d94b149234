"""What a world's pods run, one class each. ``ALL`` is the list, with what share of all seeds each has."""

from typing import TYPE_CHECKING

from simulation.member import MemberProcess
from simulation.stock import StockProcess

if TYPE_CHECKING:
    from simulation.worker import WorkerProcess


class Fleet:
    """``has_stock``: stock Connect workers are members, so that the group has to be adopted."""

    has_stock = False

    @staticmethod
    def process_of(identity: str) -> "type[WorkerProcess]":
        raise NotImplementedError


class Agents(Fleet):
    @staticmethod
    def process_of(identity: str) -> "type[WorkerProcess]":
        return MemberProcess


class StockWorkers(Fleet):
    has_stock = True

    @staticmethod
    def process_of(identity: str) -> "type[WorkerProcess]":
        return StockProcess


class Mixed(Fleet):
    """Every other pod is a stock worker, as while one kind replaces the other."""

    has_stock = True

    @staticmethod
    def process_of(identity: str) -> "type[WorkerProcess]":
        number = int(identity.rpartition("-")[2])
        return StockProcess if number % 2 else MemberProcess


ALL: tuple[tuple[float, type[Fleet]], ...] = ((0.1, StockWorkers), (0.1, Mixed), (0.8, Agents))


def drawn(chance: float) -> type[Fleet]:
    """The fleet for a number between 0 and 1."""
    for share, fleet in ALL:
        if chance < share:
            return fleet
        chance -= share
    return ALL[-1][1]
