"""Tracks which tasks were assigned in this tenure, and which of them certainly never started. Pure.

    never started(task) = assigned to an incarnation of ours that is over, and the status log, as it stood
                          after that, has no status by that member of the task under that assignment

An incarnation is over when its end is proven, or its lease and margin have expired. A member starts nothing
before its status STARTING is in the log, and no status of it can arrive once it is over; so the log, read to
its end, has them all. (If the log is unreachable a member starts anyway. A task that had just begun may then
move instead of waiting, but it cannot run twice, since its incarnation is over.) Tasks assigned by an earlier
leader, or to stock workers, whose statuses name no terms, count as started: that only means waiting, and
waiting is safe.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cooperator.leader import absences
from cooperator.model import Epoch, Member, Memory, Policy, TaskId, TaskStatus
from cooperator.planner.plan import Plan

_MANY = 4096
"""Upper limit; fully superseded assignments are dropped."""

MemberIncarnation = tuple[str, str]
"""(identity, incarnation)"""


@dataclass(frozen=True, slots=True)
class _Given:
    """One assignment that assigned something.

    ``incarnation`` None: that of a stock worker, whose statuses name no terms.
    """

    incarnation: MemberIncarnation | None
    epoch: Epoch
    tasks: Collection[TaskId]


class Starts:
    """The assigned tasks, assignment by assignment: the last one that has a task determines its owner."""

    def __init__(self) -> None:
        self._given: list[_Given] = []
        self._never: set[TaskId] = set()
        self._too_many = _MANY

    @property
    def never(self) -> frozenset[TaskId]:
        """Tasks whose last incarnation is over and never started them."""
        return frozenset(self._never)

    @property
    def incarnations(self) -> Collection[MemberIncarnation]:
        """Incarnations with assigned tasks of which it is not known whether they started."""
        return {given.incarnation for given in self._given if given.incarnation is not None}

    def give(self, members: Iterable[Member], plan: Plan, epoch: Epoch) -> None:
        """Note the assignments of ``plan``, which are about to be sent."""
        for member in members:
            tasks = plan.assignments[member.member_id].assigned
            if tasks:
                incarnation = (member.identity, member.incarnation) if member.is_agent else None
                self._given.append(_Given(incarnation, epoch, tasks))
                if self._never:
                    self._never.difference_update(tasks)
        if len(self._given) > self._too_many:
            self._given = [given for given in self._last_holders() if given.tasks]
            self._too_many = max(_MANY, 2 * len(self._given))

    def examine(
        self, incarnations: Collection[MemberIncarnation], statuses: Mapping[TaskId, TaskStatus]
    ) -> None:
        """Find never-started tasks; ``statuses``: the log, read to its end after ``incarnations`` ended."""
        if not incarnations:
            return
        left = []
        for given in self._last_holders():
            if given.incarnation is None or given.incarnation not in incarnations:
                left.append(given)
                continue
            identity = given.incarnation[0]
            never = (t for t in given.tasks if not _has_word(statuses.get(t), identity, given.epoch))
            self._never.update(never)
        self._given = left

    def forget(self, tasks: Collection[TaskId]) -> None:
        """Forget tasks whose statuses are about to be removed: a missing status would prove nothing then."""
        gone = frozenset(tasks)
        kept = (replace(given, tasks=[t for t in given.tasks if t not in gone]) for given in self._given)
        self._given = [given for given in kept if given.tasks]
        self._never -= gone

    def _last_holders(self) -> list[_Given]:
        """The assignments without tasks that were assigned again later; in the same order."""
        later: set[TaskId] = set()
        found = []
        for given in reversed(self._given):
            found.append(replace(given, tasks=[task for task in given.tasks if task not in later]))
            later.update(given.tasks)
        return found[::-1]


def lease_end_ms(incarnation: MemberIncarnation, memory: Memory, policy: Policy) -> int | None:
    """When (ms) lease and margin of a missing incarnation have expired; None: nothing is held for it.

    The hold of an identity records since when the leader has missed it, but the lease may have been renewed
    since, in a round that was not planned. So what may still run at the incarnation decides.
    """
    hold = memory.holds.get(incarnation[0])
    if hold is None or hold.incarnation != incarnation[1]:
        return None
    ends = [0]
    for entry in memory.unstopped:
        if (entry.identity, entry.incarnation) == incarnation:
            if entry.gone_since_ms is None:
                return None
            ends.append(absences.over_ms(entry, policy))
    return max(ends)


def _has_word(status: TaskStatus | None, identity: str, epoch: Epoch) -> bool:
    if status is None or status.worker != identity:
        return False
    return status.epoch is None or status.epoch >= epoch
