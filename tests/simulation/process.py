"""A process: its events happen only while it lives, and wait while it is frozen."""

from collections import deque
from typing import TYPE_CHECKING

from kafka.future import Future

from tests.simulation.scheduler import Act, Timer

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


_STAGE: list["Process | None"] = [None]


def here() -> "Process":
    """The process that runs now, and that owns what is made now."""
    process = _STAGE[0]
    assert process is not None, "nothing runs outside of a process"
    return process


class Process:
    """``place`` is its machine, by which the network knows it, and whose wall clock it has.
    ``frozen_ms`` is since when nothing of it runs, or None while it runs.

    ``hung`` means that only its supervisor stands still; what runs beside it (tasks, watchdog) continues.
    """

    def __init__(self, simulation: "Simulation", name: str, place: str) -> None:
        self.simulation = simulation
        self.name = name
        self.place = place
        self.url = ""
        self.heard_ms = 0
        """When the newest request was sent that the broker has answered as a member's."""
        self.alive = True
        self.frozen_ms: int | None = None
        self.hung = False
        self._waiting: deque[Act] = deque()
        self._order_ms = 0

    def after(self, delay_ms: int, act: Act) -> Timer:
        return self.simulation.scheduler.after(delay_ms, lambda: self.enter(act))

    def hop(self, act: Act) -> None:
        """Pass from one thread to another: a little later, and in order."""
        simulation = self.simulation
        self._order_ms = max(self._order_ms, simulation.now_ms + simulation.draw_hop_ms())
        simulation.scheduler.at(self._order_ms, lambda: self.enter(act))

    def enter(self, act: Act) -> None:
        """Run ``act`` as this process: now, when it runs again, or never."""
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
        """Returns what its JoinGroup has to wait for; None for nothing."""
        return None

    def begin_join(self) -> None:
        """A JoinGroup goes out in this step."""

    def freeze(self) -> None:
        self.frozen_ms = self.simulation.now_ms

    def hang(self) -> None:
        self.hung = True

    def thaw(self) -> None:
        """Run again: events that have come meanwhile are delivered now, one by one."""
        self.frozen_ms, self.hung = None, False
        waiting, self._waiting = self._waiting, deque()
        for act in waiting:
            self.simulation.scheduler.after(0, lambda act=act: self.enter(act))  # type: ignore[misc]

    def resume(self) -> None:
        """Undo ``hang``."""
        Process.thaw(self)

    def kill(self) -> None:
        """End at once and silently."""
        self.alive = False
        self._waiting.clear()
