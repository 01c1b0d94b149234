"""Who was given what in this tenure of the lead, and what of it certainly never started. Pure.

    never started(task) = given to a life of ours that is over,
                          and, by the status log as it stood after that, without any word of that member
                          about the task under that share

A life is over when its end is proven, or its lease and margin have run out. A member says STARTING before
it starts anything, and no word of it can come once it is over: then the log, read to its end, has them all.
(Words of its last milliseconds may be lost with it. Then a task that had just begun moves, instead of
waiting; twice it cannot run, for its life is over.) What an earlier leader gave, and what stock workers were
given, whose words name no terms, counts as started: it is a question of waiting, and waiting is safe.
"""

from collections.abc import Collection, Iterable, Mapping

from cooperator.model import Epoch, Member, Memory, Policy, TaskId, TaskStatus
from cooperator.planner.plan import Plan

Life = tuple[str, str]
"""(identity, incarnation)"""


class Starts:
    """What was given, by life, until it is known to have started or to never have."""

    def __init__(self) -> None:
        self._given: dict[Life, dict[TaskId, Epoch]] = {}
        self._where: dict[TaskId, Life] = {}
        self._never: dict[TaskId, Life] = {}

    @property
    def never(self) -> frozenset[TaskId]:
        """Tasks whose last life is over and never started them."""
        return frozenset(self._never)

    @property
    def lives(self) -> Collection[Life]:
        """Those that were given something of which it is not known whether it has started."""
        return self._given.keys()

    def give(self, members: Iterable[Member], plan: Plan, epoch: Epoch) -> None:
        """The shares of ``plan`` are about to be sent."""
        for member in members:
            for task in plan.shares[member.member_id].assigned:
                self._take_back(task)
                if member.is_agent:
                    life = (member.identity, member.incarnation)
                    self._where[task] = life
                    self._given.setdefault(life, {})[task] = epoch

    def examine(self, lives: Iterable[Life], statuses: Mapping[TaskId, TaskStatus]) -> None:
        """``statuses``: the log read to its end when ``lives`` were over."""
        for life in lives:
            for task, epoch in list(self._given.get(life, {}).items()):
                self._take_back(task)
                if not _has_word(statuses.get(task), life[0], epoch):
                    self._never[task] = life

    def _take_back(self, task: TaskId) -> None:
        self._never.pop(task, None)
        life = self._where.pop(task, None)
        if life is not None:
            given = self._given[life]
            del given[task]
            if not given:
                del self._given[life]


def lease_end_ms(life: Life, memory: Memory, policy: Policy) -> int | None:
    """When (ms) the lease and margin of a life that is missing have run out; None: it is not held for."""
    hold = memory.holds.get(life[0])
    if hold is None or hold.incarnation != life[1]:
        return None
    return hold.since_ms + policy.lease_ms + policy.lease_margin_ms


def _has_word(status: TaskStatus | None, identity: str, epoch: Epoch) -> bool:
    if status is None or status.worker != identity:
        return False
    return status.epoch is None or status.epoch >= epoch
