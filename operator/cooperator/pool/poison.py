"""Finds, quarantines and pardons poison tasks, which kill or freeze the members that start them.

A death counts only if its cause is ``EndCause.KILLED``, on a healthy node: losses of nodes, drains, evictions
and whatever was requested do not, nor does the end of a member with a stop that hangs (decision 061). It
counts against the tasks whose start had not been over for ``WATCH_MS``. After ``poison_deaths`` of them, on
any members, a task that was the only one to suspect in at least one is quarantined. Other suspects start one
at a time; the number doubles after each trial without a death, until a suspect is proven or all are cleared;
their neighbours run on. A start that its member survives for ``WATCH_MS`` clears a task.

If the watchdog saw a thread of a task run while its member was frozen, the death counts against that task
alone, however long it had run, and is remembered for ``SEEN_FREEZING_MS``.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from cooperator.model import TaskId
from cooperator.model.thread_names import of_digest
from cooperator.pool.memory import PoolMemory, Starting, SuspectTrial
from cooperator.pool.observed import End, EndCause, PoolObserved

WATCH_MS: Final = 60_000
"""Milliseconds after its start during which a task is suspected if its member dies."""
SEEN_FREEZING_MS: Final = 24 * 3_600_000
"""Milliseconds for which a task is suspected after its thread was seen to freeze a member."""
_TURN_MS: Final = 60_000
"""Milliseconds for which a suspect that does not start delays the others."""
_REMEMBERED: Final = 10_000
"""Number of suspects kept; those with the fewest deaths are dropped first."""


def watch(
    memory: PoolMemory, observed: PoolObserved, crashed: Mapping[str, str], deaths: int, now_ms: int
) -> PoolMemory:
    """Count the deaths in ``crashed`` (incarnation per identity) against tasks that were starting there."""
    suspects, alone, quarantined = dict(memory.suspects), set(memory.alone), set(memory.quarantined)
    starting = {i: s for i, s in memory.starting.items() if i not in _unhealthy(observed)}
    ends = {pod.identity: pod.end for pod in observed.pods}
    frozen_by = {pod.identity: pod.frozen_by for pod in observed.pods}
    freezing = {task: at_ms for task, at_ms in memory.seen_freezing.items() if task in suspects}
    accused: set[TaskId] = set()
    for identity, incarnation in sorted(crashed.items()):
        last = starting.pop(identity, None)
        if (
            last is None
            or last.incarnation != incarnation
            or ends.get(identity) != End(incarnation, EndCause.KILLED)
        ):
            continue
        if last.hangs:
            continue  # Its watchdog has ended it for that stop, and not for a task that started.
        tasks = of_digest(last.tasks, frozen_by.get(identity, "")) - quarantined
        freezing.update(dict.fromkeys(tasks, now_ms))
        if not tasks:
            tasks = {t for t, at_ms in last.tasks.items() if last.seen_ms - at_ms < WATCH_MS} - quarantined
        accused |= tasks
        suspects.update({task: suspects.get(task, 0) + 1 for task in tasks})
        alone |= tasks if _is_one(tasks) else set()
        quarantined |= {task for task in tasks & alone if suspects[task] >= deaths}
    if observed.group is not None:
        unhealthy = _unhealthy(observed)
        for identity, member in observed.group.members.items():
            if crashed.get(identity) == member.incarnation or identity in unhealthy:
                continue
            last = starting.get(identity)
            known = last.tasks if last is not None and last.incarnation == member.incarnation else {}
            owned = member.owned | member.starting
            tasks_ms = {t: now_ms if t in member.starting else known.get(t, now_ms) for t in owned}
            for task, at_ms in tasks_ms.items():
                # Quarantined tasks start nowhere, so they cannot be cleared by surviving.
                if _cleared_ms(task, at_ms, freezing) <= now_ms and task not in quarantined:
                    suspects.pop(task, None)
            starting[identity] = Starting(member.incarnation, tasks_ms, now_ms, member.hangs)
    # A member may leave the group before its host observes the death.
    starting = {i: s for i, s in starting.items() if i in memory.incarnations and s.tasks}
    if len(suspects) > _REMEMBERED:
        kept = sorted(suspects, key=lambda task: (task not in quarantined, -suspects[task], task))
        suspects = {task: suspects[task] for task in kept[:_REMEMBERED]}
    memory = replace(
        memory,
        suspects=suspects,
        alone=frozenset(alone & suspects.keys()),
        starting=starting,
        seen_freezing={task: at_ms for task, at_ms in freezing.items() if task in suspects},
        quarantined=frozenset(quarantined & suspects.keys()),
    )
    return replace(memory, trial=_trial(memory, accused, deaths, now_ms))


def waiting(memory: PoolMemory, deaths: int) -> frozenset[TaskId]:
    """Return the suspects that may not start before the present trial is over."""
    on_trial = memory.trial.tasks if memory.trial is not None else frozenset()
    return frozenset(_undecided(memory, deaths)) - on_trial


def timers_ms(memory: PoolMemory) -> list[int]:
    """Return when suspects will be cleared, or the next one has its turn."""
    found = [
        _cleared_ms(task, at_ms, memory.seen_freezing)
        for each in memory.starting.values()
        for task, at_ms in each.tasks.items()
        if task in memory.suspects
    ]
    return [*found, memory.trial.since_ms + _TURN_MS] if memory.trial is not None else found


def pardon(memory: PoolMemory, tasks: Iterable[TaskId]) -> PoolMemory:
    """Let tasks start again, after their connector was changed or a user requested a restart."""
    cleared = frozenset(tasks)
    return replace(
        memory,
        suspects={t: n for t, n in memory.suspects.items() if t not in cleared},
        alone=memory.alone - cleared,
        quarantined=memory.quarantined - cleared,
    )


def _cleared_ms(task: TaskId, at_ms: int, freezing: Mapping[TaskId, int]) -> int:
    """Return when (ms) a task that started at ``at_ms`` is not suspected any more."""
    seen_ms = freezing.get(task)
    return at_ms + WATCH_MS if seen_ms is None else max(at_ms + WATCH_MS, seen_ms + SEEN_FREEZING_MS)


def _is_one(tasks: Collection[TaskId]) -> bool:
    """Whether these are at most one task, with its connector's instance."""
    return len({task.connector for task in tasks}) == 1 and sum(not task.is_instance for task in tasks) <= 1


def _undecided(memory: PoolMemory, deaths: int) -> list[TaskId]:
    return sorted(t for t, n in memory.suspects.items() if n >= deaths and t not in memory.quarantined)


def _trial(memory: PoolMemory, accused: Collection[TaskId], deaths: int, now_ms: int) -> SuspectTrial | None:
    """Return the suspects that may start next: one, then twice as many after each trial without a death."""
    undecided, earlier = _undecided(memory, deaths), memory.trial
    if not undecided:
        return None
    if earlier is None:
        return SuspectTrial(frozenset(undecided[:1]), now_ms)
    left = earlier.tasks.intersection(undecided)
    if not left.isdisjoint(accused):
        return SuspectTrial(frozenset({min(left)}), now_ms)
    if not left:
        size = 2 * len(earlier.tasks) if earlier.tasks.isdisjoint(memory.quarantined) else 1
        return SuspectTrial(frozenset(undecided[:size]), now_ms)
    if now_ms - earlier.since_ms < _TURN_MS or _starts(memory, left):
        return earlier
    later = [task for task in undecided if task > max(earlier.tasks)]
    return SuspectTrial(frozenset((later or undecided)[: len(earlier.tasks)]), now_ms)


def _starts(memory: PoolMemory, tasks: Collection[TaskId]) -> bool:
    return any(task in each.tasks for each in memory.starting.values() for task in tasks)


def _unhealthy(observed: PoolObserved) -> frozenset[str]:
    """Return the identities on nodes that may themselves be the cause of a death."""
    if observed.nodes is None:
        return frozenset()
    ready = {name for name, node in observed.nodes.items() if node.ready and not node.leaving}
    return frozenset(pod.identity for pod in observed.pods if pod.node and pod.node not in ready)
