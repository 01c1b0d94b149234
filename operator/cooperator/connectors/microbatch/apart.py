"""The units of a task that are tried apart from the others, or wait for their next try."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cooperator.connectors.base import ServiceAway
from cooperator.connectors.microbatch.ranges import Partition

_AGAIN_S: Final = (5.0, 5.0, 5.0, 5.0, 10.0, 20.0, 30.0)
"""The times until a unit is tried again, after so many failures in succession."""
_MOST: Final = 8
"""When so many units have failed alone, and none got through before, it is the task that fails."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A unit that failed alone, and is tried again at ``until_s`` (monotonic)."""

    error: Exception
    until_s: float
    failures: int


@dataclass(slots=True)
class Apart:
    """For one thread; ``aside`` may be read by any."""

    aside: dict[Partition, Aside] = field(default_factory=dict)
    _groups: deque[frozenset[Partition]] = field(default_factory=deque)
    _has_through: bool = False

    @property
    def due_s(self) -> float:
        """When the next unit that was set aside is tried again (monotonic)."""
        return min((each.until_s for each in self.aside.values()), default=math.inf)

    def split(self, units: Sequence[Partition]) -> None:
        """Lets units that failed together be tried in two groups."""
        half = len(units) // 2
        self._groups += [frozenset(units[:half]), frozenset(units[half:])]

    def set_aside(self, unit: Partition, error: Exception, now_s: float) -> None:
        failures = self.aside[unit].failures + 1 if unit in self.aside else 1
        tries = 1 if isinstance(error, ServiceAway) else failures
        wait_s = _AGAIN_S[min(tries, len(_AGAIN_S)) - 1]
        self.aside = {**self.aside, unit: Aside(error, now_s + wait_s, failures)}

    def waits(self, unit: Partition) -> bool:
        """Whether it was set aside since it needs a service that is away."""
        return unit in self.aside and isinstance(self.aside[unit].error, ServiceAway)

    def are_all(self, units: Collection[Partition]) -> bool:
        """Whether no unit of these is left that could get through; one that waits for a service could."""
        failed = {unit for unit in self.aside if not self.waits(unit)}
        hopeless = len(failed) >= _MOST and not self._has_through
        return hopeless or failed >= set(units)

    def active(self, positions: Mapping[Partition, int], now_s: float) -> dict[Partition, int]:
        """Returns the positions of units that are not set aside, or due again."""
        aside = {unit for unit, each in self.aside.items() if each.until_s > now_s}
        return {unit: at for unit, at in positions.items() if unit not in aside}

    def next(self, active: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Collection[Partition]:
        """Returns the units of the next batch: those of one group, or one that is due again, or all others.

        Those that wait for a service are tried together, as it is mostly one. A group, or a unit, without
        anything to read is passed over.
        """

        def has_more(unit: Partition) -> bool:
            return unit in active and ends.get(unit, active[unit]) != active[unit]

        while self._groups:
            group = self._groups.popleft()
            if any(map(has_more, group)):
                return group & active.keys()
        due = sorted(self.aside.keys() & active.keys())
        waiting = [unit for unit in due if self.waits(unit) and has_more(unit)]
        if waiting:
            return waiting
        for unit in due:
            if has_more(unit):
                return (unit,)
            if unit in ends:
                self.succeeded((unit,))
        return active.keys()

    def succeeded(self, units: Iterable[Partition]) -> None:
        """Units that got through are as all others again."""
        through = set(units)
        self._has_through = self._has_through or bool(through)
        if through & self.aside.keys():
            self.aside = {unit: each for unit, each in self.aside.items() if unit not in through}
