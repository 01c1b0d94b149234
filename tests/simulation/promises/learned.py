"""Tasks with state move to members that have learned them.

Whether a member has learned a task is read from its runtime, not from its report; the time is counted here.
"""

from cooperator.model import Member, PolicyName, TaskId, Warmup
from cooperator.planner.plan import Why
from tests.simulation.promises.base import Promise
from tests.simulation.simulation import Planned


class LearnersNeverWrite(Promise):
    """No member learns a task that it runs."""

    def check(self) -> None:
        for what in self.simulation.writes_of_learners:
            raise self.broken(what)


class FewLearnAtATime(Promise):
    """At most ``max_warmups`` warm-ups are under way."""

    def check(self) -> None:
        for planned in self.simulation.plans:
            stateful, now_ms = planned.view.stateful, planned.view.now_ms
            under_way = [
                each
                for each in planned.after.warmups
                if each.since_ms + stateful[each.connector].warmup_timeout_ms > now_ms
                and each.item not in planned.after.standbys.get(each.identity, ())
            ]
            most = max((replicas.max_warmups for replicas in stateful.values()), default=0)
            if len(under_way) > most:
                raise self.broken(f"{len(under_way)} warm-ups are under way, and at most {most} may be")


class NothingMovesCold(Promise):
    """No task with state is revoked for balance or a departure before the member that gets it has caught up,
    unless the time for that is over.

    The time counts from the round in which a warm-up was first seen. A round that failed is forgotten by its
    leader, so a warm-up that is missing in that round's plan goes on.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._began_ms: dict[Warmup, int] = {}
        self._departing_ms: dict[str, int] = {}

    def check(self) -> None:
        for planned in self.simulation.plans:
            if planned.view.stateful and planned.view.policy.name is PolicyName.DEFAULT:
                self._check_round(planned)

    def _check_round(self, planned: Planned) -> None:
        view, now_ms = planned.view, self.simulation.now_ms
        closed = view.facts.leaving | view.facts.gone
        going = {m.identity for m in view.members if m.draining or m.identity in closed}
        self._departing_ms = {name: self._departing_ms.get(name, now_ms) for name in going}
        for member in view.members:
            for task in planned.plan.assignments[member.member_id].revoked:
                if not task.is_instance and task.connector in view.stateful:
                    self._check_move(planned, member, task)
        for warmup in planned.after.warmups:
            self._began_ms.setdefault(warmup, now_ms)

    def _check_move(self, planned: Planned, member: Member, task: TaskId) -> None:
        plan, view, now_ms = planned.plan, planned.view, self.simulation.now_ms
        why = plan.revoked_why[task].why
        if why not in (Why.BALANCE, Why.DRAIN) or task in plan.held or member.identity in view.facts.gone:
            return
        notices_ms = [ms // 2 for name, ms in view.facts.notices_ms if name == member.identity]
        kept_for_ms = min([view.policy.depart_warm_ms, *notices_ms])
        if why is Why.DRAIN and now_ms >= self._departing_ms[member.identity] + kept_for_ms:
            return
        timeout_ms = view.stateful[task.connector].warmup_timeout_ms
        # The leader's own clock has counted from a moment before the one at which this round was seen.
        known = [each for each in planned.memory.warmups if each.item == task]
        spent_ms = max((now_ms - self._began_ms.get(each, now_ms) for each in known), default=0)
        if spent_ms >= timeout_ms:
            return
        if not self._has_learned(planned, task):
            raise self.broken(f"{task} is taken from {member.identity} ({why}), and nobody has its state")

    def _has_learned(self, planned: Planned, task: TaskId) -> bool:
        """Whether the member that gets the task has caught up on it; any member, if that is decided later."""
        to = {each.identity for each in planned.after.warmups if each.item == task}
        getting = {(m.identity, m.incarnation) for m in planned.view.members if not to or m.identity in to}
        return any(
            task in each.runtime.learning.ever
            for each in self.simulation.everybody
            if (each.identity, each.incarnation) in getting
        )
