"""The kinds of pods in a world, one class each. ``ALL`` lists them with their fractions of all seeds."""

from typing import TYPE_CHECKING

from tests.simulation.member import MemberProcess
from tests.simulation.stock import StockProcess

if TYPE_CHECKING:
    from tests.simulation.worker import WorkerProcess


class Fleet:
    """``has_stock`` means that stock Connect workers are members, so that the group has to be adopted.
    ``shares_client_id`` means that all of them have the same one, so that no host can tell them apart."""

    has_stock = False
    shares_client_id = False

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


class SharedClientId(StockWorkers):
    shares_client_id = True


class Mixed(Fleet):
    """Every other pod is a stock worker, as while one kind replaces the other."""

    has_stock = True

    @staticmethod
    def process_of(identity: str) -> "type[WorkerProcess]":
        number = int(identity.rpartition("-")[2])
        return StockProcess if number % 2 else MemberProcess


ALL: tuple[tuple[float, type[Fleet]], ...] = (
    (0.1, StockWorkers),
    (0.05, SharedClientId),
    (0.05, Mixed),
    (0.8, Agents),
)


def drawn(chance: float) -> type[Fleet]:
    """The fleet for a number between 0 and 1."""
    for fraction, fleet in ALL:
        if chance < fraction:
            return fleet
        chance -= fraction
    return ALL[-1][1]
