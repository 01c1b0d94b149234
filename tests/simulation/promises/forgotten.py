"""Promise 3: no task is held past max(its deadline, the proof of its last holder's end), none is forgotten.

In every planned round each configured task is somewhere: at a member, in an assignment, or held with an end.
No hold's end is later than the promise allows, nor moves while its identity stays away.
"""

from typing import TYPE_CHECKING

from cooperator.model import INSTANCE, Hold, HoldReason, Member, Memory, TaskId
from cooperator.planner.plan import Why
from tests.simulation.promises.base import Promise
from tests.simulation.simulation import Planned

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class NothingForgotten(Promise):
    def __init__(self, simulation: "Simulation") -> None:
        super().__init__(simulation)
        policy = simulation.policy
        self._hold_ms = policy.scheduled_rebalance_max_delay_ms
        self._fence_ms = policy.fence_ms

    def check(self) -> None:
        for planned in self.simulation.plans:
            self._everything_is_somewhere(planned)
            self._holds_are_kept(planned)
            for identity, hold in planned.after.holds.items():
                self._ends_in_time(planned, identity, hold, planned.memory)

    def _everything_is_somewhere(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        ended = view.facts.ended
        present = [m for m in view.members if (m.identity, m.incarnation) not in ended]
        going = view.facts.leaving | view.facts.gone
        if all(m.draining or m.identity in going or not planned.speaks(m) for m in present):
            # Nobody can be assigned anything: all that stay are earlier incarnations of one that departs.
            return
        placed = {task for member in present for task in member.owned} | plan.held.keys() | view.suspended
        placed |= {task for assignment in plan.assignments.values() for task in assignment.assigned}
        if any(hold.blanket for hold in planned.after.holds.values()):
            return
        reserved = set[TaskId]().union(*planned.after.given.values())
        for connector, count in sorted(view.tasks.items()):
            for number in range(INSTANCE, count):
                task = TaskId(connector, number)
                if task not in placed and task not in reserved:
                    raise self.broken(f"{task} has no member, is in no assignment, and is not held")

    def _holds_are_kept(self, planned: Planned) -> None:
        """Held tasks go to no other member before the hold ends."""
        view = planned.view
        waiting = {
            task: (identity, hold.until_ms)
            for identity, hold in planned.memory.holds.items()
            if identity not in view.facts.gone
            for task in hold.tasks
            if self._stands(hold, self._is_proven(planned, task), view.now_ms)
        }
        back = {member.identity for member in view.members}
        for identity, tasks in planned.memory.given.items():
            known = back | planned.memory.holds.keys() | view.facts.gone
            if identity not in known and self._is_held_for(identity, planned):
                until_ms = view.now_ms + self._hold_ms
                waiting.update((task, (identity, until_ms)) for task in tasks if task not in waiting)
        for task in view.unstarted:
            # A task that never ran there does not wait for it.
            waiting.pop(task, None)
        if not waiting:
            return
        for member in view.members:
            for task in planned.plan.assignments[member.member_id].assigned:
                identity, until_ms = waiting.get(task, (member.identity, 0))
                if identity != member.identity and identity not in back:
                    if self._goes_on(planned, member, task):
                        continue
                    raise self.broken(
                        f"{task} waits for {identity}, and {member.identity} gets it: {until_ms}"
                    )

    def _is_held_for(self, identity: str, planned: Planned) -> bool:
        """Whether the departed member is awaited at all."""
        budget = planned.view.policy.max_returns
        return self._hold_ms > 0 and len(planned.memory.returns.get(identity, ())) < budget

    def _is_proven(self, planned: Planned, task: TaskId) -> bool:
        """Whether every incarnation that may run ``task`` has ended, by proof or because its lease is over.

        A hold has one incarnation and one time for all of its tasks. Some of them may have run at another
        incarnation, or have stopped before theirs left. (That none runs twice is a promise of its own.)
        """
        view = planned.view
        running = (each for each in planned.memory.unstopped if task in each.tasks)
        return all(
            (each.identity, each.incarnation) in view.facts.ended
            or (
                each.leased
                and each.gone_since_ms is not None
                and each.gone_since_ms + self._fence_ms <= view.now_ms
            )
            for each in running
        )

    def _goes_on(self, planned: Planned, member: Member, task: TaskId) -> bool:
        """Whether ``member`` has the state of a task whose member has certainly ended."""
        is_standby = planned.plan.assigned_why[task].why is Why.STANDBY and self._is_proven(planned, task)
        processes = self.simulation.everybody
        return is_standby and any(
            task in each.runtime.learning.ever
            for each in processes
            if (each.identity, each.incarnation) == (member.identity, member.incarnation)
        )

    def _stands(self, hold: Hold, proven: bool, now_ms: int) -> bool:
        if proven and hold.reason is HoldReason.EVICTED:
            # It was awaited for a while; with the proof it is an absence like others.
            return hold.since_ms + self._hold_ms > now_ms
        return hold.deadline_ms > now_ms or (hold.not_before_ms > now_ms and not proven)

    def _ends_in_time(self, planned: Planned, identity: str, hold: Hold, before: Memory) -> None:
        # A hold of another leader counts by that leader's clock, which may be ahead.
        now_ms = max(planned.view.now_ms, hold.since_ms)
        # Best effort: a member without a lease is awaited for as long as its tasks are held.
        leased = not planned.memory.leaseless and all(each.leased for each in planned.memory.unstopped)
        if hold.not_before_ms > now_ms + (self._fence_ms if leased else max(self._fence_ms, self._hold_ms)):
            raise self.broken(f"{identity}: the proof of an end is waited for until {hold.not_before_ms}")
        if hold.reason is HoldReason.EVICTED:
            return
        if hold.deadline_ms > hold.since_ms + self._hold_ms:
            raise self.broken(f"{identity} is held for longer than the policy allows: {hold}")
        earlier = before.holds.get(identity)
        if earlier is None or earlier.incarnation != hold.incarnation or hold.blanket:
            return
        if hold.since_ms > earlier.since_ms:
            raise self.broken(f"{identity} stays away, and its hold begins anew: {earlier}, {hold}")
        if earlier.reason is not HoldReason.EVICTED and hold.deadline_ms > earlier.deadline_ms:
            raise self.broken(f"{identity} stays away, and its hold is renewed: {earlier}, {hold}")
