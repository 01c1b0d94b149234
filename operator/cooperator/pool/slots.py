"""Chooses the ordinals of a pool: as many as replicas, the lowest ones, with minimal change.

candidates = slots of the last decision − stuck
too many   → pods that do not run leave first, and at once; then the highest, all together, once the group
             is calm and the number has been stable for a while (an autoscaler's sawtooth moves nothing)
too few    → pods that are still leaving are kept; then the lowest free ordinals
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.pool.desired import PoolDesired
from cooperator.pool.incarnations import PodState
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason


@dataclass(frozen=True, slots=True)
class Slots:
    """``waiting``: ordinals that will leave once the group allows it; ``timer_ms``: when to decide again."""

    ordinals: frozenset[int]
    waiting: tuple[int, ...] = ()
    shrink_since_ms: int | None = None
    timer_ms: int | None = None


def choose(
    desired: PoolDesired,
    group: GroupSeen | None,
    incarnations: Mapping[str, PodState],
    memory: PoolMemory,
    now_ms: int,
) -> Slots:
    """Choose the ordinals that should have a pod from now on."""
    by_ordinal = {pod_state.ordinal: pod_state for pod_state in incarnations.values()}
    stuck = {ordinal for ordinal, pod_state in by_ordinal.items() if pod_state.stuck}
    current = memory.slots if memory.slots is not None else _unmarked(by_ordinal)
    candidates = sorted(current - stuck, key=lambda ordinal: (not _runs(by_ordinal.get(ordinal)), ordinal))
    kept, victims = candidates[: desired.replicas], candidates[desired.replicas :]
    living = tuple(ordinal for ordinal in victims if _runs(by_ordinal.get(ordinal)))
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


def _unmarked(by_ordinal: Mapping[int, PodState]) -> frozenset[int]:
    """Return the ordinals without a scale-down mark, for a host without memory."""
    return frozenset(
        ordinal
        for ordinal, pod_state in by_ordinal.items()
        if pod_state.pod.mark is not MarkReason.SCALE_DOWN
    )


def _runs(pod_state: PodState | None) -> bool:
    """Return whether tasks might have to move: the pod runs, and was not asked to end."""
    return pod_state is not None and pod_state.staying and not pod_state.unborn


def _grown(
    candidates: list[int], replicas: int, by_ordinal: Mapping[int, PodState], stuck: set[int]
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
