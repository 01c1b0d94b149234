"""When a leader reads the status log, and what it removes from it. Pure.

The log changes all the time but matters only when a member departs or items are removed, so it is read only
then.
"""

from collections.abc import Iterator

from cooperator.leader import events as ev
from cooperator.leader.leftovers import Leftovers
from cooperator.leader.starts import MemberIncarnation, Starts, lease_end_ms
from cooperator.leader.state import LeaderState


class StatusLogMaintenance:
    """One tenure's view of the status log. ``pause_ms``: pause between searches for leftovers."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self.clear()

    def clear(self) -> None:
        """Forget everything: another tenure begins."""
        self.starts = Starts()
        self.leftovers = Leftovers(self._pause_ms)

    def wanted(self, state: LeaderState, now_ms: int) -> ev.ReadStatuses | None:
        """The read to perform now; None if there is none."""
        over = frozenset(incarnation for incarnation, at_ms in self._ends(state) if at_ms <= now_ms)
        due = self.leftovers.due(state, now_ms)
        return ev.ReadStatuses(over, due) if over or due else None

    def take(self, event: ev.StatusesRead, state: LeaderState, now_ms: int) -> list[ev.Instruction]:
        self.starts.examine(event.incarnations, event.statuses)
        found = self.leftovers.find(event.statuses, state, now_ms) if event.leftovers else ()
        self.starts.forget(found)
        return [ev.ForgetStatuses(found)] if found else []

    def next_ms(self, state: LeaderState, now_ms: int) -> list[int]:
        """Times (ms) at which something may become wanted without an event."""
        later = [at_ms for _, at_ms in self._ends(state) if at_ms > now_ms]
        return [*later, *self.leftovers.next_ms(state, now_ms)]

    def _ends(self, state: LeaderState) -> Iterator[tuple[MemberIncarnation, int]]:
        """Departed incarnations that may have started assigned tasks, and when (ms) they are over."""
        present = {(member.identity, member.incarnation) for member in state.members}
        for incarnation in self.starts.incarnations:
            if incarnation in state.facts.ended:
                yield incarnation, 0
            elif incarnation not in present:
                at_ms = lease_end_ms(incarnation, state.memory, state.policy)
                if at_ms is not None:
                    yield incarnation, at_ms
