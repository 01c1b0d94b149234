"""The policy Kip415: Kafka Connect 4.3.1's incremental cooperative assignor, reproduced with its quirks.

The steps and their numbers are those of docs/protocol.md (sections 4 and 5), the state is
``Kip415Memory`` (section 2), orders are Java's (section 11). Kafka's bugs are reproduced; each such place
names its quirk. Beyond Kafka, the policy only handles cases that Kafka's leader cannot meet: tasks of
cooperator's own members that are still stopping occupy their place and are not revoked again, barred tasks
count as not configured, and nothing starts while the leader awaits members that it evicted itself.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from cooperator.model import Assignment, HoldReason, Kip415Memory, Member, Memory, TaskId
from cooperator.model.java import hash_map_order, sort_strings, sort_tasks
from cooperator.planner.itemsets import Items
from cooperator.planner.plan import HeldTask, Plan, Reason, Why
from cooperator.planner.view import View
from cooperator.planner.workspace import Workspace

_NONE: frozenset[TaskId] = frozenset()


def plan(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    """Decide one round as Kafka's leader does."""
    round_ = _Round(view, memory.kip415 or Kip415Memory(), workspace.configured(view.tasks).items)
    after = round_.decide()
    assignments = {worker.member.member_id: worker.assignment() for worker in round_.workers}
    held = HeldTask("", after.scheduled_rebalance_ms, HoldReason.DEPARTED)
    decided = Plan(
        assignments={member.member_id: assignments[member.member_id] for member in view.members},
        held=dict.fromkeys(sort_tasks(round_.waiting), held),
        rejoin_at_ms=round_.rejoin_at_ms(),
        delay_ms=after.delay_ms,
        assigned_why={
            task: round_.why[task] for assignment in assignments.values() for task in assignment.assigned
        },
        revoked_why={
            task: round_.why[task] for assignment in assignments.values() for task in assignment.revoked
        },
    )
    # The other policies need this to take over from here.
    given = {w.member.identity: frozenset(w.all()).difference(w.revoked) for w in round_.workers}
    incarnations = {w.member.identity: w.member.incarnation for w in round_.workers}
    return decided, Memory(memory.term, view.generation, given, incarnations, kip415=after)


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """Return how long (ms) to delay the ``attempts``-th successive revocation: 40^n, truncated as in Java."""
    if max_delay_ms <= 1:
        return max_delay_ms
    most = math.log(max_delay_ms) / math.log(40)
    return min(int(math.pow(40, min(attempts, most))), max_delay_ms)


@dataclass(slots=True)
class _Worker:
    """One member during a round. Items keep the order in which they were reported; new ones come last.

    ``loads``: what it should run after the round, connector instances and tasks separately.
    """

    member: Member
    current: frozenset[TaskId]
    loads: tuple[dict[TaskId, None], dict[TaskId, None]]
    revoked: dict[TaskId, None] = field(default_factory=dict)

    def add(self, item: TaskId) -> None:
        self.loads[not item.is_instance][item] = None

    def remove(self, item: TaskId) -> None:
        self.loads[not item.is_instance].pop(item, None)

    def all(self) -> Iterable[TaskId]:
        yield from self.loads[0]
        yield from self.loads[1]

    def assignment(self) -> Assignment:
        assigned = tuple(item for item in self.all() if item not in self.current)
        return Assignment(assigned, tuple(self.revoked))


class _Round:
    """One run of the assignor: ``decide`` returns the state after it."""

    def __init__(self, view: View, state: Kip415Memory, items: Items) -> None:
        self.view, self.state, self.items = view, state, items
        self.max_delay_ms = view.policy.scheduled_rebalance_max_delay_ms
        self.delay_ms, self.scheduled_ms = state.delay_ms, state.scheduled_rebalance_ms
        self.candidates = dict.fromkeys(state.candidates)
        self.revoked_in_previous = state.revoked_in_previous
        self.successive = state.successive_revoking_rebalances
        self.why: dict[TaskId, Reason] = {}
        self.waiting: Collection[TaskId] = ()
        by_id = {member.member_id: member for member in view.members}
        self.workers = [_worker(by_id[member_id]) for member_id in hash_map_order(list(by_id))]

    def decide(self) -> Kip415Memory:
        view, state = self.view, self.state
        wanted = self.items.all - view.barred
        reported = [frozenset(worker.member.owned) for worker in self.workers]
        active = frozenset[TaskId]().union(*reported)
        previous = state.previous_assignment
        if state.previous_generation != view.last_completed_generation:
            previous = _NONE
        running = frozenset[TaskId]().union(*(worker.current for worker in self.workers))
        if not state.previous_revocation.isdisjoint(running):
            previous = active
        # Q2, zombies: a new leader has no previous assignment, so nothing is deleted in its first round.
        deleted = previous - wanted
        lost = previous - active - deleted
        created = wanted - previous - active
        self._note(created, Why.CREATED)
        self._revoke(deleted, Why.DELETED)
        self._revoke(_duplicates(reported), Why.DUPLICATE)

        reassign: Collection[TaskId] = self._lost(lost)
        if self.delay_ms == 0:
            self._balance(wanted)
        else:
            self.revoked_in_previous = False
        if view.awaited:
            created, reassign = _NONE, ()
        if self.workers:
            self._assign([*sort_tasks(created), *sort_tasks(frozenset(reassign) - created)])
        placed = frozenset(item for worker in self.workers for item in worker.all())
        self.waiting = lost - placed
        revoked = frozenset[TaskId]().union(*(worker.revoked for worker in self.workers))
        return Kip415Memory(
            previous_generation=view.generation,
            previous_members=tuple(worker.member.member_id for worker in self.workers),
            # Q1, phantoms: lost tasks stay in it even if they were assigned and revoked in this round.
            previous_assignment=(placed - revoked) | lost,
            previous_revocation=revoked,
            scheduled_rebalance_ms=self.scheduled_ms,
            delay_ms=self.delay_ms,
            candidates=tuple(self.candidates),
            revoked_in_previous=self.revoked_in_previous,
            successive_revoking_rebalances=self.successive,
        )

    def rejoin_at_ms(self) -> int | None:
        """Return when the leader rejoins: at the end of the delay, or of its wait for evicted members."""
        times_ms = [self.view.now_ms + self.delay_ms] if self.delay_ms else []
        times_ms += [until_ms for until_ms in self.view.awaited.values() if until_ms > self.view.now_ms]
        return min(times_ms, default=None)

    def _note(self, items: Iterable[TaskId], why: Why) -> None:
        self.why.update(dict.fromkeys(items, Reason(why, self.view.cause)))

    def _revoke(self, items: frozenset[TaskId], why: Why) -> None:
        """Step 4: revoke ``items`` from every member that has them; duplicates, too."""
        if not items:
            return
        self._note(items, why)
        for worker in self.workers:
            for item in [item for item in worker.all() if item in items]:
                worker.remove(item)
                worker.revoked[item] = None

    def _lost(self, lost: frozenset[TaskId]) -> Collection[TaskId]:
        """Step 5 (4.1): lost tasks wait, go to the candidates, or are returned to be assigned now."""
        now_ms, ids = self.view.now_ms, {worker.member.member_id for worker in self.workers}
        if not lost and not self.revoked_in_previous:
            self._end_delay()
            return ()
        nobody_left = ids.issuperset(self.state.previous_members)
        if (self.scheduled_ms == 0 and nobody_left) or self.max_delay_ms == 0:
            self._note(lost, Why.UNDELIVERED if nobody_left else Why.HOLD_ENDED)
            return lost
        if 0 < self.scheduled_ms <= now_ms:
            self._note(lost, Why.HOLD_ENDED)
            by_id = {worker.member.member_id: worker for worker in self.workers}
            candidates = [by_id[member_id] for member_id in self.candidates if member_id in by_id]
            self._end_delay()
            self.revoked_in_previous = False
            if not candidates:
                return lost
            # Members that were idle during the delay get all of it, whatever their current load is.
            for kind in (True, False):
                for number, item in enumerate(sort_tasks(i for i in lost if i.is_instance is kind)):
                    candidates[number % len(candidates)].add(item)
            return ()
        self.candidates.update((w.member.member_id, None) for w in self.workers if not any(w.loads))
        running = now_ms < self.scheduled_ms
        self.delay_ms = min(self.scheduled_ms - now_ms, self.max_delay_ms) if running else self.max_delay_ms
        self.scheduled_ms = now_ms + self.delay_ms
        return ()

    def _end_delay(self) -> None:
        self.delay_ms, self.scheduled_ms = 0, 0
        self.candidates.clear()

    def _balance(self, wanted: frozenset[TaskId]) -> None:
        """Step 6 (4.2): revoke each load's surplus from its front, or delay that."""
        totals = len(self.items.instances & wanted), len(self.items.tasks & wanted)
        surplus: list[tuple[_Worker, TaskId]] = []
        if any(totals) and any(load for worker in self.workers for load in worker.loads):
            # Q2 again: if connectors but no tasks are configured, zombie tasks are a surplus.
            surplus = [pair for kind in (0, 1) for pair in _surplus(self.workers, kind, totals[kind])]
        if not surplus:
            if self.revoked_in_previous:
                self.revoked_in_previous, self.successive = False, 0
            return
        if self.revoked_in_previous:
            self.successive += 1
            self.delay_ms = backoff_ms(self.successive, self.max_delay_ms)
            if self.delay_ms:
                # The timer of lost tasks serves this back-off too; a second incidental round cancels it.
                self.scheduled_ms = self.view.now_ms + self.delay_ms
                return
        self.revoked_in_previous = True
        for worker, item in surplus:
            # Q1, phantoms: an item given to a candidate in this very round can be among these.
            worker.remove(item)
            worker.revoked[item] = None
            self._note([item], Why.BALANCE)

    def _assign(self, new: list[TaskId]) -> None:
        """Step 7 (4.3): assign to the least loaded members, instances and tasks separately."""
        by_id = {worker.member.member_id: worker for worker in self.workers}
        in_order = [by_id[member_id] for member_id in sort_strings(by_id)]
        for kind in (0, 1):
            waiting = [item for item in new if item.is_instance is (kind == 0)]
            loads = sorted((worker.loads[kind] for worker in in_order), key=len)
            unassigned, left, prefix = iter(waiting), len(waiting), 0
            while left > 0:
                least = len(loads[0])
                while prefix < len(loads) and len(loads[prefix]) <= least:
                    prefix += 1
                for load, item in zip(loads[:prefix], unassigned, strict=False):
                    load[item] = None
                left -= prefix


def _worker(member: Member) -> _Worker:
    running = [item for item in member.owned if item not in member.stopping]
    instances = dict.fromkeys(item for item in running if item.is_instance)
    tasks = dict.fromkeys(item for item in running if not item.is_instance)
    return _Worker(member, frozenset(running), (instances, tasks))


def _duplicates(reported: Iterable[frozenset[TaskId]]) -> frozenset[TaskId]:
    seen: set[TaskId] = set()
    doubled: set[TaskId] = set()
    for items in reported:
        doubled |= seen & items
        seen |= items
    return frozenset(doubled)


def _surplus(workers: list[_Worker], kind: int, total: int) -> Iterable[tuple[_Worker, TaskId]]:
    """Yield each worker's items above its quota, from the front; nothing if the loads are balanced."""
    smallest, extras = divmod(total, len(workers))
    sizes = [len(worker.loads[kind]) for worker in workers]
    if sizes.count(smallest) == len(workers) - extras and sizes.count(smallest + 1) == extras:
        return
    for worker, size in zip(workers, sizes, strict=True):
        if size <= smallest:
            continue
        keeps = smallest + 1 if extras else smallest
        extras = max(0, extras - 1)
        for item in list(worker.loads[kind])[: size - keeps]:
            yield worker, item
