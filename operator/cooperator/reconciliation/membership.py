"""Joins, departures, proofs and new targets: what changes a group beside the reports of its members.

None of these changes what a present member runs: that only its own next report does.
"""

from collections.abc import Mapping, Set
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.reconciliation.group import Fence, ReconciledGroup, ReconciledMember, TargetAssignment


def join(
    group: ReconciledGroup, identity: str, incarnation: str, now_ms: int, fence_ms: int
) -> ReconciledGroup:
    """Return the group with this incarnation as a member.

    An incarnation that is fenced continues with what it had. Another incarnation of the identity departs, as
    in ``depart``.
    """
    present = group.members.get(identity)
    if present is not None:
        if present.incarnation == incarnation:
            return group
        group = depart(group, identity, now_ms, fence_ms)
    fences = dict(group.fences)
    fence = fences.pop((identity, incarnation), None)
    member = ReconciledMember(identity, incarnation) if fence is None else fence.member
    members = {**group.members, identity: member}
    return replace(group, epoch=group.epoch + 1, members=members, fences=fences)


def depart(group: ReconciledGroup, identity: str, now_ms: int, fence_ms: int) -> ReconciledGroup:
    """Return the group without this member, and with a fence for ``fence_ms`` around what it may still run.

    Its target stays until the next ``retarget``, which may hold it. Raises KeyError if it is not a member.
    """
    members, fences = dict(group.members), dict(group.fences)
    member = members.pop(identity)
    if member.current.occupied:
        fences[identity, member.incarnation] = Fence(member, now_ms + fence_ms)
    return replace(group, epoch=group.epoch + 1, members=members, fences=fences)


def end(group: ReconciledGroup, identity: str, incarnation: str) -> ReconciledGroup:
    """Return the group after the proven end of an incarnation, which frees all that it had."""
    member = group.members.get(identity)
    if member is not None and member.incarnation == incarnation:
        group = depart(group, identity, now_ms=0, fence_ms=0)
    return _without_fences(group, {(identity, incarnation)} & group.fences.keys())


def expire(group: ReconciledGroup, now_ms: int) -> ReconciledGroup:
    """Return the group without fences whose time has passed."""
    return _without_fences(group, {key for key, fence in group.fences.items() if fence.until_ms <= now_ms})


def retarget(group: ReconciledGroup, layout: Mapping[str, frozenset[TaskId]]) -> ReconciledGroup:
    """Return the group with ``layout`` (tasks by identity) as its targets; the same object if nothing
    changes.

    Identities that are no members may have a target: their tasks are held for them. Members that ``layout``
    does not name get an empty one. Raises ValueError if it gives a task to two identities.
    """
    if sum(map(len, layout.values())) != len(frozenset[TaskId]().union(*layout.values())):
        raise ValueError("the layout gives a task to two identities; give each task to one")
    epoch = max(group.epoch, group.assignment_epoch + 1)
    targets = {}
    for identity in sorted(layout.keys() | group.members.keys()):
        tasks, target = layout.get(identity, frozenset()), group.targets.get(identity)
        targets[identity] = (
            target if target is not None and target.tasks == tasks else TargetAssignment(epoch, tasks)
        )
    if targets == group.targets and group.epoch == group.assignment_epoch:
        return group
    return replace(group, epoch=epoch, assignment_epoch=epoch, targets=targets)


def _without_fences(group: ReconciledGroup, ended: Set[tuple[str, str]]) -> ReconciledGroup:
    if not ended:
        return group
    fences = {key: fence for key, fence in group.fences.items() if key not in ended}
    occupants = {task: by for task, by in group.occupants.items() if by not in ended}
    return replace(group, fences=fences, occupants=occupants)
