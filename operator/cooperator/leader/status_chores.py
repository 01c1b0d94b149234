"""What a leader reads the status log for, and what it removes from it. Pure.

The log changes all the time, and it matters only when a member departs or items go: so it is read then.
"""

from collections.abc import Iterator

from cooperator.leader import events as ev
from cooperator.leader.leftovers import Leftovers
from cooperator.leader.starts import Life, Starts, lease_end_ms
from cooperator.leader.state import LeaderState


class StatusChores:
    """One tenure's knowledge of the status log. ``pause_ms``: between looks for leftovers."""

    def __init__(self, pause_ms: int) -> None:
        self.starts = Starts()
        self.leftovers = Leftovers(pause_ms)

    def wanted(self, state: LeaderState, now_ms: int) -> ev.ReadStatuses | None:
        """What to read now."""
        over = frozenset(life for life, at_ms in self._ends(state) if at_ms <= now_ms)
        due = self.leftovers.due(state, now_ms)
        return ev.ReadStatuses(over, due) if over or due else None

    def take(self, event: ev.StatusesRead, state: LeaderState, now_ms: int) -> list[ev.Instruction]:
        self.starts.examine(event.lives, event.statuses)
        found = self.leftovers.find(event.statuses, state, now_ms) if event.leftovers else ()
        self.starts.forget(found)
        return [ev.ForgetStatuses(found)] if found else []

    def next_ms(self, state: LeaderState, now_ms: int) -> list[int]:
        """When (ms) time alone may make something wanted."""
        later = [at_ms for _, at_ms in self._ends(state) if at_ms > now_ms]
        return [*later, *self.leftovers.next_ms(state, now_ms)]

    def _ends(self, state: LeaderState) -> Iterator[tuple[Life, int]]:
        """Lives that are gone and may have started what they were given; when (ms) they are over."""
        present = {(member.identity, member.incarnation) for member in state.members}
        for life in self.starts.lives:
            if life in state.facts.ended:
                yield life, 0
            elif life not in present:
                at_ms = lease_end_ms(life, state.memory, state.policy)
                if at_ms is not None:
                    yield life, at_ms
