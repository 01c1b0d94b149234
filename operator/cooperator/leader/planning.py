"""Builds the view of a round, and compares a plan with the current assignment. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.leader import answers
from cooperator.leader.fitting import Fitted, fit
from cooperator.leader.state import LeaderState
from cooperator.leader.status_log_maintenance import StatusLogMaintenance
from cooperator.leader.stock.handback import evenly
from cooperator.model import ConnectorConfig, Memory, Policy, PolicyName, TaskId
from cooperator.model.java import KnownNames
from cooperator.planner import Workspace, default, step
from cooperator.planner import plan as decide
from cooperator.planner.layout import layout_of
from cooperator.planner.plan import Plan
from cooperator.planner.problem import Assignor
from cooperator.planner.view import View
from cooperator.wire import Protocol

Layout = Mapping[str, frozenset[TaskId]]
"""The tasks of every identity."""


class Planning:
    """Asks the planner on behalf of one leader."""

    def __init__(
        self, state: LeaderState, maintenance: StatusLogMaintenance, assignors: Mapping[str, Assignor]
    ) -> None:
        self._state = state
        self._maintenance = maintenance
        self._workspace = Workspace(assignors)
        self._counted: tuple[Mapping[str, ConnectorConfig], Mapping[str, int]] | None = None

    def decide(self, view: View, memory: Memory) -> Fitted:
        """The part of a round's plan that fits into the group's record, and the memory that must be durable
        before it is sent.
        """
        plan, after = decide(view, memory, self._workspace)
        return fit(plan, after, view, memory, self._state.record, self._state.max_group_bytes)

    def lay_out(self, view: View, memory: Memory) -> tuple[Layout, Plan, Memory]:
        """The tasks of every identity, the part of the way there that is safe at once, and the memory."""
        decision = default.decide(view, memory, self._workspace)
        plan, after = step.take(view, memory, decision)
        return layout_of(view, decision), plan, after

    def decide_stopped(self, view: View, memory: Memory) -> Fitted:
        """As ``decide``, of a round that every member joins without tasks (policy Eager)."""
        stopped = tuple(member.having((), frozenset(), member.applied) for member in view.members)
        return self.decide(replace(view, members=stopped), memory)

    @property
    def known_names(self) -> KnownNames | None:
        """As the workspace's."""
        return self._workspace.known_names

    def note_refused(self, fitted: Fitted) -> None:
        """Note the tasks of a plan for which the group's record has no room."""
        state = self._state
        state.refused_tasks = fitted.refused
        state.refusal = answers.refusal(fitted, state.record, state.max_group_bytes)

    @property
    def policy(self) -> Policy:
        """Where a member speaks only the eager protocol, all stop everything before they join."""
        eager = self._state.protocol == Protocol.DEFAULT.value
        return replace(self._state.policy, name=PolicyName.EAGER) if eager else self._state.policy

    def view(self, now_ms: int, cause: str) -> View:
        """The view with which a round would be planned now."""
        state = self._state
        suspended = frozenset(t for regroup in state.regroups.values() for t in regroup.affected)
        desired = state.desired.connectors if state.desired is not None else {}
        weights = {name: connector.weight for name, connector in desired.items() if connector.weight != 1.0}
        state.learners.configured(state.config.connectors)
        view = View(
            now_ms=now_ms,
            generation=state.generation,
            members=state.members,
            tasks=self.task_counts(),
            policy=self.policy,
            facts=replace(state.facts, leaving=state.facts.leaving | state.unexpected),
            weights=weights,
            suspended=suspended,
            unstarted=self._maintenance.starts.never,
            awaited=_still_awaited(state, now_ms),
            cause=cause,
            last_completed_generation=state.completed,
            leader_id=state.leader_id,
            stateful=state.learners.stateful,
            behind_bytes=state.learners.behind_bytes(state.members, now_ms),
            cannot_learn=state.learners.cannot(state.members, now_ms),
        )
        return evenly(view) if state.handing_back else view

    def task_counts(self) -> Mapping[str, int]:
        """The same object as long as the connectors are; only the offset differs from round to round."""
        connectors = self._state.config.connectors
        if self._counted is None or self._counted[0] is not connectors:
            self._counted = connectors, self._state.config.task_counts()
        return self._counted[1]


def _still_awaited(state: LeaderState, now_ms: int) -> Mapping[str, int]:
    """Until when (ms) incarnations are awaited that the leader evicted, or that serve at another address."""
    until_ms = {identity: max(places.values()) for identity, places in state.relocated.items()}
    for identity, at_ms in state.awaited.items():
        until_ms[identity] = max(at_ms, until_ms.get(identity, 0))
    return {identity: at_ms for identity, at_ms in until_ms.items() if at_ms > now_ms}
