"""Promise 2: an untouched task never restarts.

A copy at a member that lives is stopped only for a reason of its own: a share took it away, its own
configuration has changed, the member's lease has ended (measured by what the broker and the leader really
answered), or the member's time to depart is over. And a share takes a task away only for a reason that can
be seen in the round that it was planned in.
"""

from cooperator.model import TaskId
from cooperator.planner.plan import Why
from simulation.promises.base import Promise
from simulation.world import Planned


class UntouchedTasksRunOn(Promise):
    def check(self) -> None:
        world = self.world
        if world.stops:
            stops, world.stops = world.stops, []
            for copy in stops:
                if not copy.member.may_stop(copy):
                    raise self.broken(f"{copy} was stopped, and nothing of it had changed")
        for planned in world.plans:
            self._check_round(planned)

    def _check_round(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        holders: dict[TaskId, int] = {}
        for member in view.members:
            for task in member.owned:
                holders[task] = holders.get(task, 0) + 1
        identities = [member.identity for member in view.members]
        for member in view.members:
            for task in plan.shares[member.member_id].revoked:
                why = plan.revoked_why[task].why
                configured = task.task < view.tasks.get(task.connector, -1)
                leaves = (
                    member.draining
                    or member.identity in view.facts.leaving
                    or member.identity in view.facts.gone
                )
                right = {
                    Why.DELETED: not configured,
                    Why.SUSPENDED: task in view.suspended,
                    Why.DUPLICATE: holders[task] > 1,
                    Why.DRAIN: leaves,
                    Why.SUPERSEDED: identities.count(member.identity) > 1,
                    # How many, and of whom: see LeastMoves.
                    Why.BALANCE: not plan.held,
                }
                if not right.get(why, False):
                    raise self.broken(f"{task} is taken from {member.identity} as {why}, and that is not so")
