"""The broker's log cleaner: a reader that starts at a topic's beginning finds what compaction has left."""

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LONGEST_PAUSE_MS = 6_000


class Cleaner:
    """Compacts all topics again and again, each up to some point. ``random`` is its own, so that it changes
    no other draw of a history."""

    def __init__(self, simulation: "Simulation", random: Random) -> None:
        self._simulation = simulation
        self._random = random
        self._pause()

    def _pause(self) -> None:
        self._simulation.scheduler.after(self._random.randint(500, LONGEST_PAUSE_MS), self._clean)

    def _clean(self) -> None:
        for name in sorted(self._simulation.topics.by_name):
            topic = self._simulation.topics.by_name[name]
            topic.compact(self._random.randint(0, topic.end))
        self._pause()
