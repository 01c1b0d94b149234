"""The facts for the leader and the reports for users that come with a decision."""

from collections.abc import Mapping

from cooperator.pool.decision import PoolFacts, Report, ReportReason
from cooperator.pool.desired import PoolDesired, RollStrategy
from cooperator.pool.incarnations import PodState, backoff_ms
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import Node, PoolObserved
from cooperator.pool.poison import waiting
from cooperator.pool.roll import Roll
from cooperator.pool.slots import Slots


def facts(
    desired: PoolDesired,
    observed: PoolObserved,
    memory: PoolMemory,
    names: frozenset[str],
    incarnations: Mapping[str, PodState],
    step: Roll,
) -> PoolFacts:
    """Return which identities should exist, leave, or will not come back, and which ends are proven."""
    held = observed.group.held if observed.group is not None else frozenset()
    holding = desired.policy.strategy is RollStrategy.HOLD
    returning = frozenset(
        identity
        for identity in step.replacing
        if holding
        and (identity not in incarnations or incarnations[identity].ended or identity in step.outgoing)
    )

    def node(pod_state: PodState) -> Node:
        return (observed.nodes or {}).get(pod_state.pod.node, Node())

    def leaves(identity: str, pod_state: PodState) -> bool:
        if pod_state.ended or not pod_state.reachable:
            return False
        return (
            identity not in names
            or node(pod_state).leaving
            or (identity not in returning and (pod_state.terminating or identity in step.outgoing))
        )

    absent = {
        identity
        for identity in held
        if desired.ordinal(identity) is not None
        and identity not in names
        and (identity not in incarnations or incarnations[identity].ended)
    }
    return PoolFacts(
        expected=names,
        leaving=frozenset(
            identity for identity, pod_state in incarnations.items() if leaves(identity, pod_state)
        ),
        gone=frozenset(absent | {identity for identity, pod_state in incarnations.items() if pod_state.lost}),
        ended=frozenset((i, incarnation) for i, ended in memory.ended.items() for incarnation in ended),
        cordoned=frozenset(
            identity for identity, pod_state in incarnations.items() if node(pod_state).cordoned
        ),
        returning=returning,
        poisoned=memory.quarantined | waiting(memory, desired.policy.poison_deaths),
        suspected=waiting(memory, desired.policy.poison_deaths),
        zones=frozenset(
            (identity, zone)
            for identity, pod_state in incarnations.items()
            if not pod_state.ended and (zone := node(pod_state).zone)
        ),
        notices_ms=frozenset(
            (identity, node(pod_state).notice_ms)
            for identity, pod_state in incarnations.items()
            if leaves(identity, pod_state) and node(pod_state).leaving
        ),
    )


def reports(
    desired: PoolDesired, memory: PoolMemory, incarnations: Mapping[str, PodState], slots: Slots
) -> tuple[Report, ...]:
    """Return reports of what keeps the pool from its desired state, without the roll's own."""
    found = [
        Report(
            ReportReason.CRASH_LOOP,
            identity,
            f"{identity} has crashed {crashes.count} times in a row; it is recreated "
            f"{backoff_ms(crashes, desired.policy) / 1000:g} s after the last crash: check its log",
        )
        for identity, crashes in sorted(memory.crashes.items())
        if crashes.count > 1 and not (identity in incarnations and incarnations[identity].available)
    ]
    if slots.waiting:
        leaving = ", ".join(map(desired.identity, slots.waiting))
        found.append(
            Report(
                ReportReason.SCALE_DOWN_WAITS,
                desired.name,
                f"{leaving} will leave once no task is held or moving and no member is being replaced",
            )
        )
    found += [
        Report(
            ReportReason.STUCK_ON_NODE,
            identity,
            f"{identity} is on the unreachable node {pod_state.pod.node} and no longer in the group; another "
            "pod replaces it for now. If the node is dead, taint it with node.kubernetes.io/out-of-service",
        )
        for identity, pod_state in sorted(incarnations.items())
        if pod_state.stuck
    ]
    found += [
        Report(
            ReportReason.POISON_TASK,
            str(task),
            f"{task} was starting, or had just started, at {memory.suspects[task]} deaths of members, and is "
            "quarantined: change its connector, or restart it",
        )
        for task in sorted(memory.quarantined)
    ]
    return tuple(found)
