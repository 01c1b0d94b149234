"""The group as a frozen value: its epochs, the targets, the members and the fences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cooperator.model import TaskId
from cooperator.reconciliation.current import CurrentAssignment, MemberState


class BrokenInvariant(Exception):
    """A group is inconsistent."""


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """The tasks that a member is to run. ``epoch``: the assignment epoch at which they last changed."""

    epoch: int
    tasks: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class ReconciledMember:
    """A member of the group.

    ``sequence``: the number of the newest report that counted. ``revoke_by_ms``: when (ms since the epoch)
    the member is overdue, if it is to release tasks.
    """

    identity: str
    incarnation: str
    sequence: int = 0
    current: CurrentAssignment = field(default_factory=CurrentAssignment)
    revoke_by_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A departed incarnation that may still run its tasks, as it was last known.

    ``until_ms``: when (ms since the epoch) its lease and a margin have certainly passed. If it comes back
    earlier, it continues with what it has.
    """

    member: ReconciledMember
    until_ms: int

    @property
    def tasks(self) -> frozenset[TaskId]:
        return self.member.current.occupied


@dataclass(frozen=True, slots=True)
class ReconciledGroup:
    """The state of a reconciled group.

    ``term``: how often the lead was taken, as in ``Memory``. Epochs are compared within and across terms.
    ``targets`` may name identities that are absent: their tasks are held for them. ``occupants``: for each
    task that is assigned, pending revocation or fenced, the incarnation that may run it; it is derived from
    members and fences.
    """

    term: int = 0
    epoch: int = 0
    assignment_epoch: int = 0
    targets: Mapping[str, TargetAssignment] = field(default_factory=dict)
    members: Mapping[str, ReconciledMember] = field(default_factory=dict)
    fences: Mapping[tuple[str, str], Fence] = field(default_factory=dict)
    occupants: Mapping[TaskId, tuple[str, str]] = field(default_factory=dict)

    def target_of(self, identity: str) -> TargetAssignment:
        """Return the target of a member; an empty one if none was computed for it."""
        return self.targets.get(identity) or TargetAssignment(self.assignment_epoch)

    @property
    def is_settled(self) -> bool:
        """Whether every member has its target, and every target its member."""
        return self.targets.keys() <= self.members.keys() and all(
            member.current.state is MemberState.STABLE
            and member.current.assigned.keys() == self.target_of(identity).tasks
            for identity, member in self.members.items()
        )

    def validate(self) -> None:
        """Raise BrokenInvariant unless every task has at most one occupant, and ``occupants`` says so."""
        found: dict[TaskId, tuple[str, str]] = {}
        for occupant, tasks in _occupations(self.members.values(), self.fences.values()):
            for task in tasks:
                if task in found:
                    raise BrokenInvariant(f"{task} is occupied by {found[task]} and {occupant}")
                found[task] = occupant
        if found != self.occupants:
            raise BrokenInvariant("the index of occupants differs from members and fences")
        if self.assignment_epoch > self.epoch:
            raise BrokenInvariant(f"assignment epoch {self.assignment_epoch} is after epoch {self.epoch}")
        for identity, member in self.members.items():
            current = member.current
            if current.member_epoch > self.assignment_epoch:
                raise BrokenInvariant(f"{identity} is at epoch {current.member_epoch}, ahead of all targets")
            unrevoked = current.state is MemberState.UNREVOKED_TASKS
            if {bool(current.pending_revocation), member.revoke_by_ms is not None} != {unrevoked}:
                raise BrokenInvariant(
                    f"{identity} is {current.state}, which does not fit what it must release"
                )


def occupants_of(
    members: Iterable[ReconciledMember], fences: Iterable[Fence]
) -> Mapping[TaskId, tuple[str, str]]:
    """Return the occupant of each task."""
    return {task: occupant for occupant, tasks in _occupations(members, fences) for task in tasks}


def _occupations(
    members: Iterable[ReconciledMember], fences: Iterable[Fence]
) -> Iterable[tuple[tuple[str, str], Iterable[TaskId]]]:
    for member in members:
        yield (member.identity, member.incarnation), member.current.occupied
    for fence in fences:
        yield (fence.member.identity, fence.member.incarnation), fence.tasks
