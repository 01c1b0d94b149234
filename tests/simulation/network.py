"""The network between processes: delays, cuts, and what faults do to single messages.

A *place* is a machine with processes on it, the broker, or the API server. Messages between two places that
are cut off from each other vanish; a waiter needs a time-out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.simulation.process import Process
from tests.simulation.scheduler import Act

BROKER = "broker"
API = "api"


@dataclass(slots=True)
class Weather:
    """Random treatment of messages: fractions of all messages, and the longest delays in ms."""

    lose: float = 0.0
    delay: float = 0.0
    delay_ms: int = 0
    repeat: float = 0.0
    hop_ms: int = 4
    link_ms: int = 8


@dataclass
class Network:
    """``cuts`` counts, for each pair of disconnected places, the faults that disconnect it."""

    random: Random
    weather: Weather = field(default_factory=Weather)
    cuts: dict[tuple[str, str], int] = field(default_factory=dict)

    def cut(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            self.cuts[pair] = self.cuts.get(pair, 0) + 1

    def join(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            self.cuts[pair] -= 1
            if not self.cuts[pair]:
                del self.cuts[pair]

    def reaches(self, one: str, other: str) -> bool:
        return (one, other) not in self.cuts

    def delay_ms(self) -> int:
        weather = self.weather
        delay_ms = self.random.randint(1, weather.link_ms)
        if weather.delay and self.random.random() < weather.delay:
            delay_ms += self.random.randint(1, weather.delay_ms)
        return delay_ms

    def loses(self) -> bool:
        return bool(self.weather.lose) and self.random.random() < self.weather.lose

    def repeats(self) -> bool:
        return bool(self.weather.repeat) and self.random.random() < self.weather.repeat

    def send(self, sender: Process, place: str, deliver: Act) -> None:
        """Send one message: it arrives once, twice or never, in any order with others."""
        simulation = sender.simulation
        if not self.reaches(sender.place, place) or self.loses():
            return
        for _ in range(2 if self.repeats() else 1):
            simulation.scheduler.after(self.delay_ms(), self._if_reached(sender.place, place, deliver))

    def _if_reached(self, one: str, other: str, deliver: Act) -> Act:
        def arrive() -> None:
            if self.reaches(one, other):
                deliver()

        return arrive


Handler = Callable[[object], None]
