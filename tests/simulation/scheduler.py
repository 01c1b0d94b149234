"""Simulated time: one heap of events, and nothing else that moves."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Act = Callable[[], None]

START_MS = 1_000_000_000


@dataclass(slots=True)
class Timer:
    """A handle to cancel an event."""

    act: Act | None

    def cancel(self) -> None:
        self.act = None


@dataclass(slots=True)
class Scheduler:
    """Events in order of their time, and of their creation at equal times. Milliseconds."""

    now_ms: int = START_MS
    steps: int = 0
    _made: int = 0
    _heap: list[tuple[int, int, Timer]] = field(default_factory=list)

    def at(self, at_ms: int, act: Act) -> Timer:
        """Run ``act`` at ``at_ms``, or now if that is over."""
        timer = Timer(act)
        self._made += 1
        heapq.heappush(self._heap, (max(at_ms, self.now_ms), self._made, timer))
        return timer

    def after(self, delay_ms: int, act: Act) -> Timer:
        return self.at(self.now_ms + delay_ms, act)

    def step(self, until_ms: int) -> bool:
        """Run the next event due by ``until_ms``. Without one, advance to that time and return False."""
        while self._heap and self._heap[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._heap)
            if timer.act is None:
                continue
            self.now_ms = at_ms
            self.steps += 1
            act, timer.act = timer.act, None
            act()
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False
