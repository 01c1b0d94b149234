"""Who was given what in this tenure of the lead, and what of it certainly never started. Pure.

    never started(task) = given to a life of ours that is over,
                          and, by the status log as it stood after that, without any word of that member
                          about the task under that share

A life is over when its end is proven, or its lease and margin have run out. A member starts nothing before
its word STARTING is on the log, and no word of it can come once it is over: then the log, read to its end,
has them all. (Where the log is out of reach a member starts all the same. Then a task that had just begun
may move instead of waiting; twice it cannot run, for its life is over.) What an earlier leader gave, and what
stock workers were given, whose words name no terms, counts as started: it is a question of waiting, and
waiting is safe.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cooperator.leader import absences
from cooperator.model import Epoch, Member, Memory, Policy, TaskId, TaskStatus
from cooperator.planner.plan import Plan

_MANY = 4096
"""Shares; when there are more, those of which everything was given again are forgotten."""

Life = tuple[str, str]
"""(identity, incarnation)"""


@dataclass(frozen=True, slots=True)
class _Given:
    """One share that assigned something. ``life`` None: of a stock worker, whose words name no terms."""

    life: Life | None
    epoch: Epoch
    tasks: Collection[TaskId]


class Starts:
    """What was given, share by share: the last one that has a task says whose it is."""

    def __init__(self) -> None:
        self._given: list[_Given] = []
        self._never: set[TaskId] = set()
        self._too_many = _MANY

    @property
    def never(self) -> frozenset[TaskId]:
        """Tasks whose last life is over and never started them."""
        return frozenset(self._never)

    @property
    def lives(self) -> Collection[Life]:
        """Those that were given something of which it is not known whether it has started."""
        return {given.life for given in self._given if given.life is not None}

    def give(self, members: Iterable[Member], plan: Plan, epoch: Epoch) -> None:
        """The shares of ``plan`` are about to be sent."""
        for member in members:
            tasks = plan.shares[member.member_id].assigned
            if tasks:
                life = (member.identity, member.incarnation) if member.is_agent else None
                self._given.append(_Given(life, epoch, tasks))
                if self._never:
                    self._never.difference_update(tasks)
        if len(self._given) > self._too_many:
            self._given = [given for given in self._last_holders() if given.tasks]
            self._too_many = max(_MANY, 2 * len(self._given))

    def examine(self, lives: Collection[Life], statuses: Mapping[TaskId, TaskStatus]) -> None:
        """``statuses``: the log read to its end when ``lives`` were over."""
        if not lives:
            return
        left = []
        for given in self._last_holders():
            if given.life is None or given.life not in lives:
                left.append(given)
                continue
            identity = given.life[0]
            never = (t for t in given.tasks if not _has_word(statuses.get(t), identity, given.epoch))
            self._never.update(never)
        self._given = left

    def forget(self, tasks: Collection[TaskId]) -> None:
        """Their words are about to be removed from the log, where their silence would say nothing then."""
        gone = frozenset(tasks)
        kept = (replace(given, tasks=[t for t in given.tasks if t not in gone]) for given in self._given)
        self._given = [given for given in kept if given.tasks]
        self._never -= gone

    def _last_holders(self) -> list[_Given]:
        """What was given, without what was given again later; in the same order."""
        later: set[TaskId] = set()
        found = []
        for given in reversed(self._given):
            found.append(replace(given, tasks=[task for task in given.tasks if task not in later]))
            later.update(given.tasks)
        return found[::-1]


def lease_end_ms(life: Life, memory: Memory, policy: Policy) -> int | None:
    """When (ms) the lease and margin of a life that is missing have run out; None: it is not held for.

    The hold of an identity tells since when it has been missing to the leader; a lease may have been renewed
    since, in a round that was not planned. So what may still run at the life has the last word.
    """
    hold = memory.holds.get(life[0])
    if hold is None or hold.incarnation != life[1]:
        return None
    ends = [0]
    for entry in memory.unstopped:
        if (entry.identity, entry.incarnation) == life:
            if entry.gone_since_ms is None:
                return None
            ends.append(absences.over_ms(entry, policy))
    return max(ends)


def _has_word(status: TaskStatus | None, identity: str, epoch: Epoch) -> bool:
    if status is None or status.worker != identity:
        return False
    return status.epoch is None or status.epoch >= epoch
