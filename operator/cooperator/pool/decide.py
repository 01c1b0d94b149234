"""The decision: deaths, then which ordinals, then who is replaced; at most one action for each pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cooperator.pool.actions import Action, Create, Delete, Drain, Kill, Remove, UnDrain
from cooperator.pool.decision import Decision
from cooperator.pool.desired import PoolDesired, RollStrategy
from cooperator.pool.lives import Life, backoff_ms, survey
from cooperator.pool.memory import Asked, PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason, Phase, PoolObserved
from cooperator.pool.poison import watch
from cooperator.pool.roll import Roll, roll
from cooperator.pool.slots import choose
from cooperator.pool.tell import facts, reports


def decide(desired: PoolDesired, observed: PoolObserved, memory: PoolMemory, now_ms: int) -> Decision:
    """What to do about the pods of a pool now.

    ``now_ms``: milliseconds since the epoch. The same arguments give the same decision, and a decision whose
    actions do not show yet is followed by one without actions. Pods of other names are not touched.
    """
    seen = survey(desired, observed, memory, now_ms)
    memory = watch(seen.memory, observed.group, seen.crashed, desired.policy.poison_deaths)
    slots = choose(desired, observed.group, seen.lives, memory, now_ms)
    names = frozenset(map(desired.identity, slots.ordinals))
    step = roll(desired, observed.group, names, seen.lives, memory, now_ms)
    acting = _Acting(desired, observed.group, memory, names, seen.lives, step, now_ms)
    concerned = names | seen.lives.keys() | memory.asked.keys()
    for identity in sorted(concerned, key=lambda i: desired.ordinal(i) or 0):
        acting.consider(identity)
    memory = replace(
        _pruned(memory, names, observed.group),
        slots=slots.ordinals,
        rolling=step.replacing,
        shrink_since_ms=slots.shrink_since_ms,
        asked=acting.asked,
    )
    timers_ms = [*acting.timers_ms, *step.timers_ms]
    timers_ms += [since + desired.policy.stand_in_after_ms for since in memory.cut_off.values()]
    if slots.timer_ms is not None:
        timers_ms.append(slots.timer_ms)
    return Decision(
        actions=tuple(acting.actions),
        facts=facts(desired, observed, memory, names, seen.lives, step),
        memory=memory,
        reports=(*step.reports, *reports(desired, memory, seen.lives, slots)),
        next_ms=min((at_ms for at_ms in timers_ms if at_ms > now_ms), default=None),
    )


@dataclass(slots=True)
class _Acting:
    """Collects the actions of one decision, and does not ask twice for one that is on its way."""

    desired: PoolDesired
    group: GroupSeen | None
    memory: PoolMemory
    names: frozenset[str]
    lives: Mapping[str, Life]
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
            and _unseen(earlier.action, self.lives.get(identity))
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
        life = self.lives.get(identity)
        if life is None and identity not in self.names:
            return None
        if life is None:
            crashes = self.memory.crashes.get(identity)
            due_ms = crashes.last_ms + backoff_ms(crashes, self.desired.policy) if crashes else 0
            return Create(identity, self.desired.revision) if self._due(due_ms) else None
        if life.ended:
            return self._bury(identity, life)
        if life.terminating:
            return self._hurry(identity, life)
        if self.group is not None and (identity, life.pod.incarnation) in self.group.hung:
            return Delete(identity, life.pod.incarnation)
        if identity not in self.names:
            return self._see_off(identity, life, MarkReason.SCALE_DOWN)
        if identity in self.step.outgoing:
            if self.desired.policy.strategy is RollStrategy.DRAIN:
                return self._see_off(identity, life, MarkReason.ROLL)
            return Delete(identity, life.pod.incarnation)
        return UnDrain(identity, life.pod.incarnation) if life.pod.mark is not None else None

    def _bury(self, identity: str, life: Life) -> Action | None:
        """Clear away what has ended, so that its successor can have the name."""
        if life.pod.phase is Phase.ENDED and not life.pod.self_restarting:
            return Remove(identity, life.pod.incarnation)
        if life.pod.phase is Phase.TERMINATING:
            return None
        goes_on = life.pod.phase is Phase.ENDED and identity in self.names - self.step.outgoing
        return None if goes_on else Delete(identity, life.pod.incarnation)

    def _hurry(self, identity: str, life: Life) -> Action | None:
        """It was told to end; when it takes too long, it is killed, unless the platform does that."""
        since_ms, limit_ms = life.pod.terminating_since_ms, self.desired.policy.kill_after_ms
        if since_ms is None or limit_ms is None or not self._due(since_ms + limit_ms):
            return None
        return Kill(identity, life.pod.incarnation)

    def _see_off(self, identity: str, life: Life, reason: MarkReason) -> Action | None:
        """Let it go: marked first, told to end when nothing is left to move, or nobody to move it to."""
        delete = Delete(identity, life.pod.incarnation)
        if life.unborn or life.stuck or self.desired.replicas == 0:
            return delete
        if life.pod.mark is None:
            return Drain(identity, life.pod.incarnation, reason)
        idle = self.group is not None and (life.member is None or not life.member.busy)
        overdue = self._due(life.pod.mark.since_ms + self.desired.policy.drain_timeout_ms)
        return delete if idle or overdue else None

    def _due(self, at_ms: int) -> bool:
        if at_ms > self.now_ms:
            self.timers_ms.append(at_ms)
        return at_ms <= self.now_ms


def _same(action: Action, earlier: Action) -> bool:
    """A pod that is being made is not made again because the template has changed meanwhile."""
    return action == earlier or (isinstance(action, Create) and isinstance(earlier, Create))


def _unseen(action: Action, life: Life | None) -> bool:
    """Whether what is seen does not show yet that ``action`` was carried out."""
    if isinstance(action, Create):
        return life is None
    if life is None or life.pod.incarnation != action.incarnation:
        return False
    pod = life.pod
    match action:
        case Drain():
            return life.staying and pod.mark is None
        case UnDrain():
            return life.staying and pod.mark is not None
        case Delete():
            return pod.phase is not Phase.TERMINATING and (
                pod.phase is not Phase.ENDED or pod.self_restarting
            )
        case Kill():
            return pod.phase is not Phase.ENDED
        case Remove():
            return True


def _pruned(memory: PoolMemory, names: frozenset[str], group: GroupSeen | None) -> PoolMemory:
    """Without what is known of identities that nobody will ask about again."""
    known = names | memory.lives.keys()
    spoken_of = known | (group.held | group.members.keys() if group is not None else memory.ended.keys())
    return replace(
        memory,
        crashes={i: crashes for i, crashes in memory.crashes.items() if i in known},
        ended={i: ended for i, ended in memory.ended.items() if i in spoken_of},
    )
