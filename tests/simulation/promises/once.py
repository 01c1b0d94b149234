"""Promise 1: no task runs twice.

It is measured at the members: a copy of a task runs from the moment at which its start is requested until
nothing of it runs any more; a stopping copy runs. The same holds for the units that tasks are made of.

A machine that stands still might run on at any moment, and may do so until its lease ends and its watchdog's
time is over. So its copies count until then. Afterwards they do not count, and are *stale* for good: if the
machine wakes up, its watchdog ends it at once, and whatever it writes before that is older (by epoch) than
what runs elsewhere, so that a sink refuses it.

Decision 012 leaves one case: a leader without its broker, and all members of its round with it, confirm each
other's leases, while another leader, who was in none of that, has been elected elsewhere and has waited for a
lease and a margin. There the sinks' epochs remain as protection, and these are checked.

A stock worker has no lease. The tasks that it runs while it is out of touch with the broker, and until it
has to stop them afterwards, are up to Kafka's protocol (see the table of guarantees) and are not counted.
Nor is what a stock worker gives away while it leads, if the member that runs it is not in its round: it
knows no leases. A stock worker's writes have no epoch, so no order of epochs is checked beside it. And stock
workers stop tasks with new configurations themselves, each when it reads of them: two such tasks may share a
unit for that long.
"""

from itertools import combinations
from typing import TYPE_CHECKING

from tests.simulation.promises.base import Promise
from tests.simulation.tasks import Copy

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

STALE_MS = 100
"""Time that a machine that woke up too late may take to notice."""


class NoTaskRunsTwice(Promise):
    def __init__(self, simulation: "Simulation") -> None:
        super().__init__(simulation)
        self._doubled: list[tuple[Copy, Copy]] = []
        self._stale_since_ms: dict[int, int] = {}

    def check(self) -> None:
        simulation = self.simulation
        if simulation.sleepers:
            self._mark_stale()
        if simulation.copies.changed:
            simulation.copies.changed = False
            self._doubled = self._pairs()
        for one, other in self._doubled:
            self._judge(one, other)

    def _pairs(self) -> list[tuple[Copy, Copy]]:
        pairs = [
            pair
            for copies in self.simulation.copies.by_task.values()
            if len(copies) > 1
            for pair in combinations(copies, 2)
        ]
        by_unit: dict[str, Copy] = {}
        for copy in self.simulation.copies.all():
            for unit in copy.units:
                other = by_unit.setdefault(unit, copy)
                if other is not copy and other.task != copy.task:
                    pairs.append((other, copy))
        return pairs

    def _judge(self, one: Copy, other: Copy) -> None:
        if any(copy.stale and copy.member.is_stock for copy in (one, other)) or self._is_kafkas(one, other):
            return
        if one.task != other.task and one.member.is_stock and other.member.is_stock:
            return
        if one.stale or other.stale:
            stale, live = (one, other) if one.stale else (other, one)
            if live.member.is_stock:
                # Its writes carry no epoch, so the only requirement is that the sleeper ends at once.
                return
            if not live.stale and not (stale.epoch or (0, 0)) < (live.epoch or (0, 0)):
                raise self.broken(f"a sink could not tell {stale}, which woke up too late, from {live}")
            return
        now_ms = self.simulation.now_ms
        if one.member.counts(now_ms) and other.member.counts(now_ms):
            what = f"{one.task} runs twice" if one.task == other.task else "a unit runs twice"
            raise self.broken(f"{what}: {one}; {other}")

    def _is_kafkas(self, one: Copy, other: Copy) -> bool:
        """Whether a stock worker that led gave the one away without seeing the other one's member."""
        for given, unseen in ((one, other), (other, one)):
            seen = None if given.epoch is None else self.simulation.led_by_stock.get(given.epoch.generation)
            if seen is not None and unseen.member.name not in seen and given.since_ms >= unseen.since_ms:
                return True
        return False

    def _mark_stale(self) -> None:
        now_ms = self.simulation.now_ms
        for member in list(self.simulation.sleepers):
            if not member.alive or member.is_stock:
                self.simulation.sleepers.remove(member)
            elif member.frozen_ms is None:
                copies = member.copies()
                if not any(copy.stale for copy in copies):
                    self.simulation.sleepers.remove(member)
                elif now_ms > member.woke_ms + STALE_MS:
                    raise self.broken(f"{member.name} woke up after the end of its lease and runs on")
            elif not member.counts(now_ms):
                for copy in member.copies():
                    copy.stale = True
