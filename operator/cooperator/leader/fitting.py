"""Cuts a plan to what fits into the group's record at the broker. Pure.

The broker refuses a record that is larger than its limit, and with it the whole round. So a plan that is too
large is handed out in several rounds: in each, as much as fits, in this order.

1. Revocations for any reason but balance, up to the limit.
2. Tasks that ran before and run nowhere now, because their member has gone or has released them.
3. Revocations for balance, if there is room for the tasks elsewhere: where a connector is spread over more
   members, more reports name it.
4. New tasks.

Tasks that run are never revoked for size. New tasks leave a part of the record free (``NEW_KEEP_FREE``), and
the room of tasks that wait for their member and of expected members. So running tasks have room to move and
to return, and members to join. New tasks for which there will be no room are refused.

A task that is cut from a plan stays owed to its member, or keeps its reason, in the memory. So the next plan
has it again. The leader asks for another round if something fits then (``between_rounds``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cooperator.leader.group_record import (
    NUMBER_BYTES,
    GroupRecord,
    alone_bytes,
    entry_bytes,
    listed_bytes,
    longest_entry_bytes,
)
from cooperator.model import Assignment, Member, Memory, TaskId
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.view import View

NEW_KEEP_FREE: Final = 20
"""New tasks leave one part in so many of the record free."""
OLD_KEEP_FREE: Final = 50
"""Likewise tasks that ran before: revocations must have room at any time."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The part of a plan that fits, with the memory that goes with it.

    * ``refused``: tasks that no later round has room for, as things are.
    * ``postponed``: whether something was cut that a later round may have room for.
    * ``stuck``: the number of tasks that are not revoked, if nothing is under way that makes room for it.
    * ``needed_bytes``: the size of a record with everything, a part of it left free; 0 if all fits.
    """

    plan: Plan
    memory: Memory
    refused: tuple[TaskId, ...] = ()
    postponed: bool = False
    stuck: int = 0
    needed_bytes: int = 0


def fit(
    plan: Plan, memory: Memory, view: View, before: Memory, record: GroupRecord, limit_bytes: int
) -> Fitted:
    """Cut ``plan`` and ``memory``, which were made from ``view`` and ``before``.

    ``record``: that of the round, or of the last round if ``view`` is of members that have applied its plan.
    """
    if _surely_fits(plan, view, record, limit_bytes):
        return Fitted(plan, memory)
    return _Fitting(plan, memory, view, before, record, limit_bytes).fitted()


def _surely_fits(plan: Plan, view: View, record: GroupRecord, limit_bytes: int) -> bool:
    """Whether ``plan`` fits by an estimate that is too high and costs little."""
    changes = [each for each in plan.assignments.values() if not each.is_empty]
    if not changes:
        return True
    most_bytes = record.bytes_of(view.members) + _coming_bytes(view, record) + alone_bytes(plan.held)
    most_bytes += alone_bytes([task for each in changes for task in each.revoked])
    most_bytes += len(changes) * record.empty_bytes
    left_bytes = limit_bytes - limit_bytes // NEW_KEEP_FREE - most_bytes
    assigned = sum(len(each.assigned) for each in changes)
    # All of it is configured: mostly it fits even if each item has the longest name.
    if assigned > len(view.tasks) and (
        assigned * (NUMBER_BYTES + longest_entry_bytes(view.tasks)) <= left_bytes
    ):
        return True
    return sum(alone_bytes(each.assigned) for each in changes) <= left_bytes


def _coming_bytes(view: View, record: GroupRecord) -> int:
    """The bytes of members that are expected, without their tasks."""
    if not view.facts.expected or not record.members:
        return 0
    coming = view.facts.expected - {member.identity for member in view.members}
    return len(coming) * record.fixed_bytes // len(record.members)


class _Lists:
    """The connectors in one member's lists.

    ``stays``: per connector, the number of items that it owns and has not been told to stop. ``owned``,
    ``assigned``, ``revoked``: the connectors that have an entry in a list.
    """

    __slots__ = ("assigned", "has_assignment", "owned", "revoked", "stays")

    def __init__(self, member: Member) -> None:
        self.stays = Counter(task.connector for task in member.owned)
        self.owned = set(self.stays)
        self.assigned: set[str] = set()
        self.revoked: set[str] = set()
        self.has_assignment = bool(member.owned)

    def spread(self, task: TaskId) -> int:
        """Let ``task`` go. Returns the bytes by which reports grow when it is reported by another member:
        tasks that stay here need the connector's entry still."""
        self.stays[task.connector] -= 1
        return entry_bytes(task.connector) if self.stays[task.connector] else 0


class _Room:
    """The bytes that are left in this round's record, in the next one's, and once everything has settled.

    ``next`` counts what is revoked twice, as owned and as stopping. ``settled`` counts only what is
    configured, and what stops as if each task of it went to another member.
    """

    def __init__(self, view: View, record: GroupRecord, limit_bytes: int) -> None:
        self.now = self.next = self.settled = limit_bytes - record.bytes_of(view.members)
        self._counts = view.tasks
        self._empty_bytes = record.empty_bytes
        self._lists = {member.member_id: _Lists(member) for member in view.members}
        for member in view.members:
            lists = self._lists[member.member_id]
            self.settled += listed_bytes(member.stopping)
            self.settled += listed_bytes([task for task in member.owned if not self._is_configured(task)])
            for task in member.stopping:
                self._spread(task, lists)

    def revoke(self, member: Member, task: TaskId, keep_free: int | None = None) -> bool:
        """Take the room for a revocation; False: there is none.

        ``keep_free``: the bytes to be left in the record once the task is assigned again; None: any.
        """
        lists = self._lists[member.member_id]
        cost = _listing(task, lists.revoked)
        if self.now < cost or self.next < cost:
            return False
        if keep_free is not None and self.settled - entry_bytes(task.connector) < keep_free:
            return False
        self.now -= cost
        self.next -= cost
        lists.revoked.add(task.connector)
        self._spread(task, lists)
        return True

    def assign(self, member: Member, task: TaskId, keep_free: int, settled_free: int | None = None) -> bool:
        """Take the room for an assignment that leaves ``keep_free`` bytes in the next record, and
        ``settled_free`` once everything has settled; None: any."""
        lists = self._lists[member.member_id]
        now, later = _listing(task, lists.assigned), self._reported(task, lists)
        if self.now < now or self.next - later < keep_free:
            return False
        if settled_free is not None and self.settled - later < settled_free:
            return False
        self.now -= now
        lists.assigned.add(task.connector)
        self._report(task, lists, later)
        return True

    def assign_later(self, member: Member, task: TaskId, keep_free: int) -> bool:
        """Whether there will be room for an assignment once everything has settled; take it."""
        lists = self._lists[member.member_id]
        later = self._reported(task, lists)
        if self.settled - later < keep_free:
            return False
        self._report(task, lists, later)
        return True

    def bytes_of(self, member: Member, task: TaskId) -> int:
        """The bytes of ``task`` in the member's reports; it counts as reported from then on."""
        lists = self._lists[member.member_id]
        later = self._reported(task, lists)
        self._report(task, lists, 0)
        return later

    def _is_configured(self, task: TaskId) -> bool:
        return task.task < self._counts.get(task.connector, -1)

    def _spread(self, task: TaskId, lists: _Lists) -> None:
        growth = lists.spread(task)
        if self._is_configured(task):
            self.settled -= growth

    def _reported(self, task: TaskId, lists: _Lists) -> int:
        first = 0 if lists.has_assignment else self._empty_bytes
        return first + _listing(task, lists.owned)

    def _report(self, task: TaskId, lists: _Lists, cost: int) -> None:
        self.next -= cost
        self.settled -= cost
        lists.owned.add(task.connector)
        lists.has_assignment = True


def _listing(task: TaskId, connectors: set[str]) -> int:
    return NUMBER_BYTES if task.connector in connectors else NUMBER_BYTES + entry_bytes(task.connector)


_Change = tuple[Member, TaskId]


class _Fitting:
    """One run of ``fit``."""

    def __init__(
        self, plan: Plan, memory: Memory, view: View, before: Memory, record: GroupRecord, limit_bytes: int
    ) -> None:
        self._plan, self._memory, self._view, self._before = plan, memory, view, before
        self._limit_bytes = limit_bytes
        self._record = record
        self._room = _Room(view, record, limit_bytes)
        self._ran = frozenset[TaskId]().union(
            *before.given.values(), *(hold.tasks for hold in before.holds.values())
        )
        self._members = {member.member_id: member for member in view.members}

    def fitted(self) -> Fitted:
        room, old_free = self._room, self._limit_bytes // OLD_KEEP_FREE
        new_free = self._limit_bytes // NEW_KEEP_FREE + self._waiting_bytes()
        cut_old, cut_new = self._assignments()
        cut_urgent, cut_balance = self._revocations()
        # Where even empty assignments are too large, the limit may be a wrong guess: the broker decides.
        cut_urgent = _beyond(room.revoke, cut_urgent) if room.now >= 0 else []
        if not cut_urgent:
            cut_old = _beyond(lambda m, task: room.assign(m, task, old_free), cut_old)
            cut_balance = _beyond(lambda m, task: room.revoke(m, task, old_free), cut_balance)
        if not (cut_urgent or cut_old):
            cut_new = _beyond(lambda m, task: room.assign(m, task, new_free, new_free), cut_new)
        cut = (*cut_old, *cut_new)
        plan = self._cut_plan(cut, (*cut_urgent, *cut_balance))
        not_revoked = [task for _, task in (*cut_urgent, *cut_balance)]
        is_at_rest = plan.is_empty and not any(member.stopping for member in self._view.members)
        needed_bytes = self._limit_bytes - room.now + alone_bytes(not_revoked) if not_revoked else 0
        if is_at_rest:
            # Nothing is under way that makes room.
            refused = [*cut_old, *cut_new]
        else:
            refused = [
                *_beyond(lambda m, task: room.assign_later(m, task, old_free), cut_old),
                *_beyond(lambda m, task: room.assign_later(m, task, new_free), cut_new),
            ]
        if refused:
            needed_bytes = self._limit_bytes - room.settled + new_free
            needed_bytes += sum(room.bytes_of(*change) for change in refused)
        return Fitted(
            plan,
            self._cut_memory(cut, cut_balance),
            tuple(task for _, task in refused),
            bool(not_revoked or len(cut) > len(refused)),
            len(not_revoked) if is_at_rest else 0,
            needed_bytes,
        )

    def _assignments(self) -> tuple[list[_Change], list[_Change]]:
        """Assigned tasks that ran before, and new ones, each by connector and number."""
        assigned = [
            (self._members[member_id], task)
            for member_id, assignment in self._plan.assignments.items()
            for task in assignment.assigned
        ]
        assigned.sort(key=_task)
        why = self._plan.assigned_why
        is_old = [why[task].why is not Why.CREATED or task in self._ran for _, task in assigned]
        old = [change for change, ran in zip(assigned, is_old, strict=True) if ran]
        return old, [change for change, ran in zip(assigned, is_old, strict=True) if not ran]

    def _revocations(self) -> tuple[list[_Change], list[_Change]]:
        """Revocations that are urgent, and those for balance."""
        revoked = [
            (self._members[member_id], task)
            for member_id, assignment in self._plan.assignments.items()
            for task in assignment.revoked
        ]
        why = self._plan.revoked_why
        urgent = [(member, task) for member, task in revoked if why[task].why is not Why.BALANCE]
        return urgent, [(member, task) for member, task in revoked if why[task].why is Why.BALANCE]

    def _waiting_bytes(self) -> int:
        """The bytes that expected members, and tasks that wait for their member, will need."""
        reported = frozenset[TaskId]().union(*(member.owned for member in self._view.members))
        waiting: dict[str, list[TaskId]] = {}
        for task, held in self._plan.held.items():
            if task not in reported:
                waiting.setdefault(held.identity, []).append(task)
        return _coming_bytes(self._view, self._record) + sum(map(listed_bytes, waiting.values()))

    def _cut_plan(self, assigned: Iterable[_Change], revoked: Iterable[_Change]) -> Plan:
        gone, kept = _by_member(assigned), _by_member(revoked)
        if not gone and not kept:
            return self._plan
        assignments = {
            member_id: _without(assignment, gone.get(member_id), kept.get(member_id))
            for member_id, assignment in self._plan.assignments.items()
        }
        left = [*assignments.values()]
        # Tasks of a departing member wait for it only once it is told to stop them.
        running = frozenset[TaskId]().union(*kept.values())
        return replace(
            self._plan,
            assignments=assignments,
            held={task: held for task, held in self._plan.held.items() if task not in running},
            assigned_why=_of(self._plan.assigned_why, (task for each in left for task in each.assigned)),
            revoked_why=_of(self._plan.revoked_why, (task for each in left for task in each.revoked)),
        )

    def _cut_memory(self, assigned: Iterable[_Change], balance: Iterable[_Change]) -> Memory:
        """The memory after the cut plan. Other revocations that were cut need no change of it: it says that
        the tasks are being stopped, which covers tasks that run on."""
        memory, why = self._memory, self._plan.assigned_why
        given = {identity: set(tasks) for identity, tasks in memory.given.items()}
        moving = {key: set(tasks) for key, tasks in memory.moving.items()}
        created: set[TaskId] = set()
        for member, task in assigned:
            if self._is_owed(member.identity, task):
                continue
            given[member.identity].discard(task)
            reason = why[task]
            if reason.why is not Why.CREATED:
                moving.setdefault(f"{reason.why}:{reason.cause}", set()).add(task)
            else:
                created.add(task)
        kept = {task for _, task in balance}
        for member, task in balance:
            given[member.identity].add(task)
        state = memory.kip415
        if state is not None:
            state = replace(
                state,
                previous_assignment=(state.previous_assignment | kept) - created,
                previous_revocation=state.previous_revocation - kept,
            )
        return replace(
            memory,
            given={i: _same(memory.given[i], tasks) for i, tasks in given.items()},
            moving={key: frozenset(moving[key] - kept) for key in sorted(moving) if moving[key] - kept},
            kip415=state,
        )

    def _is_owed(self, identity: str, task: TaskId) -> bool:
        hold = self._before.holds.get(identity)
        return task in self._before.given.get(identity, ()) or (hold is not None and task in hold.tasks)


def _task(change: _Change) -> TaskId:
    return change[1]


def _beyond(take: Callable[[Member, TaskId], bool], changes: Iterable[_Change]) -> list[_Change]:
    """Take the changes in order, up to the first for which there is no room; return the others."""
    left = iter(changes)
    for change in left:
        if not take(*change):
            return [change, *left]
    return []


def _by_member(changes: Iterable[_Change]) -> dict[str, set[TaskId]]:
    found: dict[str, set[TaskId]] = {}
    for member, task in changes:
        found.setdefault(member.member_id, set()).add(task)
    return found


def _without(assignment: Assignment, assigned: set[TaskId] | None, revoked: set[TaskId] | None) -> Assignment:
    if not assigned and not revoked:
        return assignment
    return Assignment(
        tuple(task for task in assignment.assigned if not assigned or task not in assigned),
        tuple(task for task in assignment.revoked if not revoked or task not in revoked),
    )


def _of(why: Mapping[TaskId, Reason], tasks: Iterable[TaskId]) -> dict[TaskId, Reason]:
    return {task: why[task] for task in tasks}


def _same(before: frozenset[TaskId], after: set[TaskId]) -> frozenset[TaskId]:
    """``after``; the same object as before if nothing has changed, so that it is compared at once."""
    return before if len(before) == len(after) and before == after else frozenset(after)
