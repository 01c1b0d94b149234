"""The decision: deaths first, then ordinals, then replacements; at most one action for each pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cooperator.pool.actions import Action, Create, Delete, Drain, Kill, Remove, UnDrain
from cooperator.pool.decision import Decision
from cooperator.pool.desired import PoolDesired, RollStrategy
from cooperator.pool.incarnations import PodState, backoff_ms, survey
from cooperator.pool.memory import Asked, PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason, Phase, PoolObserved
from cooperator.pool.poison import timers_ms as poison_timers_ms
from cooperator.pool.poison import watch
from cooperator.pool.reporting import facts, reports
from cooperator.pool.roll import Roll, roll
from cooperator.pool.slots import choose


def decide(desired: PoolDesired, observed: PoolObserved, memory: PoolMemory, now_ms: int) -> Decision:
    """Decide what to do about the pods of a pool now.

    ``now_ms``: milliseconds since the epoch. The same arguments give the same decision, and until its actions
    show an effect, the next decisions do not repeat them. Pods with other names are not touched.
    """
    seen = survey(desired, observed, memory, now_ms)
    memory = watch(seen.memory, observed, seen.crashed, desired.policy.poison_deaths, now_ms)
    slots = choose(desired, observed.group, seen.incarnations, memory, now_ms)
    names = frozenset(map(desired.identity, slots.ordinals))
    step = roll(desired, observed.group, names, seen.incarnations, memory, now_ms)
    acting = _Acting(desired, observed.group, memory, names, seen.incarnations, step, now_ms)
    concerned = names | seen.incarnations.keys() | memory.asked.keys()
    for identity in sorted(concerned, key=lambda i: desired.ordinal(i) or 0):
        acting.consider(identity)
    memory = replace(
        _pruned(memory, names, observed.group),
        slots=slots.ordinals,
        rolling=step.replacing,
        shrink_since_ms=slots.shrink_since_ms,
        asked=acting.asked,
    )
    timers_ms = [*acting.timers_ms, *step.timers_ms, *poison_timers_ms(memory)]
    timers_ms += [since + desired.policy.stand_in_after_ms for since in memory.cut_off.values()]
    if slots.timer_ms is not None:
        timers_ms.append(slots.timer_ms)
    return Decision(
        actions=tuple(acting.actions),
        facts=facts(desired, observed, memory, names, seen.incarnations, step),
        memory=memory,
        reports=(*step.reports, *reports(desired, memory, seen.incarnations, slots)),
        next_ms=min((at_ms for at_ms in timers_ms if at_ms > now_ms), default=None),
    )


@dataclass(slots=True)
class _Acting:
    """Collects the actions of one decision, without repeating actions that are under way."""

    desired: PoolDesired
    group: GroupSeen | None
    memory: PoolMemory
    names: frozenset[str]
    incarnations: Mapping[str, PodState]
    step: Roll
    now_ms: int
    actions: list[Action] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    timers_ms: list[int] = field(default_factory=list)

    def consider(self, identity: str) -> None:
        earlier = self.memory.asked.get(identity)
        on_its_way = (
            earlier is not None
            and self.now_ms < earlier.at_ms + self.desired.policy.retry_ms
            and _unseen(earlier.action, self.incarnations.get(identity))
        )
        action = self._wanted(identity)
        if on_its_way and earlier is not None and (action is None or _same(action, earlier.action)):
            self.asked[identity] = earlier
            self.timers_ms.append(earlier.at_ms + self.desired.policy.retry_ms)
        elif action is not None:
            self.asked[identity] = Asked(action, self.now_ms)
            self.timers_ms.append(self.now_ms + self.desired.policy.retry_ms)
            self.actions.append(action)

    def _wanted(self, identity: str) -> Action | None:
        pod_state = self.incarnations.get(identity)
        if pod_state is None and identity not in self.names:
            return None
        if pod_state is None:
            crashes = self.memory.crashes.get(identity)
            due_ms = crashes.last_ms + backoff_ms(crashes, self.desired.policy) if crashes else 0
            return Create(identity, self.desired.revision) if self._due(due_ms) else None
        if pod_state.ended:
            return self._bury(identity, pod_state)
        if pod_state.terminating:
            return self._hurry(identity, pod_state)
        if self.group is not None and (identity, pod_state.pod.incarnation) in self.group.hung:
            return Delete(identity, pod_state.pod.incarnation)
        if identity not in self.names:
            return self._see_off(identity, pod_state, MarkReason.SCALE_DOWN)
        if identity in self.step.outgoing:
            if self.desired.policy.strategy is RollStrategy.DRAIN:
                return self._see_off(identity, pod_state, MarkReason.ROLL)
            return Delete(identity, pod_state.pod.incarnation)
        return UnDrain(identity, pod_state.pod.incarnation) if pod_state.pod.mark is not None else None

    def _bury(self, identity: str, pod_state: PodState) -> Action | None:
        """Remove an ended incarnation, so that its successor can have the name."""
        if pod_state.pod.phase is Phase.ENDED and not pod_state.pod.self_restarting:
            return Remove(identity, pod_state.pod.incarnation)
        if pod_state.pod.phase is Phase.TERMINATING:
            return None
        goes_on = pod_state.pod.phase is Phase.ENDED and identity in self.names - self.step.outgoing
        return None if goes_on else Delete(identity, pod_state.pod.incarnation)

    def _hurry(self, identity: str, pod_state: PodState) -> Action | None:
        """Kill an incarnation that takes too long to end, unless the platform does that."""
        since_ms, limit_ms = pod_state.seen.terminating_since_ms, self.desired.policy.kill_after_ms
        if since_ms is None or limit_ms is None or not self._due(since_ms + limit_ms):
            return None
        return Kill(identity, pod_state.pod.incarnation)

    def _see_off(self, identity: str, pod_state: PodState, reason: MarkReason) -> Action | None:
        """Drain and delete the pod: mark it first, and delete it when nothing is left to move, or no pod will
        stay."""
        delete = Delete(identity, pod_state.pod.incarnation)
        if pod_state.unborn or pod_state.stuck or self.desired.replicas == 0:
            return delete
        since_ms = pod_state.seen.marked_since_ms
        if since_ms is None:
            return Drain(identity, pod_state.pod.incarnation, reason)
        idle = self.group is not None and (pod_state.member is None or not pod_state.member.busy)
        overdue = self._due(since_ms + self.desired.policy.drain_timeout_ms)
        return delete if idle or overdue else None

    def _due(self, at_ms: int) -> bool:
        if at_ms > self.now_ms:
            self.timers_ms.append(at_ms)
        return at_ms <= self.now_ms


def _same(action: Action, earlier: Action) -> bool:
    """Compare actions; two creations are equal, so a pod is not created twice when its template changes."""
    return action == earlier or (isinstance(action, Create) and isinstance(earlier, Create))


def _unseen(action: Action, pod_state: PodState | None) -> bool:
    """Return whether the observed state does not show an effect of ``action`` yet."""
    if isinstance(action, Create):
        return pod_state is None
    if pod_state is None or pod_state.pod.incarnation != action.incarnation:
        return False
    pod = pod_state.pod
    match action:
        case Drain():
            return pod_state.staying and pod.mark is None
        case UnDrain():
            return pod_state.staying and pod.mark is not None
        case Delete():
            return pod.phase is not Phase.TERMINATING and (
                pod.phase is not Phase.ENDED or pod.self_restarting
            )
        case Kill():
            return pod.phase is not Phase.ENDED
        case Remove():
            return True


def _pruned(memory: PoolMemory, names: frozenset[str], group: GroupSeen | None) -> PoolMemory:
    """Forget identities that will not be needed again."""
    known = names | memory.incarnations.keys()
    spoken_of = known | (group.held | group.members.keys() if group is not None else memory.ended.keys())
    return replace(
        memory,
        crashes={i: crashes for i, crashes in memory.crashes.items() if i in known},
        ended={i: ended for i, ended in memory.ended.items() if i in spoken_of},
    )
