"""Rolls: chooses which pods with an outdated template to replace now.

A pod that does no work is replaced at once: it has nothing to lose, and may be what the new template fixes.
The others are replaced ``max_unavailable`` at a time, highest ordinal first, each when the group is calm, the
new pods are warm and their tasks run. The roll stops when a new pod does not become ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.pool.actions import Delete
from cooperator.pool.decision import Report, ReportReason
from cooperator.pool.desired import PoolDesired
from cooperator.pool.incarnations import PodState
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason


@dataclass(frozen=True, slots=True)
class Roll:
    """``replacing``: identities that are being replaced, until their successors work.

    ``outgoing``: those of them whose old incarnation has not ended yet. ``timers_ms``: when each successor
    becomes late.
    """

    replacing: frozenset[str] = frozenset()
    outgoing: frozenset[str] = frozenset()
    reports: tuple[Report, ...] = ()
    timers_ms: tuple[int, ...] = ()


def roll(
    desired: PoolDesired,
    group: GroupSeen | None,
    slots: frozenset[str],
    incarnations: Mapping[str, PodState],
    memory: PoolMemory,
    now_ms: int,
) -> Roll:
    """Return the next safe step of a roll; it replaces nothing when no pod is outdated."""
    current = {identity: incarnations[identity] for identity in slots if identity in incarnations}
    outdated = {
        i: pod_state for i, pod_state in current.items() if pod_state.pod.revision != desired.revision
    }
    since_ms = now_ms - desired.policy.retry_ms
    begun = {
        i
        for i, pod_state in outdated.items()
        if pod_state.terminating or _marked(pod_state) or _delete_requested(pod_state, memory, since_ms)
    }
    begun |= {i for i in slots & memory.rolling if _awaits_successor(current.get(i), desired.revision)}
    idle = {i for i, pod_state in outdated.items() if i not in begun and _idle(pod_state)}
    late = _late(current, desired, now_ms)
    picked: set[str] = set()
    if group is not None and group.calm and not late and not _about_to_move(slots, incarnations):
        unavailable = sum(
            1
            for i in slots
            if i not in current or not current[i].available or (i not in outdated and current[i].starting)
        )
        budget = desired.policy.max_unavailable - unavailable
        working = [i for i, pod_state in outdated.items() if pod_state.available]
        picked = set(sorted(working, key=lambda i: -current[i].ordinal)[: max(budget, 0)])
    replacing = frozenset(begun | idle | picked)
    ready_timeout_ms = desired.policy.ready_timeout_ms
    waiting = [current[i].seen.since_ms + ready_timeout_ms for i in current if _awaited(current[i])]
    reports = [
        Report(
            ReportReason.NOT_READY,
            i,
            f"{i} has not joined the group within {ready_timeout_ms / 1000:g} s of its start: check its log",
        )
        for i in late
    ]
    if late and outdated:
        reports.append(
            Report(
                ReportReason.ROLL_STALLED,
                desired.name,
                f"{len(outdated)} outdated members are not replaced, since {', '.join(late)} did not become "
                "ready with the new template: fix the template; the roll then resumes",
            )
        )
    return Roll(
        replacing,
        replacing & outdated.keys(),
        tuple(reports),
        tuple(at_ms for at_ms in waiting if at_ms > now_ms),
    )


def _about_to_move(slots: frozenset[str], incarnations: Mapping[str, PodState]) -> bool:
    """Return whether a pod with tasks is leaving by a decision so recent that the group does not show it."""
    return any(
        pod_state.member is not None
        and pod_state.member.busy
        and not (identity in slots and pod_state.available)
        for identity, pod_state in incarnations.items()
        if not pod_state.ended
    )


def _awaits_successor(pod_state: PodState | None, revision: str) -> bool:
    return (
        pod_state is None
        or pod_state.ended
        or (pod_state.pod.revision == revision and not pod_state.available)
    )


def _delete_requested(pod_state: PodState, memory: PoolMemory, since_ms: int) -> bool:
    """Return whether a recent ``Delete`` is under way. An older one may be lost, and must not end the pod at
    an unsuitable time."""
    asked = memory.asked.get(pod_state.pod.identity)
    order = Delete(pod_state.pod.identity, pod_state.pod.incarnation)
    return asked is not None and asked.action == order and asked.at_ms > since_ms


def _marked(pod_state: PodState) -> bool:
    return pod_state.pod.mark is MarkReason.ROLL


def _idle(pod_state: PodState) -> bool:
    """Return whether it certainly does no work. A pod that is cut off may be working; only its node can end
    it."""
    if pod_state.ended:
        return pod_state.pod.self_restarting
    return pod_state.staying and pod_state.reachable and (pod_state.unborn or pod_state.workless)


def _awaited(pod_state: PodState) -> bool:
    return pod_state.staying and pod_state.workless


def _late(current: Mapping[str, PodState], desired: PoolDesired, now_ms: int) -> list[str]:
    return sorted(
        identity
        for identity, pod_state in current.items()
        if _awaited(pod_state)
        and pod_state.pod.revision == desired.revision
        and now_ms - pod_state.seen.since_ms >= desired.policy.ready_timeout_ms
    )
