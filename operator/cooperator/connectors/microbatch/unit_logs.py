"""The parts that loops of files and of tables share: their units are logs of their own."""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cooperator.connectors.microbatch.batches import Owned, Stand, UnitOwnership
from cooperator.connectors.microbatch.ranges import Partition, has_news

TakeOver = Callable[[Sequence[str]], Mapping[str, Stand]]
"""Returns the positions that earlier releases have left of units, and ends their writers for good."""


class UnitLogs(Protocol):
    """The logs of a task's units, by name in ``units``."""

    units: dict[Partition, str]

    def reach(self, positions: Mapping[Partition, int]) -> None:
        """Notes that the sink has everything before these offsets."""

    def ends(self) -> dict[Partition, int]:
        """Returns the ends that are known."""


class LogEnds(ABC):
    """The ends of a task's logs, as its loop waits for them (compare ``microbatch.ends.Subscription``).

    Looks are made once in an interval. ``wait`` is for one thread; ``close`` may be called by any.
    """

    topic_ids: Mapping[str, str] = {}

    def __init__(
        self, logs: UnitLogs, interval_ms: int, say: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        """``clock`` returns seconds."""
        self._unit_logs = logs
        self._interval_s = interval_ms / 1000
        self._say = say
        self._clock = clock
        self._closed = threading.Event()
        self._due_s = 0.0
        self._said = ""
        self.ends: Mapping[Partition, int] = {}
        self.troubles: Mapping[Partition, str] = {}

    def restart(self) -> None:
        """The next ``wait`` looks."""
        self._due_s = 0.0

    def wait(
        self,
        positions: Mapping[Partition, int],
        ids: Mapping[Partition, str] = {},
        until_s: float = math.inf,
    ) -> Mapping[Partition, int]:
        """Returns the ends of the logs when there is something to read, and after ``until_s`` (monotonic);
        empty when it was closed."""
        self._unit_logs.reach(positions)
        while not self._closed.is_set():
            next_s = self._look(positions)
            self.ends = self._unit_logs.ends()
            left_s = until_s - time.monotonic()
            if has_news(positions, self.ends) or left_s <= 0:
                return self.ends
            self.pause(max(0.0, min(next_s - self._clock(), left_s)))
        return {}

    def pause(self, wait_s: float) -> None:
        """Waits until the next look is due, or it is closed."""
        self._closed.wait(wait_s)

    def close(self) -> None:
        """Ends ``wait``, and a look that is under way."""
        self._closed.set()
        self._interrupt()

    @abstractmethod
    def _look(self, positions: Mapping[Partition, int]) -> float:
        """Adds what is there to the logs, if a look is due; returns when (s) the next one is."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Ends a look that is under way."""

    def _tell(self, said: str) -> None:
        """Says what is waited for, once; empty: nothing any more."""
        if said != self._said:
            self._said = said
            self._say(said)


class LogUnits(ABC):
    """Claims of units whose positions are offsets of their logs, over those of ``inner``."""

    def __init__(self, inner: UnitOwnership, logs: UnitLogs, taken_over: TakeOver) -> None:
        self._inner = inner
        self._unit_logs = logs
        self._taken_over = taken_over
        self._earlier: Mapping[Partition, Stand] | None = None

    def claim(self) -> Owned:
        return self._settled(self._inner.claim())

    def recover(self) -> Owned:
        return self._settled(self._inner.recover())

    @abstractmethod
    def _begin(self, positions: Mapping[Partition, Stand]) -> None:
        """Brings the logs to these positions; units without one are at their beginning."""

    def _settled(self, owned: Owned) -> Owned:
        if self._earlier is None:
            missing = {
                unit: each for each, unit in self._unit_logs.units.items() if each not in owned.positions
            }
            found = self._taken_over(list(missing)) if missing else {}
            # They count until a batch has committed another one.
            self._earlier = {missing[unit]: stand for unit, stand in found.items()}
        positions = {**self._earlier, **owned.positions}
        self._begin(positions)
        return Owned(positions, owned.session)
