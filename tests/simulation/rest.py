"""Promise 4: after faults end, everything runs, once, balanced within 1, and then nothing moves any more."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cooperator.group import GroupState
from cooperator.leader.state import LeaderState
from cooperator.model import TaskId, TaskState, TaskStatus, Warmth
from cooperator.wire import ConfigFold

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_RUNS: Final = frozenset({TaskState.RUNNING, TaskState.PAUSED})


class Rest:
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation

    def lacks(self) -> str:
        """Describes what is not at rest yet; empty if the world is at rest."""
        return self._pods() or self._group() or self._tasks() or self._balance()

    def picture(self) -> dict[str, object]:
        """Everything that must not change any more."""
        group = self._simulation.coordinator.group
        return {
            "generation": None if group is None else group.generation,
            "copies": sorted(map(str, self._simulation.copies.all())),
            "pods": sorted(pod.incarnation for pod in self._simulation.cluster.pods.values()),
            "lacks": self.lacks(),
        }

    def _pods(self) -> str:
        simulation = self._simulation
        pods = simulation.cluster.pods
        if len(pods) != simulation.spec.replicas:
            return f"{len(pods)} pods instead of {simulation.spec.replicas}"
        for pod in pods.values():
            if pod.deleted_ms is not None or pod.mark is not None or pod.revision != simulation.spec.template:
                return f"{pod.identity} is not as it should be: {pod}"
        alive = sorted(member.identity for member in simulation.members)
        return "" if alive == sorted(pods) else f"processes: {alive}"

    def _group(self) -> str:
        simulation = self._simulation
        group = simulation.coordinator.group
        if group is None or group.state is not GroupState.STABLE:
            return "the group is not stable"
        if len(group.members) != simulation.spec.replicas + 1:
            return f"{len(group.members)} members in the group"
        leading = [
            o for o in simulation.operators if o.lead is not None and o.lead.standing.epoch is not None
        ]
        if len(leading) != 1:
            return f"{len(leading)} operators lead"
        lead = leading[0].lead
        cold = [m.identity for m in lead.machine.state.members if m.warmth is not Warmth.WARM] if lead else ()
        if cold:
            return f"not warm, as far as the leader knows: {cold}"
        if lead is not None and lead.machine.state.all_stock:
            # Stock workers send a changed connector's tasks even if they are the same: that is a round.
            connectors = lead.machine.state.config.connectors
            unsent = sorted(name for name, c in connectors.items() if c.applied != c.config)
            if unsent:
                return f"tasks are to come of {unsent}"
        if lead is not None and lead.machine.wants_round:
            # Commits of tasks share a round: it is asked for a moment after the first of them.
            return "the leader is about to ask for a round"
        if lead is not None and lead.machine.state.refusal:
            # The leader reads a limit that was raised only after a pause.
            return f"refused: {lead.machine.state.refusal}"
        if lead is not None and not lead.machine.state.all_stock:
            untrue = self._forgotten(lead.machine.state) or self._untrue(leading[0].statuses())
            if untrue:
                return untrue
        learning = lead and self._learning(lead.machine.state)
        if learning:
            return learning
        if lead is not None and self._may_leave_rounds(lead.machine.state):
            return "the group is in rounds, and could reconcile without"
        plan = lead.machine.state.plan if lead is not None else None
        if plan is not None and plan.held:
            return f"held: {sorted(map(str, plan.held))}"
        if plan is not None and plan.rejoin_at_ms is not None:
            return f"the leader waits until {plan.rejoin_at_ms}"
        return ""

    def _forgotten(self, state: LeaderState) -> str:
        """Whoever reads the config log from its start, after any compaction, knows what the leader knows."""
        records = self._simulation.topics.of(self._simulation.topic_names.config).records
        newest = {record.key: offset for offset, record in records}
        fold = ConfigFold()
        for offset, record in records:
            if newest[record.key] == offset:
                fold.apply(record, offset)
        found = fold.snapshot().connectors
        lost = sorted(
            name
            for name, known in state.config.connectors.items()
            if name not in found or (found[name].config, found[name].tasks) != (known.config, known.tasks)
        )
        return f"a new reader of the config log does not find {lost}" if lost else ""

    def _untrue(self, statuses: Mapping[TaskId, TaskStatus]) -> str:
        """What is shown is what runs. (Statuses of stock workers are theirs.)"""
        for copy in self._simulation.copies.all():
            if copy.member.is_stock:
                continue
            status = statuses.get(copy.task)
            if status is None or status.worker != copy.member.identity or status.state not in _RUNS:
                return f"{copy} is shown as {status}"
        return ""

    def _learning(self, state: LeaderState) -> str:
        """Every warm-up is over, and every standby is learned."""
        if state.memory.warmups:
            return f"warm-ups: {state.memory.warmups}"
        learning = {member.identity: member.runtime.learning.tasks for member in self._simulation.members}
        for identity, tasks in state.memory.standbys.items():
            if learning.get(identity) != tasks:
                return f"{identity} learns {sorted(learning.get(identity, ()))} instead of {sorted(tasks)}"
        if not state.memory.standbys and any(learning.values()):
            return f"still learned: {learning}"
        return ""

    def _may_leave_rounds(self, state: LeaderState) -> bool:
        is_able = state.policy.reconciles and all(member.reconciles for member in state.members)
        return is_able and state.group is None and not state.unreached

    def _tasks(self) -> str:
        simulation = self._simulation
        wanted = simulation.spec.tasks()
        copies = Counter(copy.task for copy in simulation.copies.all())
        for task in sorted(wanted | copies.keys()):
            if copies[task] != (task in wanted):
                return f"{task} runs {copies[task]} times, {len(wanted)} tasks are wanted"
        for copy in simulation.copies.all():
            if not copy.started or copy.stopping:
                return f"{copy} is on its way"
            configured = copy.member.configured(copy.task)
            if configured != copy.config:
                return f"{copy} runs with an old configuration"
        return ""

    def _balance(self) -> str:
        simulation = self._simulation
        loads: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        heaviest = 1.0
        weights = {name: connector.weight for name, connector in simulation.spec.connectors.items()}
        weighted: Counter[str] = Counter()
        for copy in simulation.copies.all():
            task: TaskId = copy.task
            loads[task.is_instance][copy.member.identity] += 1
            if not task.is_instance:
                weighted[copy.member.identity] += weights[task.connector]  # type: ignore[assignment]
        for instances, load in loads.items():
            counts = [load[member.identity] for member in simulation.members]
            if instances or all(weight == 1.0 for weight in weights.values()):
                if max(counts) - min(counts) > 1:
                    return f"out of balance: {dict(load)}"
                continue
            heaviest = max(weights.values())
            mean = sum(weighted.values()) / len(simulation.members)
            if max(weighted.values(), default=0) > mean + heaviest:
                return f"out of balance by weight: {dict(weighted)}"
        return ""
