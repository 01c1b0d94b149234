"""Promise 2: an untouched task never restarts.

A copy at a living member is stopped only for a reason of its own: an assignment revoked it, its configuration
has changed, the member's lease has ended (measured by what the broker and the leader really answered), or the
member's time to depart is over. And an assignment revokes a task only for a reason that is visible in the
round in which it was planned.
"""

from cooperator.model import PolicyName, TaskId
from cooperator.planner.plan import Why
from tests.simulation.promises.base import Promise
from tests.simulation.simulation import Planned


class UntouchedTasksRunOn(Promise):
    def check(self) -> None:
        simulation = self.simulation
        if simulation.stops:
            stops, simulation.stops = simulation.stops, []
            for copy in stops:
                if not copy.member.may_stop(copy):
                    raise self.broken(f"{copy} was stopped, and nothing of it had changed")
        for planned in simulation.plans:
            self._check_round(planned)

    def _check_round(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        holders: dict[TaskId, int] = {}
        for member in view.members:
            for task in member.owned:
                holders[task] = holders.get(task, 0) + 1
        identities = [member.identity for member in view.members]
        shared = self.simulation.shape.fleet.shares_client_id
        for member in view.members:
            for task in plan.assignments[member.member_id].revoked:
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
                    # Workers that share a client id are not earlier incarnations of each other.
                    Why.SUPERSEDED: identities.count(member.identity) > 1 and not shared,
                    # LeastMoves checks how many, and whose.
                    Why.BALANCE: view.policy.name is PolicyName.EAGER or not plan.held,
                }
                if not right.get(why, False):
                    raise self.broken(f"{task} is taken from {member.identity} as {why}, and that is not so")
