"""Which ordinals a pool should have: as many as replicas, the lowest, with as little change as can be.

candidates = slots of the last decision − stuck
too many   → who does not live leaves first, and at once; then the highest, all together, once the group
             is calm and the wish has stood for a while (an autoscaler's sawtooth moves nothing)
too few    → whoever is still leaving stays after all; then the lowest free ordinals
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.pool.desired import PoolDesired
from cooperator.pool.lives import Life
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason


@dataclass(frozen=True, slots=True)
class Slots:
    """``waiting``: ordinals that will leave once the group lets them; ``timer_ms``: when to look again."""

    ordinals: frozenset[int]
    waiting: tuple[int, ...] = ()
    shrink_since_ms: int | None = None
    timer_ms: int | None = None


def choose(
    desired: PoolDesired,
    group: GroupSeen | None,
    lives: Mapping[str, Life],
    memory: PoolMemory,
    now_ms: int,
) -> Slots:
    """The ordinals that should have a pod from now on."""
    by_ordinal = {life.ordinal: life for life in lives.values()}
    stuck = {ordinal for ordinal, life in by_ordinal.items() if life.stuck}
    current = memory.slots if memory.slots is not None else _unmarked(by_ordinal)
    candidates = sorted(current - stuck, key=lambda ordinal: (not _lives(by_ordinal.get(ordinal)), ordinal))
    kept, victims = candidates[: desired.replicas], candidates[desired.replicas :]
    living = tuple(ordinal for ordinal in victims if _lives(by_ordinal.get(ordinal)))
    if not living or desired.replicas == 0:
        return Slots(_grown(kept, desired.replicas, by_ordinal, stuck))
    since_ms = now_ms if memory.shrink_since_ms is None else memory.shrink_since_ms
    policy = desired.policy
    at_rest = group is not None and group.calm and not memory.rolling
    due_ms = since_ms + (policy.scale_down_delay_ms if at_rest else policy.scale_down_wait_max_ms)
    if group is not None and due_ms <= now_ms:
        return Slots(frozenset(kept))
    timer_ms = due_ms if due_ms > now_ms else None
    return Slots(frozenset((*kept, *living)), living, since_ms, timer_ms)


def _unmarked(by_ordinal: Mapping[int, Life]) -> frozenset[int]:
    """What the marks tell a host without memory."""
    return frozenset(
        ordinal
        for ordinal, life in by_ordinal.items()
        if life.pod.mark is None or life.pod.mark.reason is not MarkReason.SCALE_DOWN
    )


def _lives(life: Life | None) -> bool:
    """Whether somebody would have to move: it runs, and nobody told it to end."""
    return life is not None and life.staying and not life.unborn


def _grown(
    candidates: list[int], replicas: int, by_ordinal: Mapping[int, Life], stuck: set[int]
) -> frozenset[int]:
    chosen = set(candidates)
    for ordinal in sorted(by_ordinal):
        if len(chosen) < replicas and by_ordinal[ordinal].staying and ordinal not in stuck:
            chosen.add(ordinal)
    ordinal = 0
    while len(chosen) < replicas:
        if ordinal not in stuck:
            chosen.add(ordinal)
        ordinal += 1
    return frozenset(chosen)
