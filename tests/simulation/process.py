"""A process: what happens in it happens only while it lives, and waits while it is frozen."""

from collections import deque
from typing import TYPE_CHECKING

from kafka.future import Future

from simulation.scheduler import Act, Timer

if TYPE_CHECKING:
    from simulation.world import World


_STAGE: list["Process | None"] = [None]


def here() -> "Process":
    """The process that runs now: what is made in it, is made for it."""
    process = _STAGE[0]
    assert process is not None, "nothing runs outside of a process"
    return process


class Process:
    """``place``: the machine it runs on, by which the network knows it. ``wall_ms``: how far its wall clock
    is off. ``frozen_ms``: since when nothing of it runs; None while it does.

    ``hung``: only its supervisor stands still; what runs beside it (tasks, watchdog) goes on.
    """

    def __init__(self, world: "World", name: str, place: str) -> None:
        self.world = world
        self.name = name
        self.place = place
        self.url = ""
        self.heard_ms = 0
        """When the newest request was sent that the broker has answered as one of a member."""
        self.alive = True
        self.frozen_ms: int | None = None
        self.hung = False
        self.wall_ms = 0
        self._waiting: deque[Act] = deque()
        self._order_ms = 0

    def after(self, delay_ms: int, act: Act) -> Timer:
        return self.world.scheduler.after(delay_ms, lambda: self.enter(act))

    def hop(self, act: Act) -> None:
        """From one thread to another: a little later, and in order."""
        world = self.world
        self._order_ms = max(self._order_ms, world.now_ms + world.draw_hop_ms())
        world.scheduler.at(self._order_ms, lambda: self.enter(act))

    def enter(self, act: Act) -> None:
        """Do ``act`` as this process: now, when it runs again, or never."""
        if not self.alive:
            return
        if self.frozen_ms is not None or self.hung:
            self._waiting.append(act)
            return
        before = _STAGE[0]
        _STAGE[0] = self
        try:
            act()
        finally:
            _STAGE[0] = before

    def before_join(self) -> Future | None:
        """What a JoinGroup of it has to wait for; None: nothing."""
        return None

    def freeze(self) -> None:
        self.frozen_ms = self.world.now_ms

    def hang(self) -> None:
        self.hung = True

    def thaw(self) -> None:
        """Run again: what has come meanwhile comes now, each as an event of its own."""
        self.frozen_ms, self.hung = None, False
        waiting, self._waiting = self._waiting, deque()
        for act in waiting:
            self.world.scheduler.after(0, lambda act=act: self.enter(act))  # type: ignore[misc]

    def resume(self) -> None:
        """After ``hang``."""
        Process.thaw(self)

    def kill(self) -> None:
        """End at once, without a word."""
        self.alive = False
        self._waiting.clear()
