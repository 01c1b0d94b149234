"""Standbys: which members learn a task all the time, so that one can take it over when its member dies.

    candidates(T) = receivers, and members that are about to be, that can learn, without T's member
    standbys(T)   = min(``standbys``, |candidates(T)|) of them: those of before, then those with the fewest

A standby that is away for a moment stays one: it may have what it learned when it is back.

Then each standby moves from a member to one that has at least two fewer, if it is in no worse a zone: the sum
of squares falls with each step, so this ends, and the result is left alone by the next round. A zone other
than that of the task's member is better.
"""

from collections.abc import Collection, Mapping

from cooperator.model import Memory, TaskId, Warmth
from cooperator.planner.learners import replicas_of
from cooperator.planner.roster import Roster
from cooperator.planner.step import RoundDecision
from cooperator.planner.view import View


def choose(
    view: View,
    roster: Roster,
    before: Mapping[str, frozenset[TaskId]],
    owners: Mapping[TaskId, str],
    former: Mapping[TaskId, str],
    awaited: Collection[str] = (),
) -> Mapping[str, frozenset[TaskId]]:
    """Return per identity what it learns as a standby. ``owners``: the member that each task is at, or that
    it is held for; ``former``: the one that it comes from, which has its state; ``awaited``: the absent
    identities that are expected back."""
    away = {i: tasks for i, tasks in before.items() if i in awaited and i not in roster.current}
    choice = _Choice(view, roster, owners, former, away)
    for task in sorted(owners):
        replicas = replicas_of(view, task)
        if replicas is not None and replicas.standbys and task not in view.barred:
            choice.fill(task, replicas.standbys, [i for i, tasks in before.items() if task in tasks])
    choice.level()
    learned = {**choice.learned, **choice.away}
    return {identity: frozenset(tasks) for identity, tasks in sorted(learned.items()) if tasks}


def owners(view: View, decision: RoundDecision) -> dict[TaskId, str]:
    """Return the identity that each task with state is at, starts at, or is held for."""
    found: dict[TaskId, str] = {}
    for task, held in decision.settled.held.items():
        found[task] = held.identity
    for own in (decision.settled.reserved, decision.settled.owed):
        found.update((task, identity) for identity, tasks in own.items() for task in tasks)
    for placed in decision.placed:
        found.update((task, identity) for task, identity in placed.items() if task in decision.free)
    for member in decision.roster.present:
        found.update(dict.fromkeys(member.owned, member.identity))
    return {
        task: identity
        for task, identity in found.items()
        if task.task < view.tasks.get(task.connector, 0) and replicas_of(view, task) is not None
    }


def awaited(view: View, decision: RoundDecision) -> frozenset[str]:
    """Return the absent identities that are expected back: tasks are held for them, or their hosts start
    them, and have done so for less than a hold."""
    delay_ms = view.policy.scheduled_rebalance_max_delay_ms
    starting = (i for i, since_ms in decision.joins.items() if view.now_ms < since_ms + delay_ms)
    return frozenset(decision.settled.holds).union(starting)


def former(memory: Memory) -> dict[TaskId, str]:
    """Return the members that have just released a task, and so have its state."""
    return {task: entry.identity for entry in memory.unstopped for task in entry.tasks}


class _Choice:
    def __init__(
        self,
        view: View,
        roster: Roster,
        owners: Mapping[TaskId, str],
        former: Mapping[TaskId, str],
        away: Mapping[str, frozenset[TaskId]],
    ) -> None:
        self._owners, self._former = owners, former
        self._zones = {i: member.zone for i, member in roster.current.items()} | dict(view.facts.zones)
        self._before_away = away
        self.away: dict[str, set[TaskId]] = {identity: set() for identity in away}
        closed = roster.leaving.keys() | view.facts.cordoned
        self.learned: dict[str, set[TaskId]] = {
            identity: set()
            for identity, member in roster.current.items()
            if member.learns
            and (identity in roster.receivers or (member.warmth is Warmth.WARMING and identity not in closed))
        }

    def fill(self, task: TaskId, count: int, before: list[str]) -> None:
        for identity, tasks in self._before_away.items():
            if count and task in tasks and identity != self._owners[task]:
                self.away[identity].add(task)
                count -= 1
        able = [identity for identity in self.learned if identity != self._owners[task]]
        chosen = [identity for identity in before if identity in able][:count]
        others = [identity for identity in able if identity not in chosen]
        others.sort(key=lambda i: (self._former.get(task) != i, self._is_near(task, i), self._load(i), i))
        for identity in [*chosen, *others[: count - len(chosen)]]:
            self.learned[identity].add(task)

    def level(self) -> None:
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        for crowded in sorted(self.learned, key=lambda i: (-self._load(i), i)):
            for idle in sorted(self.learned, key=lambda i: (self._load(i), i)):
                if self._load(idle) + 2 > self._load(crowded):
                    break
                for task in sorted(self.learned[crowded] - self.learned[idle]):
                    if self._owners[task] != idle and self._is_near(task, idle) <= self._is_near(
                        task, crowded
                    ):
                        self.learned[crowded].discard(task)
                        self.learned[idle].add(task)
                        return True
        return False

    def _load(self, identity: str) -> int:
        return len(self.learned[identity])

    def _is_near(self, task: TaskId, identity: str) -> bool:
        """Whether what ends the task's member, such as the loss of a zone, may end ``identity``, too."""
        zone = self._zones.get(self._owners[task], "")
        return bool(zone) and zone == self._zones.get(identity, "")
