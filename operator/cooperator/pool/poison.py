"""Finds, quarantines and pardons poison tasks, which kill the members that start them.

A task that was starting at ``poison_deaths`` deaths in a row, on any members, counts as the cause. One start
that its member survives clears it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.pool.memory import PoolMemory, Starting
from cooperator.pool.observed import GroupSeen


def watch(memory: PoolMemory, group: GroupSeen | None, crashed: Mapping[str, str], deaths: int) -> PoolMemory:
    """Count the deaths in ``crashed`` (incarnation per identity) against tasks that were starting there."""
    suspects = dict(memory.suspects)
    starting = dict(memory.starting)
    for identity, incarnation in sorted(crashed.items()):
        last = starting.pop(identity, None)
        if last is not None and last.incarnation == incarnation:
            for task in last.tasks:
                suspects[task] = suspects.get(task, 0) + 1
    if group is not None:
        for identity, member in group.members.items():
            last = starting.get(identity)
            if crashed.get(identity) == member.incarnation:
                continue
            if last is not None and last.incarnation == member.incarnation:
                # Quarantined tasks start nowhere, so they cannot be cleared by surviving.
                for task in last.tasks - member.starting - poisoned(memory, deaths):
                    suspects.pop(task, None)
            starting[identity] = Starting(member.incarnation, member.starting)
    # A member may leave the group before its host observes the death.
    starting = {i: s for i, s in starting.items() if i in memory.incarnations and s.tasks}
    return replace(memory, suspects=suspects, starting=starting)


def poisoned(memory: PoolMemory, deaths: int) -> frozenset[TaskId]:
    """Return the tasks in quarantine."""
    return frozenset(task for task, count in memory.suspects.items() if count >= deaths)


def pardon(memory: PoolMemory, tasks: Iterable[TaskId]) -> PoolMemory:
    """Let tasks start again, after their connector was changed or a user requested a restart."""
    cleared = frozenset(tasks)
    return replace(memory, suspects={t: n for t, n in memory.suspects.items() if t not in cleared})
