"""Sorts the members' reports into what stays, what is revoked, and what is still stopping.

A task that any member reports starts nowhere else, whatever is decided.

stays(m) = reported(m) − stopping(m) − deleted − barred − surplus copies − everything, if m releases all
let go   = reported(m) − stopping(m) − stays(m): revoked in this round
in flight = configured ∩ ∪ reported(m) − ∪ stays(m): free once its holder has rejoined without it
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cooperator.model import Member, Memory, TaskId, Warmth
from cooperator.planner.itemsets import Items, split
from cooperator.planner.plan import Reason, Why
from cooperator.planner.roster import Roster
from cooperator.planner.view import View

_NONE: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class Claims:
    """``reports``, ``stays`` and ``let_go``: per member id of the present members. ``unreported``: configured
    tasks that no member reports."""

    reports: Mapping[str, Items]
    unreported: frozenset[TaskId]
    stays: Mapping[str, Items]
    let_go: Mapping[str, dict[TaskId, Reason]]
    in_flight: frozenset[TaskId]


def sort_claims(
    view: View, memory: Memory, roster: Roster, items: Items, reports: Mapping[str, Items]
) -> Claims:
    """Sort what the present members report, regardless of balance. ``items``: what is configured."""
    sets = {member_id: report.all for member_id, report in reports.items()}
    counted = tally(sets, items.all)
    copies = _surplus_copies(memory, roster, sets, counted.doubled)
    stays: dict[str, Items] = {}
    let_go: dict[str, dict[TaskId, Reason]] = {}
    for member in roster.present:
        report = reports[member.member_id]
        staying = report.all - member.stopping if member.stopping else report.all
        gone: dict[TaskId, Reason] = {}
        for why, tasks in (
            (Why.DELETED, counted.unknown),
            (Why.SUSPENDED, view.suspended),
            (Why.POISONED, view.facts.poisoned),
            (Why.DUPLICATE, copies.get(member.member_id, _NONE)),
        ):
            if tasks and not staying.isdisjoint(tasks):
                gone.update(dict.fromkeys(staying & tasks, Reason(why, view.cause)))
                staying -= tasks
        general = _lets_go(member, roster)
        if general is not None:
            gone.update(dict.fromkeys(staying, Reason(general, view.cause)))
            staying = _NONE
        stays[member.member_id] = split(staying, report)
        if gone:
            let_go[member.member_id] = gone
    left = [sets[m] - staying.all for m, staying in stays.items() if staying.all is not sets[m]]
    in_flight = items.all.intersection(_NONE.union(*left)) if left else _NONE
    if counted.doubled:
        in_flight = in_flight.difference(*(staying.all for staying in stays.values()))
    return Claims(reports, counted.unreported, stays, let_go, in_flight)


class Tally(NamedTuple):
    """``unreported``: configured items that no member reports. ``unknown``: reported items that are not
    configured. ``doubled``: items that several members report."""

    unreported: frozenset[TaskId]
    unknown: frozenset[TaskId]
    doubled: frozenset[TaskId] = _NONE


def tally(reports: Mapping[str, frozenset[TaskId]], configured: frozenset[TaskId]) -> Tally:
    """Count ``reports``, which maps member ids to what they report."""
    count = sum(map(len, reports.values()))
    if not count:
        return Tally(configured, _NONE)
    # A set keeps the room of what was taken out of it, and would be slow to go through: a copy does not.
    unreported = _NONE.union(configured.difference(*reports.values()))
    if count == len(configured) - len(unreported):
        # Each reported item is configured, and in one report only.
        return Tally(unreported, _NONE)
    occupied = _NONE.union(*reports.values())
    doubled: set[TaskId] = set()
    if count > len(occupied):
        seen: set[TaskId] = set()
        for items in reports.values():
            doubled |= seen & items
            seen |= items
    return Tally(unreported, occupied - configured, frozenset(doubled))


def _lets_go(member: Member, roster: Roster) -> Why | None:
    """Return why ``member`` must release everything; None if it need not."""
    if roster.current[member.identity] is not member:
        return Why.SUPERSEDED
    if member.identity in roster.held:
        return Why.DRAIN
    if member.identity in roster.leaving and roster.receivers:
        # It keeps running until a receiver is warm: tasks that it released now would run nowhere.
        return None if roster.warming and member.warmth is Warmth.WARM else Why.DRAIN
    return None


def _surplus_copies(
    memory: Memory, roster: Roster, reported: Mapping[str, frozenset[TaskId]], doubled: frozenset[TaskId]
) -> dict[str, frozenset[TaskId]]:
    """Return the copies to revoke, per member id, of tasks that several members report. One running copy of
    each stays."""
    surplus: dict[str, set[TaskId]] = {}
    for task in doubled:
        holders = [m for m in roster.present if task in reported[m.member_id] and task not in m.stopping]
        best = min(holders, key=lambda m: _precedence(m, task, memory, roster), default=None)
        for member in holders:
            if member is not best:
                surplus.setdefault(member.member_id, set()).add(task)
    return {member_id: frozenset(tasks) for member_id, tasks in surplus.items()}


def _precedence(member: Member, task: TaskId, memory: Memory, roster: Roster) -> tuple[bool, bool, str, str]:
    """Sort key: the smallest keeps its copy, preferably one that may keep tasks and was given this task."""
    given = task in memory.given.get(member.identity, ())
    return _lets_go(member, roster) is not None, not given, member.identity, member.member_id
