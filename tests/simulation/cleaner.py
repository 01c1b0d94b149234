"""The broker's log cleaner: whoever reads a topic from its beginning finds what compaction has left."""

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.world import World

LONGEST_PAUSE_MS = 6_000


class Cleaner:
    """Compacts all topics again and again, each up to some point. ``random``: its own chance, so that nothing
    else in a history is drawn differently because of it."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        self._pause()

    def _pause(self) -> None:
        self._world.scheduler.after(self._random.randint(500, LONGEST_PAUSE_MS), self._clean)

    def _clean(self) -> None:
        for name in sorted(self._world.topics.by_name):
            topic = self._world.topics.by_name[name]
            topic.compact(self._random.randint(0, topic.end))
        self._pause()
