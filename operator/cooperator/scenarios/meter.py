"""Measures a simulated group, by the definitions of the vectors' metrics."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from cooperator.model import TaskId
from cooperator.scenarios.workers import Process

HAND_OVER_MS: Final = 1_000
"""The least cost of the stop and the start of a running item, under every policy, where no scenario has a
``rejoin_ms``, the time from a revocation to the round that assigns the item elsewhere."""


@dataclass(slots=True)
class RoundCounts:
    """The counts of one kind: tasks, or connector instances.

    ``unassigned_ms`` is the vectors' measure, in which a stop takes no time. ``down_ms`` is the same, but an
    item that a living member stops is down for ``Meter.hand_over_ms`` at least.
    """

    revocations: int = 0
    revocations_of_configured: int = 0
    starts: int = 0
    stops: int = 0
    lost_with_worker: int = 0
    moves: int = 0
    moves_by_pod: int = 0
    unassigned_ms: int = 0
    down_ms: int = 0


@dataclass(slots=True)
class Meter:
    """Tracks every item: its last member, since when it is unassigned, and how many copies of it run.

    ``moves`` counts starts on another member id than the last, ``moves_by_pod`` on another pod.
    """

    hand_over_ms: int = HAND_OVER_MS
    tasks: RoundCounts = field(default_factory=RoundCounts)
    instances: RoundCounts = field(default_factory=RoundCounts)
    configured: frozenset[TaskId] = frozenset()
    last_change_ms: int = 0
    duplicate_task_ms: int = 0
    longest_ms: int = 0
    longest_down_ms: int = 0
    copies: dict[TaskId, int] = field(default_factory=dict)
    changed_ms: dict[TaskId, int] = field(default_factory=dict)
    unassigned_since_ms: dict[TaskId, int] = field(default_factory=dict)
    last_member: dict[TaskId, tuple[str, int]] = field(default_factory=dict)
    stopped: set[TaskId] = field(default_factory=set)
    """Those unassigned since a living member has stopped them."""

    def of(self, item: TaskId) -> RoundCounts:
        return self.instances if item.is_instance else self.tasks

    def configure(self, items: frozenset[TaskId], now_ms: int) -> None:
        """Set the configured ``items`` from now on."""
        for item in self.configured - items:
            self._end_wait(item, now_ms)
        created = items - self.configured
        self.configured = items
        for item in created:
            if not self.copies.get(item):
                self.unassigned_since_ms[item] = now_ms

    def starts(self, process: Process, items: Iterable[TaskId], now_ms: int) -> None:
        for item in items:
            counts, last = self.of(item), self.last_member.get(item)
            counts.starts += 1
            counts.moves += last is not None and last[0] != process.member_id
            counts.moves_by_pod += last is not None and last[1] != process.pod
            self.last_member[item] = (process.member_id, process.pod)
            self.appears(item, now_ms)
            self.last_change_ms = now_ms

    def appears(self, item: TaskId, now_ms: int) -> None:
        """Record that a copy of ``item`` runs from now on."""
        self._end_wait(item, now_ms)
        self._copies(item, 1, now_ms)

    def stops(self, items: Iterable[TaskId], now_ms: int) -> None:
        for item in items:
            self.of(item).stops += 1
            self._disappears(item, now_ms)
            if item in self.unassigned_since_ms:
                self.stopped.add(item)

    def dies(self, process: Process, now_ms: int) -> None:
        """Record the end of a process, with everything that it runs."""
        for item in process.running:
            self.of(item).lost_with_worker += 1
            self._disappears(item, now_ms)

    def revokes(self, items: Iterable[TaskId]) -> None:
        """Record that a revocation is sent, whether it is delivered or not."""
        for item in items:
            counts = self.of(item)
            counts.revocations += 1
            counts.revocations_of_configured += item in self.configured

    def stops_before_joining(self, process: Process, now_ms: int) -> None:
        """Record that a worker stops everything on its own, under the eager protocol."""
        for item in process.running:
            self.of(item).revocations += 1
        self.stops(process.running, now_ms)

    def finish(self, end_ms: int) -> None:
        for item in list(self.unassigned_since_ms):
            self._end_wait(item, end_ms)
        for item in self.copies:
            self._copies(item, 0, end_ms)

    def _disappears(self, item: TaskId, now_ms: int) -> None:
        self._copies(item, -1, now_ms)
        if not self.copies[item] and item in self.configured:
            self.unassigned_since_ms[item] = now_ms
        self.last_change_ms = now_ms

    def _copies(self, item: TaskId, by: int, now_ms: int) -> None:
        count = self.copies.get(item, 0)
        if count > 1 and not item.is_instance:
            self.duplicate_task_ms += (count - 1) * (now_ms - self.changed_ms[item])
        self.copies[item] = count + by
        self.changed_ms[item] = now_ms

    def _end_wait(self, item: TaskId, now_ms: int) -> None:
        since_ms = self.unassigned_since_ms.pop(item, now_ms)
        waited_ms = down_ms = now_ms - since_ms
        if item in self.stopped:
            self.stopped.discard(item)
            down_ms = max(waited_ms, self.hand_over_ms)
        self.of(item).unassigned_ms += waited_ms
        self.of(item).down_ms += down_ms
        if not item.is_instance:
            self.longest_ms = max(self.longest_ms, waited_ms)
            self.longest_down_ms = max(self.longest_down_ms, down_ms)
