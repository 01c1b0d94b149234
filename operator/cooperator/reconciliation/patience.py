"""New tasks that their members do not take up in time may go to others, since nobody has them.

A member is given new tasks only in answer to a report that has just arrived, since one that has reported
earlier may be frozen by now (``handle_report``). A task that is still to be given has no occupant. So another
target for it needs no proof, no fence and no acknowledgement, whatever its member does later.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from cooperator.model import TaskId
from cooperator.reconciliation.current import MemberState
from cooperator.reconciliation.group import ReconciledGroup

PATIENCE_MS: Final = 300
"""A member takes up new tasks in this time, or others may get them."""
PATIENCE_PER_MEMBER_MS: Final = 20
"""The same, for each further member that tasks wait for: a leader and a network need time for many."""
MEMBERS_PER_LATE_ONE: Final = 10
"""The part of a group that may be late at a time."""

_NONE: Final = frozenset[TaskId]()
_NOBODYS: Final[Mapping[str, frozenset[TaskId]]] = MappingProxyType({})


def ungiven(group: ReconciledGroup, identity: str) -> frozenset[TaskId]:
    """Return the tasks of a member's target that it was not given, and that nobody occupies."""
    member, target = group.members[identity], group.target_of(identity)
    current = member.current
    if current.state is MemberState.STABLE and current.member_epoch == target.epoch:
        return _NONE
    return frozenset(
        task for task in target.tasks if task not in current.assigned and task not in group.occupants
    )


def waits(
    until_ms: Mapping[str, int],
    group: ReconciledGroup,
    now_ms: int,
    own: Mapping[str, frozenset[TaskId]] = _NOBODYS,
) -> Mapping[str, int]:
    """Return until when (ms) new tasks wait for each member that they wait for.

    ``until_ms``: what this returned before. The more members tasks begin to wait for, the longer they do.
    ``own``: tasks that are not new, as they were held for a member that is back.
    """
    waiting = [i for i in group.members if ungiven(group, i) - own.get(i, _NONE)]
    patience_ms = PATIENCE_MS + PATIENCE_PER_MEMBER_MS * (len(waiting) - 1)
    return {identity: until_ms.get(identity, now_ms + patience_ms) for identity in waiting}


def late(until_ms: Mapping[str, int], group: ReconciledGroup, now_ms: int) -> frozenset[str]:
    """Return the members that have not taken up their new tasks in time.

    Nobody is late while tasks wait for more than a tenth of the members, apart from those that release tasks:
    then it is the leader or the network that is slow, and other targets would cost it more.
    """
    silent = [i for i in until_ms if group.members[i].current.state is not MemberState.UNREVOKED_TASKS]
    if len(silent) > max(1, len(group.members) // MEMBERS_PER_LATE_ONE):
        return frozenset()
    return frozenset(identity for identity, at_ms in until_ms.items() if at_ms <= now_ms)


def withdrawn(
    group: ReconciledGroup, slow: Collection[str], own: Mapping[str, frozenset[TaskId]] = _NOBODYS
) -> Mapping[str, frozenset[TaskId]]:
    """Return the tasks that need not wait for the members ``slow``; empty if there are no others to run
    them. ``own``: as in ``waits``."""
    if not group.members.keys() - frozenset(slow):
        return {}
    found = {i: ungiven(group, i) - own.get(i, _NONE) for i in slow if i in group.members}
    return {identity: tasks for identity, tasks in found.items() if tasks}
