"""When the config log may be written without causing a rebalance; counts rounds that an offset forced. Pure.

A stock worker starts new items only when its config offset equals the assignment's; otherwise it starts
nothing and rejoins (docs/protocol.md, 6). Therefore own records wait from the JoinGroup of a round until all
members have applied its assignments. Rounds that are forced nevertheless are counted; only records of other
writers, which know nothing of our rounds, should cause any.
"""

from collections import deque
from collections.abc import Mapping

from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.model import Member

SETTLE_MS = 500
"""Members without new work write no status; by this time they have compared their offset."""
MOST_MS = 10_000
"""A worker that has written no status by this time hangs and is not waited for."""
LOOK_MS = 250
_OWN_WRITES = 256


class WriteWindow:
    """Lives for one tenure of the leader. ``forced``: rounds caused by own records; only grows."""

    def __init__(self, pending_starts: PendingStarts) -> None:
        self.forced = 0
        self._pending_starts = pending_starts
        self._joining = False
        self.is_behind = False
        """Members have read more than the leader can; no member starts anything in such a round."""
        self._any_stock = False
        self._offset: int | None = None
        self._generation = -1
        self._delivered_ms = 0
        self._look_at_ms = 0
        self._own: deque[tuple[int, int]] = deque(maxlen=_OWN_WRITES)

    def joining(self) -> None:
        """The leader's own JoinGroup is about to be sent, hence those of the others."""
        self._joining = True

    def wrote(self, count: int, offset: int) -> None:
        """``count`` own records are in the log, the last one before ``offset``."""
        self._own.append((offset - count, offset))

    def round(
        self,
        generation: int,
        members: tuple[Member, ...],
        offsets: Mapping[str, int],
        offset: int,
    ) -> None:
        """All members have joined. ``offsets``: theirs, by member id; ``offset``: the leader's."""
        self._joining = False
        self.is_behind = max(offsets.values(), default=-1) > offset
        self._any_stock = any(not member.is_agent for member in members)
        if self._was_forced(generation, offsets, members, offset):
            self.forced += 1
        self._offset = None

    def _was_forced(
        self, generation: int, offsets: Mapping[str, int], members: tuple[Member, ...], offset: int
    ) -> bool:
        highest = max(offsets.values(), default=-1)
        if highest > offset:
            return self._is_own(highest)
        if self._offset is None or generation != self._generation + 1:
            return False
        starting = self._pending_starts.starting
        return any(
            offsets.get(member.member_id, self._offset) != self._offset
            and not starting.isdisjoint(member.owned)
            and self._is_own(offsets[member.member_id])
            for member in members
            if not member.is_agent
        )

    def _is_own(self, offset: int) -> bool:
        return any(first < offset <= after for first, after in self._own)

    def delivered(self, generation: int, offset: int, now_ms: int) -> None:
        """The members have their assignments, which name ``offset``."""
        self._generation, self._offset, self._delivered_ms = generation, offset, now_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether a record may be written now."""
        if not self._any_stock or self.is_behind:
            return True
        if self._joining:
            return False
        since_ms = now_ms - self._delivered_ms
        return since_ms >= SETTLE_MS and not self._pending_starts.is_busy(MOST_MS, now_ms)

    def looks(self, now_ms: int) -> bool:
        """Whether to read the statuses now, for those of workers that start something."""
        if not self._pending_starts.starting or now_ms < self._look_at_ms:
            return False
        self._look_at_ms = now_ms + (LOOK_MS if self._pending_starts.is_busy(MOST_MS, now_ms) else MOST_MS)
        return True

    def next_ms(self, now_ms: int) -> list[int]:
        """Times (ms) at which an answer may change without an event."""
        times = [self._look_at_ms] if self._pending_starts.starting else []
        return [*times, self._delivered_ms + SETTLE_MS, *self._pending_starts.next_ms(MOST_MS)]
