"""Promise 4: after faults end, everything runs, once, balanced within 1, and then nothing moves any more."""

from collections import Counter
from typing import TYPE_CHECKING

from cooperator.group import GroupState
from cooperator.model import TaskId, Warmth

if TYPE_CHECKING:
    from simulation.world import World


class Rest:
    def __init__(self, world: "World") -> None:
        self._world = world

    def lacks(self) -> str:
        """What is not at rest yet; empty when all is."""
        return self._pods() or self._group() or self._tasks() or self._balance()

    def picture(self) -> dict[str, object]:
        """All that may not change any more."""
        group = self._world.coordinator.group
        return {
            "generation": None if group is None else group.generation,
            "copies": sorted(map(str, self._world.copies.all())),
            "pods": sorted(pod.incarnation for pod in self._world.cluster.pods.values()),
            "lacks": self.lacks(),
        }

    def _pods(self) -> str:
        world = self._world
        pods = world.cluster.pods
        if len(pods) != world.spec.replicas:
            return f"{len(pods)} pods instead of {world.spec.replicas}"
        for pod in pods.values():
            if pod.deleted_ms is not None or pod.mark is not None or pod.revision != world.spec.template:
                return f"{pod.identity} is not as it should be: {pod}"
        alive = sorted(member.identity for member in world.members)
        return "" if alive == sorted(pods) else f"processes: {alive}"

    def _group(self) -> str:
        world = self._world
        group = world.coordinator.group
        if group is None or group.state is not GroupState.STABLE:
            return "the group is not stable"
        if len(group.members) != world.spec.replicas + 1:
            return f"{len(group.members)} members in the group"
        leading = [o for o in world.operators if o.lead is not None and o.lead.standing.epoch is not None]
        if len(leading) != 1:
            return f"{len(leading)} operators lead"
        lead = leading[0].lead
        cold = [m.identity for m in lead.machine.state.members if m.warmth is not Warmth.WARM] if lead else ()
        if cold:
            return f"not warm, as far as the leader knows: {cold}"
        plan = lead.machine.state.plan if lead is not None else None
        if plan is not None and plan.held:
            return f"held: {sorted(map(str, plan.held))}"
        if plan is not None and plan.rejoin_at_ms is not None:
            return f"the leader waits until {plan.rejoin_at_ms}"
        return ""

    def _tasks(self) -> str:
        world = self._world
        wanted = world.spec.tasks()
        copies = Counter(copy.task for copy in world.copies.all())
        for task in sorted(wanted | copies.keys()):
            if copies[task] != (task in wanted):
                return f"{task} runs {copies[task]} times, {len(wanted)} tasks are wanted"
        for copy in world.copies.all():
            if not copy.started or copy.stopping:
                return f"{copy} is on its way"
            configured = copy.member.configured(copy.task)
            if configured != copy.config:
                return f"{copy} runs with an old configuration"
        return ""

    def _balance(self) -> str:
        world = self._world
        loads: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        heaviest = 1.0
        weights = {name: connector.weight for name, connector in world.spec.connectors.items()}
        weighted: Counter[str] = Counter()
        for copy in world.copies.all():
            task: TaskId = copy.task
            loads[task.is_instance][copy.member.identity] += 1
            if not task.is_instance:
                weighted[copy.member.identity] += weights[task.connector]  # type: ignore[assignment]
        for instances, load in loads.items():
            counts = [load[member.identity] for member in world.members]
            if instances or all(weight == 1.0 for weight in weights.values()):
                if max(counts) - min(counts) > 1:
                    return f"out of balance: {dict(load)}"
                continue
            heaviest = max(weights.values())
            mean = sum(weighted.values()) / len(world.members)
            if max(weighted.values(), default=0) > mean + heaviest:
                return f"out of balance by weight: {dict(weighted)}"
        return ""
