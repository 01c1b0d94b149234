"""What a decision tells the leader (facts) and people (reports)."""

from collections.abc import Mapping

from cooperator.pool.decision import PoolFacts, Report, ReportReason
from cooperator.pool.desired import PoolDesired, RollStrategy
from cooperator.pool.lives import Life, backoff_ms
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import Node, PoolObserved
from cooperator.pool.poison import poisoned
from cooperator.pool.roll import Roll
from cooperator.pool.slots import Slots


def facts(
    desired: PoolDesired,
    observed: PoolObserved,
    memory: PoolMemory,
    names: frozenset[str],
    lives: Mapping[str, Life],
    step: Roll,
) -> PoolFacts:
    """Who should be there, who leaves, who will not come back, whose end is proven."""
    held = observed.group.held if observed.group is not None else frozenset()
    holding = desired.policy.strategy is RollStrategy.HOLD
    returning = frozenset(
        identity
        for identity in step.replacing
        if holding and (identity not in lives or lives[identity].ended or identity in step.outgoing)
    )

    def node(life: Life) -> Node:
        return (observed.nodes or {}).get(life.pod.node, Node())

    def leaves(identity: str, life: Life) -> bool:
        if life.ended or not life.reachable:
            return False
        return (
            identity not in names
            or node(life).leaving
            or (identity not in returning and (life.terminating or identity in step.outgoing))
        )

    absent = {
        identity
        for identity in held
        if desired.ordinal(identity) is not None
        and identity not in names
        and (identity not in lives or lives[identity].ended)
    }
    return PoolFacts(
        expected=names,
        leaving=frozenset(identity for identity, life in lives.items() if leaves(identity, life)),
        gone=frozenset(absent | {identity for identity, life in lives.items() if life.lost}),
        ended=frozenset((i, incarnation) for i, ended in memory.ended.items() for incarnation in ended),
        cordoned=frozenset(identity for identity, life in lives.items() if node(life).cordoned),
        returning=returning,
        poisoned=poisoned(memory, desired.policy.poison_deaths),
        zones=frozenset(
            (identity, zone)
            for identity, life in lives.items()
            if not life.ended and (zone := node(life).zone)
        ),
    )


def reports(
    desired: PoolDesired, memory: PoolMemory, lives: Mapping[str, Life], slots: Slots
) -> tuple[Report, ...]:
    """What keeps the pool from being as it should, but for the roll's own reports."""
    found = [
        Report(
            ReportReason.CRASH_LOOP,
            identity,
            f"{identity} has crashed {crashes.count} times in a row; it is created again "
            f"{backoff_ms(crashes, desired.policy) / 1000:g} s after the last time: see its log",
        )
        for identity, crashes in sorted(memory.crashes.items())
        if crashes.count > 1 and not (identity in lives and lives[identity].available)
    ]
    if slots.waiting:
        leaving = ", ".join(map(desired.identity, slots.waiting))
        found.append(
            Report(
                ReportReason.SCALE_DOWN_WAITS,
                desired.name,
                f"{leaving} will leave once no task is held or moving and no pod is being replaced",
            )
        )
    found += [
        Report(
            ReportReason.STUCK_ON_NODE,
            identity,
            f"{identity} is on node {life.pod.node}, which is unreachable, and is no member any more; "
            "another pod stands in. If the node is dead, taint it node.kubernetes.io/out-of-service",
        )
        for identity, life in sorted(lives.items())
        if life.stuck
    ]
    found += [
        Report(
            ReportReason.POISON_TASK,
            str(task),
            f"{task} was starting at {memory.suspects[task]} deaths of members in a row, and starts no more: "
            "change its connector, or restart it",
        )
        for task in sorted(poisoned(memory, desired.policy.poison_deaths))
    ]
    return tuple(found)
