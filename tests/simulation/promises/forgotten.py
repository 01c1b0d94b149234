"""Promise 3: no task is held past max(its deadline, the proof of its last holder's end), none is forgotten.

In every round that is planned each configured task is somewhere: at a member, in a share, or held with an
end; and no hold's end is later than the promise says, nor moved while its identity stays away.
"""

from typing import TYPE_CHECKING

from cooperator.model import INSTANCE, Hold, HoldReason, Memory, TaskId
from simulation.promises.base import Promise
from simulation.world import Planned

if TYPE_CHECKING:
    from simulation.world import World


class NothingForgotten(Promise):
    def __init__(self, world: "World") -> None:
        super().__init__(world)
        policy = world.policy
        self._hold_ms = policy.scheduled_rebalance_max_delay_ms
        self._fence_ms = policy.fence_ms

    def check(self) -> None:
        for planned in self.world.plans:
            self._everything_is_somewhere(planned)
            self._holds_are_kept(planned)
            for identity, hold in planned.after.holds.items():
                self._ends_in_time(planned, identity, hold, planned.memory)

    def _everything_is_somewhere(self, planned: Planned) -> None:
        view, plan = planned.view, planned.plan
        ended = view.facts.ended
        present = [m for m in view.members if (m.identity, m.incarnation) not in ended]
        going = view.facts.leaving | view.facts.gone
        if all(member.draining or member.identity in going for member in present):
            # Nobody is there to be given anything.
            return
        placed = {task for member in present for task in member.owned} | plan.held.keys() | view.suspended
        placed |= {task for share in plan.shares.values() for task in share.assigned}
        if any(hold.blanket for hold in planned.after.holds.values()):
            return
        reserved = set[TaskId]().union(*planned.after.given.values())
        for connector, count in sorted(view.tasks.items()):
            for number in range(INSTANCE, count):
                task = TaskId(connector, number)
                if task not in placed and task not in reserved:
                    raise self.broken(f"{task} is at nobody, in no share, and not held")

    def _holds_are_kept(self, planned: Planned) -> None:
        """What waits for one is given to no other before its time."""
        view = planned.view
        waiting = {
            task: (identity, hold.until_ms)
            for identity, hold in planned.memory.holds.items()
            if self._stands(hold, (identity, hold.incarnation) in view.facts.ended, view.now_ms)
            and identity not in view.facts.gone
            for task in hold.tasks
        }
        back = {member.identity for member in view.members}
        for identity, tasks in planned.memory.given.items():
            known = back | planned.memory.holds.keys() | view.facts.gone
            if identity not in known and self._is_held_for(identity, planned):
                until_ms = view.now_ms + self._hold_ms
                waiting.update((task, (identity, until_ms)) for task in tasks if task not in waiting)
        for task in view.unstarted:
            # What never ran there does not wait for it.
            waiting.pop(task, None)
        if not waiting:
            return
        for member in view.members:
            for task in planned.plan.shares[member.member_id].assigned:
                identity, until_ms = waiting.get(task, (member.identity, 0))
                if identity != member.identity and identity not in back:
                    raise self.broken(
                        f"{task} waits for {identity}, and {member.identity} gets it: {until_ms}"
                    )

    def _is_held_for(self, identity: str, planned: Planned) -> bool:
        """Whether who has just departed is waited for at all."""
        budget = planned.view.policy.max_returns
        return self._hold_ms > 0 and len(planned.memory.returns.get(identity, ())) < budget

    def _stands(self, hold: Hold, proven: bool, now_ms: int) -> bool:
        if proven and hold.reason is HoldReason.EVICTED:
            # It was awaited for a while; with the proof it is an absence like others.
            return hold.since_ms + self._hold_ms > now_ms
        return hold.deadline_ms > now_ms or (hold.not_before_ms > now_ms and not proven)

    def _ends_in_time(self, planned: Planned, identity: str, hold: Hold, before: Memory) -> None:
        # A hold that another leader began counts by that one's clock, which may be ahead.
        now_ms = max(planned.view.now_ms, hold.since_ms)
        # Best effort: who keeps no lease is waited for as long as it is held for.
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
