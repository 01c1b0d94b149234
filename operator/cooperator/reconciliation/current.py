"""The current assignment of one member, and its next step towards the target.

Source: ``CurrentAssignmentBuilder`` of Kafka 4.3's consumer groups; a test compares both, step by step.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model import TaskId


class MemberState(StrEnum):
    """The state of a member on its way to its target. The names are those of KIP-1071, Kafka's group of
    tasks."""

    STABLE = "STABLE"
    """The member has its target."""
    UNREVOKED_TASKS = "UNREVOKED_TASKS"
    """The member must release tasks before it can reach the next epoch."""
    UNRELEASED_TASKS = "UNRELEASED_TASKS"
    """The member has reached the epoch of its target, and waits for tasks that others have not released."""


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The tasks that a member may run, and those that it must release.

    ``assigned`` and ``pending_revocation`` map each task to the member epoch at which it was assigned here.
    ``previous_member_epoch``: the epoch before the last step.
    """

    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TaskId, int] = field(default_factory=dict)
    pending_revocation: Mapping[TaskId, int] = field(default_factory=dict)

    @property
    def occupied(self) -> frozenset[TaskId]:
        """The tasks that no other member may run."""
        return frozenset(self.assigned) | frozenset(self.pending_revocation)


def next_assignment(
    current: CurrentAssignment,
    target: frozenset[TaskId],
    target_epoch: int,
    owned: Collection[TaskId] | None,
    is_occupied: Callable[[TaskId], bool],
) -> CurrentAssignment:
    """Return the step of a member towards ``target``; the same object if it cannot step.

    ``owned``: the tasks that the member has not released, as far as it says; None: it does not say.
    ``is_occupied``: whether any member has, or may still have, the task.

    * STABLE: the member steps when ``target_epoch`` is not its epoch.
    * UNREVOKED_TASKS: it steps once it owns nothing of what is pending revocation.
    * UNRELEASED_TASKS: it steps always, which gives it what was released in the meantime.

    A step first revokes: while the member owns a task outside of the target, it stays at its epoch and gets
    nothing new. Otherwise, it reaches ``target_epoch`` with all of the target that is free.
    """
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch == target_epoch:
                return current
        case MemberState.UNREVOKED_TASKS:
            if _owns_any(owned, current.pending_revocation):
                return current
    kept = {task: epoch for task, epoch in current.assigned.items() if task in target}
    revoked = {task: epoch for task, epoch in current.assigned.items() if task not in target}
    if revoked and _owns_any(owned, revoked):
        return CurrentAssignment(
            current.member_epoch, current.member_epoch, MemberState.UNREVOKED_TASKS, kept, revoked
        )
    missing = target.difference(kept)
    # The member itself occupies tasks that are pending revocation here, and has just released them.
    free = {t for t in missing if t in current.pending_revocation or not is_occupied(t)}
    return CurrentAssignment(
        target_epoch,
        current.member_epoch,
        MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_TASKS,
        {**kept, **dict.fromkeys(sorted(free), target_epoch)},
    )


def _owns_any(owned: Collection[TaskId] | None, tasks: Mapping[TaskId, int]) -> bool:
    return owned is None or any(task in tasks for task in owned)
