"""``GroupSimulation`` with targets by Cooperator's planner instead of random ones."""

from cooperator.model import Member, Memory, Policy
from cooperator.planner import Facts, View, Workspace, default, step
from cooperator.planner.layout import layout_of
from cooperator.reconciliation import ReconciledGroup, retarget
from tests.reconciliation.group_simulation import FENCE_MS, LEASE_MS, GroupSimulation, Process

AWAITED_MS = 5_000
POLICY = Policy(
    scheduled_rebalance_max_delay_ms=20_000, lease_ms=LEASE_MS, lease_margin_ms=FENCE_MS - LEASE_MS
)


def members_of(group: ReconciledGroup) -> tuple[Member, ...]:
    """Members as the planner sees them: each one has its target already, as for Kafka's assignors."""
    return tuple(
        Member(identity, identity, member.incarnation, tuple(sorted(group.target_of(identity).tasks)))
        for identity, member in sorted(group.members.items())
    )


class PlannedSimulation(GroupSimulation):
    """``memory`` is the planner's, as the leader log has it."""

    def __init__(self, seed: int, **counts: int) -> None:
        self.memory = Memory()
        self.counts_of = counts
        self.ended: set[tuple[str, str]] = set()
        self.awaited: dict[str, int] = {}
        self.workspace = Workspace()
        super().__init__(seed, tasks=0)

    def replan(self) -> None:
        group = self.leader.group
        self.awaited = {
            identity: until_ms
            for identity, until_ms in self.awaited.items()
            if identity not in group.members and until_ms > self.now_ms
        }
        view = View(
            now_ms=self.now_ms,
            generation=self.memory.generation + 1,
            members=members_of(group),
            tasks=self.counts_of,
            policy=POLICY,
            facts=Facts(ended=frozenset(self.ended)),
            awaited=self.awaited,
        )
        decision = default.decide(view, self.memory, self.workspace)
        _, self.memory = step.take(view, self.memory, decision)
        self.layout = {identity: frozenset(tasks) for identity, tasks in layout_of(view, decision).items()}
        self._write(self.leader, retarget(group, self.layout))

    def lead(self) -> None:
        evicted = [*self.in_group]
        super().lead()
        self.awaited = dict.fromkeys(evicted, self.now_ms + AWAITED_MS)
        self.replan()

    def _regroup(self) -> None:
        before = self.leader.group
        super()._regroup()
        if self.leader.group.members.keys() != before.members.keys():
            self.replan()

    def _leader_tick(self) -> None:
        super()._leader_tick()
        self.replan()

    def _prove_end(self, process: Process) -> None:
        self.ended.add((process.identity, process.incarnation))
        super()._prove_end(process)
        self.replan()

    def relayout(self) -> None:
        """Change the number of tasks of a connector."""
        name = self.random.choice(sorted(self.counts_of))
        self.counts_of = {**self.counts_of, name: self.random.randint(0, 6)}
        self.replan()

    @property
    def is_balanced(self) -> bool:
        for instances in (True, False):
            loads = [
                sum(task.is_instance is instances for task in self.running(identity))
                for identity in self.in_group
            ]
            if max(loads, default=0) - min(loads, default=0) > 1:
                return False
        return True
