"""Where every task of one kind should run: balanced within 1, with the fewest moves, connectors spread.

    L(m)     = what m keeps, and what it is owed            N = Σ L(m) + pool, over W receivers
    min, extras = divmod(N, W)
    surplus  = Σ max(0, L(m) − quota(m)), quota(m) ∈ {min, min + 1}, min + 1 for ``extras`` members
    moves    = surplus: fewer are impossible, since a member above its quota must let go of the difference
               and whoever is above min uses up the larger quotas first
    pool     := pool ∪ surplus, dealt to the members below their quota

Which tasks make up the surplus and who gets which task of the pool is free: both are chosen so that each
connector's tasks are spread over the members.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from cooperator.model import TaskId


@dataclass(frozen=True, slots=True)
class Loads:
    """What counts as the receivers' own, of one kind; the keys of ``kept`` are the receivers.

    ``owed``: what they get back now. ``reserved``: how many more they will get back. ``of_other_kind``:
    their target load of the other kind, which decides ties.
    """

    kept: Mapping[str, frozenset[TaskId]]
    owed: Mapping[str, Sequence[TaskId]] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)
    of_other_kind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """``released``: per identity, what it keeps now and must let go of for balance.

    ``placed``: for every task of the pool, and for every owed task that is better placed elsewhere, the
    identity that should run it. ``surplus``: how many tasks are above their member's quota, let go or not.
    ``loads``: per identity, how many it runs once everything is placed.
    """

    released: Mapping[str, Sequence[TaskId]]
    placed: Mapping[TaskId, str]
    surplus: int
    loads: Mapping[str, int]


def compute(own: Loads, pool: Iterable[TaskId], balance: bool) -> Target:
    """The target of one kind. ``pool``: what is free or will be; ``balance``: release surpluses now."""
    owed = {identity: own.owed.get(identity, ()) for identity in own.kept}
    loads = {
        identity: len(kept) + len(owed[identity]) + own.reserved.get(identity, 0)
        for identity, kept in own.kept.items()
    }
    waiting = list(pool)
    surpluses = _surpluses(own, loads, len(waiting))
    released: dict[str, list[TaskId]] = {}
    if balance:
        for identity, surplus in surpluses.items():
            chosen = _release(own.kept[identity], owed[identity], surplus)
            kept = own.kept[identity]
            released[identity] = [task for task in chosen if task in kept]
            waiting.extend(chosen)
            loads[identity] -= len(chosen)
    placed = _deal(own, sorted(waiting), loads) if loads and waiting else {}
    for identity in placed.values():
        loads[identity] += 1
    released = {identity: tasks for identity, tasks in released.items() if tasks}
    return Target(released, placed, sum(surpluses.values()), loads)


def _surpluses(own: Loads, loads: Mapping[str, int], pool: int) -> dict[str, int]:
    """By how much each member is above its quota, in order of identity."""
    if not loads:
        return {}
    smallest, extras = divmod(sum(loads.values()) + pool, len(loads))
    above = [identity for identity in loads if loads[identity] > smallest]
    # The larger quotas go to those that would have to stop something, then to those with the least of the
    # other kind.
    above.sort(key=lambda i: (len(own.owed.get(i, ())), own.of_other_kind.get(i, 0), i))
    larger = set(above[:extras])
    quotas = {identity: smallest + (identity in larger) for identity in above}
    return {i: loads[i] - quotas[i] for i in sorted(above) if loads[i] > quotas[i]}


def _release(kept: Iterable[TaskId], owed: Sequence[TaskId], surplus: int) -> list[TaskId]:
    """Which ``surplus`` tasks go: what does not run first, then of the connector with the most tasks here."""
    counts = Counter(task.connector for task in kept)
    counts.update(task.connector for task in owed)
    chosen: list[TaskId] = []
    for candidates in (owed, kept):
        by_connector: dict[str, list[TaskId]] = {}
        for task in sorted(candidates):
            by_connector.setdefault(task.connector, []).append(task)
        heap = [(-counts[connector], connector) for connector in by_connector]
        heapify(heap)
        while heap and len(chosen) < surplus:
            _, connector = heappop(heap)
            chosen.append(by_connector[connector].pop())
            counts[connector] -= 1
            if by_connector[connector]:
                heappush(heap, (-counts[connector], connector))
    return chosen


def _deal(own: Loads, waiting: Sequence[TaskId], loads: Mapping[str, int]) -> dict[TaskId, str]:
    """Deal ``waiting`` (sorted) to the least loaded; of them to those that run the least of the connector."""
    level, extras = _water_level(sorted(loads.values()), len(waiting))
    by_connector: dict[str, list[TaskId]] = {}
    for task in waiting:
        by_connector.setdefault(task.connector, []).append(task)
    running = _running(own, waiting, by_connector.keys())
    heap = [(load, own.of_other_kind.get(i, 0), i) for i, load in loads.items() if load <= level]
    heapify(heap)
    placed: dict[TaskId, str] = {}
    # Large groups first: they need the most members, and small ones fit into what is left.
    for connector in sorted(by_connector, key=lambda c: (-len(by_connector[c]), c)):
        tasks, counts = by_connector[connector], running.get(connector, {})
        count, dealt = 0, 0
        deferred: dict[int, list[tuple[int, int, str]]] = {}
        while dealt < len(tasks):
            while heap and dealt < len(tasks):
                entry = heappop(heap)
                load, other, identity = entry
                here = counts.get(identity, 0)
                if here > count:
                    deferred.setdefault(here, []).append(entry)
                    continue
                if load >= level:
                    if not extras:
                        continue
                    extras -= 1
                placed[tasks[dealt]] = identity
                dealt += 1
                if load < level:
                    deferred.setdefault(count + 1, []).append((load + 1, other, identity))
            if dealt < len(tasks):
                count = min(deferred)
                heap = deferred.pop(count)
                heapify(heap)
        for entries in deferred.values():
            for entry in entries:
                heappush(heap, entry)
    return placed


def _running(own: Loads, waiting: Iterable[TaskId], connectors: Iterable[str]) -> dict[str, dict[str, int]]:
    """Per connector of ``connectors``, how many of its tasks each member keeps or gets back."""
    wanted, moving = set(connectors), set(waiting)
    running: dict[str, dict[str, int]] = {}
    for tasks_of in (own.kept, own.owed):
        for identity, tasks in tasks_of.items():
            for task in tasks:
                if task.connector in wanted and task not in moving:
                    counts = running.setdefault(task.connector, {})
                    counts[identity] = counts.get(identity, 0) + 1
    return running


def _water_level(loads: Sequence[int], pool: int) -> tuple[int, int]:
    """How high ``pool`` units fill the lowest of ``loads`` (ascending), and how many are left above that."""
    filled = 0
    for count, load in enumerate(loads):
        needed = load * count - filled
        if needed > pool:
            return divmod(filled + pool, count)
        filled += load
    return divmod(filled + pool, len(loads))
