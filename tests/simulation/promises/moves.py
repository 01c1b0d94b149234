"""Promise 6: with equal weights and capacities, exactly the least moves for the balance reached.

In each round, what is revoked for balance is no more than the members have above their part of all placeable
tasks (suspended ones are not placeable), and that leaves nobody below their part. Only members that work is
dealt to count: a member that is at most second choice keeps its own, which is no part of the balance.
A task that another member learns counts where it is going to be, and one that was held for a member and is
given back to it is that member's.
"""

from cooperator.model import INSTANCE, PolicyName, TaskId, Warmth
from cooperator.planner.plan import Why
from tests.simulation.promises.base import Promise
from tests.simulation.simulation import Planned


class LeastMoves(Promise):
    def check(self) -> None:
        plans, self.simulation.plans = self.simulation.plans, []
        for planned in plans:
            view, plan = planned.view, planned.plan
            if view.policy.name is not PolicyName.DEFAULT:
                continue
            self._nothing_twice(planned)
            if any(why.why is Why.BALANCE for why in plan.revoked_why.values()):
                for instances in (True, False):
                    if instances or not view.weights:
                        self._count(planned, instances)

    def _nothing_twice(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        ended = view.facts.ended
        owned = {
            task: member.identity
            for member in view.members
            if (member.identity, member.incarnation) not in ended
            for task in member.owned
        }
        given: dict[TaskId, str] = {}
        for member in view.members:
            for task in plan.assignments[member.member_id].assigned:
                if task in owned:
                    raise self.broken(f"{task} is assigned in a round in which {owned[task]} reports it")
                if task in given:
                    raise self.broken(f"{task} is assigned to {given[task]} and to {member.identity}")
                given[task] = member.identity

    def _dealt_to(self, planned: Planned) -> dict[str, str]:
        """Member id to identity of the members that may be assigned what is not their own."""
        view, facts = planned.view, planned.view.facts
        choices: dict[str, tuple[bool, bool, bool]] = {
            member.member_id: (
                member.warmth is Warmth.STALLED,
                member.identity in facts.cordoned,
                member.warmth is Warmth.WARMING,
            )
            for member in view.members
            if planned.speaks(member)
            and not (member.draining or member.identity in facts.leaving | facts.gone)
            and (member.identity, member.incarnation) not in facts.ended
        }
        first = min(choices.values(), default=None)
        return {
            m.member_id: m.identity
            for m in view.members
            if m.member_id in choices and choices[m.member_id] == first
        }

    def _count(self, planned: Planned, instances: bool) -> None:
        view, plan = planned.view, planned.plan
        reported = [task for member in view.members for task in member.owned]
        if len(reported) != len(set(reported)):
            # One of two copies is revoked for another reason; reasons are kept by task.
            return
        dealt_to = self._dealt_to(planned)
        # A warm-up that ends in this round without a move was given up: its task stays where it is.
        over = [each for each in planned.memory.warmups if each.item in plan.revoked_why]
        learned = () if instances else (*over, *planned.after.warmups)
        aims = {each.item: each.identity for each in learned if each.identity in dealt_to.values()}
        reported_set = set(reported)
        before: list[int] = []
        taken = 0
        for member in view.members:
            stays = [t for t in member.owned if t.is_instance is instances and t not in member.stopping]
            gone = [t for t in plan.assignments[member.member_id].revoked if t.is_instance is instances]
            if any(plan.revoked_why[t].why is not Why.BALANCE for t in gone):
                return
            if member.member_id not in dealt_to:
                continue
            stays = [task for task in stays if aims.get(task, member.identity) == member.identity]
            coming = [t for t, aim in aims.items() if aim == member.identity and t not in member.owned]
            back = [
                task
                for task in plan.assignments[member.member_id].assigned
                if task.is_instance is instances and plan.assigned_why[task].why is Why.RETURNED
            ]
            before.append(len(stays) + len(reported_set.intersection(coming)) + len(back))
            taken += sum(task not in aims for task in gone)
        placeable = {
            task
            for connector, count in view.tasks.items()
            for task in (TaskId(connector, number) for number in range(INSTANCE, count))
            if task.is_instance is instances
        }
        given = (tasks for i, tasks in planned.after.given.items() if i not in dealt_to.values())
        total = len(placeable.difference(view.suspended, *given))
        least, extra = divmod(total, len(before))
        above = sorted(before, reverse=True)
        needed = sum(max(0, n - least - (i < extra)) for i, n in enumerate(above))
        if taken > needed:
            kind = "instances" if instances else "tasks"
            raise self.broken(f"{taken} {kind} are moved for balance, and {needed} would do: {before}")
