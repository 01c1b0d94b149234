"""The leaders of a simulated group: Kafka's elected leaders, or the operator.

A leader turns one round into an outcome; the driver applies the group's rules (which members get it, when the
next round is). Kafka's leaders are workers: each remembers only the rounds that it led, and lags behind when
it does not read the config topic. The operator is not a worker, and its memory outlives any leader.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from cooperator.model import Assignment, Member, Memory, Policy, PolicyName
from cooperator.planner import Facts, Plan, View, Workspace, plan
from cooperator.scenarios.group import ScenarioGroup
from cooperator.scenarios.knowledge import Knowledge
from cooperator.scenarios.workers import Process

CONFIG_MISMATCH = 1


@dataclass(frozen=True, slots=True)
class LeaderOutcome:
    """The decision of a round. ``state``: fresh, carried or stale; ``before`` and ``after``: the memories
    around the round. ``config``: the number of tasks of each connector, as far as the leader has read.
    """

    leader: str
    leader_last_completed: int
    config_offset: int
    plan: Plan
    config: Mapping[str, int]
    error: int = 0
    state: str = ""
    before: Memory = field(default_factory=Memory)
    after: Memory = field(default_factory=Memory)

    def assignment(self, member_id: str) -> Assignment:
        return self.plan.assignments[member_id]


class Leader(Protocol):
    def prepare(self, group: ScenarioGroup) -> None:
        """Carry out the members' own actions before a round."""

    def decide(self, group: ScenarioGroup, cause: str) -> LeaderOutcome:
        """Plan the round that the members of ``group`` have joined."""


def leader_for(policy: PolicyName, knowledge: Knowledge | None) -> Leader:
    """Return the leader for a policy; only the operator uses ``knowledge``."""
    match policy:
        case PolicyName.KIP415:
            return ElectedLeader(policy)
        case PolicyName.EAGER:
            return StopTheWorldLeader(policy)
        case PolicyName.DEFAULT:
            return ScenarioOperator(policy, knowledge)


class ElectedLeader:
    """Kafka's leader: the worker that the broker elected, with that process's memory."""

    def __init__(self, policy: PolicyName) -> None:
        self.policy = policy
        self._last: Process | None = None

    def prepare(self, group: ScenarioGroup) -> None:
        for process in [p for p in group.processes.values() if p.draining]:
            group.end(process)

    def decide(self, group: ScenarioGroup, cause: str) -> LeaderOutcome:
        leader, members = group.leader(), group.members()
        before = self._memory(leader)
        state = "fresh" if leader.memory is None else "carried" if leader is self._last else "stale"
        offset = max(group.offset_of(member) for member in members)
        last_completed, config = leader.last_completed_generation, dict(group.config_of(leader))
        if group.offset_of(leader) < offset:
            nothing = Plan({member.member_id: Assignment() for member in members})
            leader.memory, self._last = before, leader
            return LeaderOutcome(
                leader.member_id,
                last_completed,
                offset,
                nothing,
                config,
                CONFIG_MISMATCH,
                state,
                before,
                before,
            )
        view = View(
            now_ms=group.now_ms,
            generation=group.generation,
            members=self._members(group),
            tasks=config,
            policy=_policy(group, self.policy),
            cause=cause,
            last_completed_generation=last_completed,
            leader_id=leader.member_id,
        )
        decided, after = plan(view, before)
        leader.memory, self._last = after, leader
        return LeaderOutcome(
            leader.member_id, last_completed, offset, decided, config, 0, state, before, after
        )

    def _members(self, group: ScenarioGroup) -> tuple[Member, ...]:
        return members_of(group)

    def _memory(self, leader: Process) -> Memory:
        return leader.memory or Memory()


class StopTheWorldLeader(ElectedLeader):
    """The eager protocol: every worker stops everything before it joins. All are Kafka's, without leases."""

    def _members(self, group: ScenarioGroup) -> tuple[Member, ...]:
        return tuple(replace(member, is_agent=False) for member in super()._members(group))

    def _memory(self, leader: Process) -> Memory:
        memory = super()._memory(leader)
        return replace(memory, leaseless=tuple(sorted({*memory.given, *memory.holds})), unstopped=())

    def prepare(self, group: ScenarioGroup) -> None:
        super().prepare(group)
        for process in group.members():
            group.meter.stops_before_joining(process, group.now_ms)
            process.running = {}


class ScenarioOperator:
    """Cooperator's leader: it knows each pod's end at once, and recognizes a pod that comes back.

    With ``knowledge`` it also knows what it has ordered: which pods will be back, and which will join soon.
    """

    def __init__(
        self, policy: PolicyName, knowledge: Knowledge | None, workspace: Workspace | None = None
    ) -> None:
        self.policy, self.knowledge = policy, knowledge
        self._workspace = workspace or Workspace()
        self.memory = Memory()

    def prepare(self, group: ScenarioGroup) -> None:
        for process in [p for p in group.processes.values() if p.draining and not p.running]:
            group.end(process)

    def decide(self, group: ScenarioGroup, cause: str) -> LeaderOutcome:
        before = self.memory
        decided, self.memory = plan(self.view(group, cause), before, self._workspace)
        learned_ms = group.state.tell(self.memory, group.members(), group.now_ms)
        timers_ms = (decided.rejoin_at_ms, learned_ms)
        group.leader_timer_ms = min((at_ms for at_ms in timers_ms if at_ms is not None), default=None)
        return LeaderOutcome(
            "operator",
            group.generation - 1,
            group.config_offset,
            decided,
            dict(group.config),
            0,
            "carried",
            before,
            self.memory,
        )

    def view(self, group: ScenarioGroup, cause: str) -> View:
        """Return all that it knows in this round."""
        policy = _policy(group, self.policy)
        return View(
            now_ms=group.now_ms,
            generation=group.generation,
            members=members_of(group),
            tasks=group.config,
            policy=policy,
            facts=self._facts(group, policy.join_wait_ms),
            unstarted=frozenset(group.unstarted),
            cause=cause,
            stateful=group.state.stateful(),
            behind_bytes=group.state.behind_bytes(group.members(), group.now_ms),
        )

    def _facts(self, group: ScenarioGroup, bound_ms: int) -> Facts:
        facts = Facts(
            expected=group.expected, ended=frozenset(group.ended), cordoned=frozenset(group.cordoned)
        )
        if self.knowledge is None:
            return facts
        present = frozenset(process.name for process in group.processes.values())
        expected = self.knowledge.expected(group.now_ms, present, bound_ms)
        return replace(
            facts,
            expected=expected if group.expected is None else group.expected,
            leaving=self.knowledge.leaving(group.now_ms, bound_ms),
            gone=self.knowledge.gone(group.now_ms, present),
        )


def members_of(group: ScenarioGroup) -> tuple[Member, ...]:
    """Return the members as they report themselves, in the iteration order of Kafka's leader."""
    return tuple(
        Member(
            member_id=process.member_id,
            identity=process.name,
            incarnation=process.incarnation,
            owned=process.report(),
            stopping=process.stopping,
            draining=process.draining,
            warmth=process.warmth,
            is_agent=process.is_agent,
            capacity=process.capacity,
            zone=process.zone,
            learns=process.is_agent,
        )
        for process in group.members()
    )


def _policy(group: ScenarioGroup, name: PolicyName) -> Policy:
    return Policy(name=name, scheduled_rebalance_max_delay_ms=group.scenario.max_delay_ms)
