"""When the config log may be written to without a round for it; and rounds that an offset forced. Pure.

A stock worker starts what is new only when its config offset is just the assignment's; else it starts
nothing and joins again (protocol notes, 6). So own records wait from the JoinGroup of a round until
everybody has taken up what it brought. Rounds that are forced all the same are counted: there should be none
but by records of others, who know nothing of our rounds.
"""

from collections import deque
from collections.abc import Mapping

from cooperator.leader.uptake import Uptake
from cooperator.model import Member

SETTLE_MS = 500
"""Who has nothing new says nothing: by then it has compared its offset."""
MOST_MS = 10_000
"""What has not said a word by then hangs, and nobody waits for it."""
LOOK_MS = 250
_OWN_WRITES = 256


class Quiet:
    """Of one tenure of the lead. ``forced``: how many rounds an own record has cost; only grows."""

    def __init__(self, uptake: Uptake) -> None:
        self.forced = 0
        self._uptake = uptake
        self._joining = False
        self.is_behind = False
        """Members have read more than the leader can: such a round starts nothing anywhere."""
        self._any_stock = False
        self._offset: int | None = None
        self._generation = -1
        self._delivered_ms = 0
        self._look_at_ms = 0
        self._own: deque[tuple[int, int]] = deque(maxlen=_OWN_WRITES)

    def joining(self) -> None:
        """The leader's own JoinGroup is about to be sent, so the others' are."""
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
        """All members have joined; ``offsets``: what they have read, by member id; ``offset``: the leader."""
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
        starting = self._uptake.starting
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
        """The members have their shares, which name ``offset``."""
        self._generation, self._offset, self._delivered_ms = generation, offset, now_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether a record may be written now."""
        if not self._any_stock or self.is_behind:
            return True
        if self._joining:
            return False
        since_ms = now_ms - self._delivered_ms
        return since_ms >= SETTLE_MS and not self._uptake.is_busy(MOST_MS, now_ms)

    def looks(self, now_ms: int) -> bool:
        """Whether to look at the statuses now, for words of those who start something."""
        if not self._uptake.starting or now_ms < self._look_at_ms:
            return False
        self._look_at_ms = now_ms + (LOOK_MS if self._uptake.is_busy(MOST_MS, now_ms) else MOST_MS)
        return True

    def next_ms(self, now_ms: int) -> list[int]:
        """When (ms) time alone may change an answer."""
        times = [self._look_at_ms] if self._uptake.starting else []
        return [*times, self._delivered_ms + SETTLE_MS, *self._uptake.next_ms(MOST_MS)]
