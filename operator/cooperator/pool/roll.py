"""Replacing pods whose template has changed: which of them now.

A pod that does no work is replaced at once: it has nothing to lose, and may be what the new template mends.
The others go one after the other (``max_unavailable``), highest ordinal first, each when the group is calm
and the new pods are warm and what they were given runs, and no further once a new pod does not get ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.pool.actions import Delete
from cooperator.pool.decision import Report, ReportReason
from cooperator.pool.desired import PoolDesired
from cooperator.pool.lives import Life
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import GroupSeen, MarkReason


@dataclass(frozen=True, slots=True)
class Roll:
    """``replacing``: identities that are, or are now, being replaced, until their successors work.

    ``outgoing``: those of them whose old life is still to end. ``timers_ms``: when a successor is late.
    """

    replacing: frozenset[str] = frozenset()
    outgoing: frozenset[str] = frozenset()
    reports: tuple[Report, ...] = ()
    timers_ms: tuple[int, ...] = ()


def roll(
    desired: PoolDesired,
    group: GroupSeen | None,
    slots: frozenset[str],
    lives: Mapping[str, Life],
    memory: PoolMemory,
    now_ms: int,
) -> Roll:
    """The next safe step of a roll; the same with nothing to roll."""
    current = {identity: lives[identity] for identity in slots if identity in lives}
    outdated = {i: life for i, life in current.items() if life.pod.revision != desired.revision}
    since_ms = now_ms - desired.policy.retry_ms
    begun = {
        i
        for i, life in outdated.items()
        if life.terminating or _marked(life) or _told(life, memory, since_ms)
    }
    begun |= {i for i in slots & memory.rolling if _awaits_successor(current.get(i), desired.revision)}
    idle = {i for i, life in outdated.items() if i not in begun and _idle(life)}
    late = _late(current, desired, now_ms)
    picked: set[str] = set()
    if group is not None and group.calm and not late and not _about_to_move(slots, lives):
        unavailable = sum(
            1
            for i in slots
            if i not in current or not current[i].available or (i not in outdated and current[i].starting)
        )
        budget = desired.policy.max_unavailable - unavailable
        working = [i for i, life in outdated.items() if life.available]
        picked = set(sorted(working, key=lambda i: -current[i].ordinal)[: max(budget, 0)])
    replacing = frozenset(begun | idle | picked)
    ready_timeout_ms = desired.policy.ready_timeout_ms
    waiting = [current[i].pod.started_ms + ready_timeout_ms for i in current if _awaited(current[i])]
    reports = [
        Report(
            ReportReason.NOT_READY,
            i,
            f"{i} is no member of the group {ready_timeout_ms / 1000:g} s after its start: see its log",
        )
        for i in late
    ]
    if late and outdated:
        reports.append(
            Report(
                ReportReason.ROLL_STALLED,
                desired.name,
                f"{len(outdated)} pods still run the earlier template, since {', '.join(late)} did not get "
                "ready with the new one: mend the template, the roll goes on by itself",
            )
        )
    return Roll(
        replacing,
        replacing & outdated.keys(),
        tuple(reports),
        tuple(at_ms for at_ms in waiting if at_ms > now_ms),
    )


def _about_to_move(slots: frozenset[str], lives: Mapping[str, Life]) -> bool:
    """Whether somebody who has tasks is leaving, by a decision so new that the group does not show it."""
    return any(
        life.member is not None and life.member.busy and not (identity in slots and life.available)
        for identity, life in lives.items()
        if not life.ended
    )


def _awaits_successor(life: Life | None, revision: str) -> bool:
    return life is None or life.ended or (life.pod.revision == revision and not life.available)


def _told(life: Life, memory: PoolMemory, since_ms: int) -> bool:
    """The order to end is on its way. One that got lost is no excuse to end the pod at a bad time."""
    asked = memory.asked.get(life.pod.identity)
    order = Delete(life.pod.identity, life.pod.incarnation)
    return asked is not None and asked.action == order and asked.at_ms > since_ms


def _marked(life: Life) -> bool:
    return life.pod.mark is not None and life.pod.mark.reason is MarkReason.ROLL


def _idle(life: Life) -> bool:
    """It does no work for sure. A pod that is cut off may, and ends by nobody's order but its node's."""
    if life.ended:
        return life.pod.self_restarting
    return life.staying and life.reachable and (life.unborn or life.workless)


def _awaited(life: Life) -> bool:
    return life.staying and life.workless


def _late(current: Mapping[str, Life], desired: PoolDesired, now_ms: int) -> list[str]:
    return sorted(
        identity
        for identity, life in current.items()
        if _awaited(life)
        and life.pod.revision == desired.revision
        and now_ms - life.pod.started_ms >= desired.policy.ready_timeout_ms
    )
