"""Tasks that kill whoever starts them: found, quarantined, pardoned.

A task that was starting at ``poison_deaths`` deaths in a row, on whichever members, is taken to be the
cause. One start that its member survives clears it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.pool.memory import PoolMemory, Starting
from cooperator.pool.observed import GroupSeen


def watch(memory: PoolMemory, group: GroupSeen | None, crashed: Mapping[str, str], deaths: int) -> PoolMemory:
    """Count the deaths in ``crashed`` (identity to incarnation) against what was starting in those lives."""
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
                # What is in quarantine starts nowhere: that clears nobody.
                for task in last.tasks - member.starting - poisoned(memory, deaths):
                    suspects.pop(task, None)
            starting[identity] = Starting(member.incarnation, member.starting)
    # The group may miss a member before its host sees the death.
    starting = {i: s for i, s in starting.items() if i in memory.lives and s.tasks}
    return replace(memory, suspects=suspects, starting=starting)


def poisoned(memory: PoolMemory, deaths: int) -> frozenset[TaskId]:
    """The tasks in quarantine."""
    return frozenset(task for task, count in memory.suspects.items() if count >= deaths)


def pardon(memory: PoolMemory, tasks: Iterable[TaskId]) -> PoolMemory:
    """Let tasks start again: their connector was changed, or somebody asked for a restart."""
    cleared = frozenset(tasks)
    return replace(memory, suspects={t: n for t, n in memory.suspects.items() if t not in cleared})
