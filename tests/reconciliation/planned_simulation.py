"""``GroupSimulation`` with targets by Cooperator's planner instead of random ones."""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.leader.absences import not_given
from cooperator.model import Member, Memory, Policy, TaskId, Warmth
from cooperator.planner import Facts, View, Workspace, default, step
from cooperator.planner.layout import layout_of
from cooperator.reconciliation import ReconciledGroup, Report, late, retarget, waits, withdrawn
from tests.reconciliation.group_simulation import FENCE_MS, LEASE_MS, GroupSimulation, Process

AWAITED_MS = 5_000
POLICY = Policy(
    scheduled_rebalance_max_delay_ms=20_000, lease_ms=LEASE_MS, lease_margin_ms=FENCE_MS - LEASE_MS
)


def members_of(
    group: ReconciledGroup, late_ones: frozenset[str], taken: Mapping[str, frozenset[TaskId]]
) -> tuple[Member, ...]:
    """Members as the planner sees them: each one has its target already, as for Kafka's assignors, without
    the new tasks that it has not taken up in time.
    """
    found = []
    for identity, member in sorted(group.members.items()):
        tasks = sorted(group.target_of(identity).tasks - taken.get(identity, frozenset()))
        seen = Member(identity, identity, member.incarnation, tuple(tasks))
        found.append(replace(seen, warmth=Warmth.STALLED) if identity in late_ones else seen)
    return tuple(found)


class PlannedSimulation(GroupSimulation):
    """``memory`` is the planner's, as the leader log has it."""

    def __init__(self, seed: int, **counts: int) -> None:
        self.memory = Memory()
        self.counts_of = counts
        self.ended: set[tuple[str, str]] = set()
        self.awaited: dict[str, int] = {}
        self.workspace = Workspace()
        self.late: frozenset[str] = frozenset()
        super().__init__(seed, tasks=0)

    def replan(self) -> None:
        group = self.leader.group
        self.awaited = {
            identity: until_ms
            for identity, until_ms in self.awaited.items()
            if identity not in group.members and until_ms > self.now_ms
        }
        taken = withdrawn(group, self.late)
        self.memory = not_given(self.memory, taken)
        view = View(
            now_ms=self.now_ms,
            generation=self.memory.generation + 1,
            members=members_of(group, self.late, taken),
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

    def give_to_others(self) -> None:
        """The planner does, and gives late members new tasks only if there are no others."""
        self._waits_ms = waits(self._waits_ms, self.leader.group, self.now_ms)
        found = late(self._waits_ms, self.leader.group, self.now_ms)
        if not found <= self.late:
            self.late |= found
            self.replan()

    def _leader_considers(self, report: Report, process: Process, is_held: bool) -> None:
        super()._leader_considers(report, process, is_held)
        self.late -= {process.identity}

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
