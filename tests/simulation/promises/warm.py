"""No task is taken from a running member for one that is not warm.

Whether a member is warm is read from its runtime, not from its report. In each round, nothing is revoked for
balance, or from a departing member, unless another member is warm (or none can be expected to become warm);
and no cold member is given what is not its own while another one is warm.
"""

from cooperator.model import Member, PolicyName, TaskId, Warmth
from cooperator.planner.plan import Why
from cooperator.planner.view import View
from tests.simulation.promises.base import Promise
from tests.simulation.simulation import Planned


class NothingIsTakenForTheCold(Promise):
    def check(self) -> None:
        for planned in self.simulation.plans:
            if planned.view.policy.name is PolicyName.DEFAULT:
                self._check_round(planned)

    def _check_round(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        cold = self._cold(view)
        if not cold:
            return
        open_to_work = [member for member in view.members if self._is_open(member, planned)]
        warm = [m for m in open_to_work if m.warmth is Warmth.WARM and m.member_id not in cold]
        coming = [m for m in open_to_work if m.warmth is not Warmth.STALLED and m.member_id in cold]
        for member in view.members:
            assignment = plan.assignments[member.member_id]
            if member.member_id in cold:
                strange = set(assignment.assigned) - self._own(member, planned)
                if warm and strange:
                    raise self.broken(
                        f"{sorted(strange)[0]} is given to {member.identity}, which is cold, "
                        f"and {warm[0].identity} is warm"
                    )
            elif member.warmth is Warmth.WARM and coming and not any(m is not member for m in warm):
                for task in assignment.revoked:
                    if task not in plan.held and plan.revoked_why[task].why in (Why.BALANCE, Why.DRAIN):
                        raise self.broken(f"{task} is taken from {member.identity}, and nobody else is warm")

    def _cold(self, view: View) -> set[str]:
        """Member ids of those whose runtime is not up."""
        up = {(m.identity, m.incarnation): m.runtime.warm for m in self.simulation.everybody}
        return {m.member_id for m in view.members if not up.get((m.identity, m.incarnation), True)}

    def _is_open(self, member: Member, planned: Planned) -> bool:
        facts = planned.view.facts
        closed = facts.leaving | facts.gone | facts.cordoned
        ended = (member.identity, member.incarnation) in facts.ended
        return planned.speaks(member) and not (member.draining or ended or member.identity in closed)

    def _own(self, member: Member, planned: Planned) -> frozenset[TaskId]:
        """The returning member's own tasks, according to the leader's memory."""
        memory = planned.memory
        hold = memory.holds.get(member.identity)
        given = memory.given.get(member.identity, frozenset())
        return given if hold is None else given | hold.tasks
