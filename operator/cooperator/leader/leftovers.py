"""Statuses of items that no longer exist: which to forget, and when to look for them. Pure.

    left over = in the status log − configured − in use
    in use    = reported by a member ∪ possibly still running at an incarnation that was told to stop it

Kafka Connect's leader does the same after each round (docs/protocol.md, section 9). A member's last status
may arrive after its tombstone, so the search is repeated until it has found nothing twice: the tombstone may
be of a leader before.
"""

from collections.abc import Mapping

from cooperator.leader import absences
from cooperator.leader.state import LeaderState
from cooperator.model import ClusterConfig, TaskId, TaskStatus


class Leftovers:
    """Tracks whether there may be any. ``look_at_ms``: the earliest time (ms) of the next search."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._counts: Mapping[str, int] = {}
        self.suspected = True
        self._was_clean = False
        """Whether the last search has found nothing."""
        self.look_at_ms = 0

    def configured(self, counts: Mapping[str, int]) -> None:
        """Note the current number of tasks of every connector."""
        before, self._counts = self._counts, counts
        if before is not counts and any(counts.get(name, -1) < count for name, count in before.items()):
            self.suspected, self._was_clean = True, False

    def due(self, state: LeaderState, now_ms: int) -> bool:
        """Whether to read the status log now; not while a member still has to release items."""
        return self.suspected and now_ms >= self.look_at_ms and not _in_use(state, now_ms)

    def next_ms(self, state: LeaderState, now_ms: int) -> list[int]:
        """Times (ms) at which it may become due without an event."""
        if not self.suspected:
            return []
        ends = (absences.over_ms(entry, state.policy) for entry in state.memory.unstopped)
        return [at_ms for at_ms in (self.look_at_ms, *ends) if at_ms > now_ms]

    def find(
        self, statuses: Mapping[TaskId, TaskStatus], state: LeaderState, now_ms: int
    ) -> tuple[TaskId, ...]:
        """The items whose statuses are to be forgotten now."""
        unneeded = {
            task
            for task, status in statuses.items()
            if not _is_configured(state.config, task) and not _is_of_a_later_leader(status, state)
        }
        found = unneeded - _in_use(state, now_ms)
        self.suspected = bool(unneeded) or not self._was_clean
        self._was_clean = not unneeded
        if found or not unneeded:
            self.look_at_ms = now_ms + self._pause_ms
        return tuple(sorted(found))


def _in_use(state: LeaderState, now_ms: int) -> frozenset[TaskId]:
    """Items that are not configured but run, or may run, somewhere."""
    held = [task for member in state.members for task in member.owned]
    held += [] if state.group is None else state.group.occupants
    held += [
        task
        for entry in state.memory.unstopped
        if entry.gone_since_ms is not None
        and absences.may_run(entry, state.facts.ended, state.policy, now_ms)
        for task in entry.tasks
    ]
    return frozenset(task for task in held if not _is_configured(state.config, task))


def _is_of_a_later_leader(status: TaskStatus, state: LeaderState) -> bool:
    """Whether somebody else leads by now, who may know connectors that are unknown here."""
    return status.epoch is not None and status.epoch.term > state.memory.term


def _is_configured(config: ClusterConfig, task: TaskId) -> bool:
    connector = config.connectors.get(task.connector)
    if connector is None:
        return False
    # An inconsistent set of tasks will become complete again.
    return task.is_instance or connector.inconsistent or task.task < connector.task_count
