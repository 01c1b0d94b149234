"""What the members report, sorted into what stays, what is let go, and what is on its way out.

occupied = ∪ reported(m): starts nowhere else, whatever is decided
stays(m) = reported(m) − stopping(m) − deleted − suspended − surplus copies − everything, if m lets go
let go   = reported(m) − stopping(m) − stays(m): revoked in this round
in flight = configured ∩ occupied − ∪ stays(m): free once its holder has rejoined without it
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import Member, Memory, TaskId
from cooperator.planner.configured import Configured
from cooperator.planner.plan import Reason, Why
from cooperator.planner.roster import Roster
from cooperator.planner.view import View


@dataclass(frozen=True, slots=True)
class Claims:
    """``stays`` and ``let_go``: per member id, of the present members. ``occupied``: reported by anybody."""

    occupied: frozenset[TaskId]
    stays: Mapping[str, frozenset[TaskId]]
    let_go: Mapping[str, dict[TaskId, Reason]]
    in_flight: frozenset[TaskId]


def occupied(roster: Roster) -> frozenset[TaskId]:
    """Everything that any present member has not let go of."""
    return frozenset().union(*(member.owned for member in roster.present))


def sort_claims(view: View, memory: Memory, roster: Roster, items: Configured) -> Claims:
    """Sort what the present members report; balance is no concern here."""
    reported = {member.member_id: frozenset(member.owned) for member in roster.present}
    active = frozenset[TaskId]().union(*reported.values())
    deleted = active - items.all
    copies = _surplus_copies(memory, roster, reported, active)
    stays: dict[str, frozenset[TaskId]] = {}
    let_go: dict[str, dict[TaskId, Reason]] = {}
    for member in roster.present:
        running = reported[member.member_id] - member.stopping
        staying, gone = running, dict[TaskId, Reason]()
        for why, tasks in (
            (Why.DELETED, deleted),
            (Why.SUSPENDED, view.suspended),
            (Why.DUPLICATE, copies.get(member.member_id, frozenset())),
        ):
            if tasks and not staying.isdisjoint(tasks):
                gone.update(dict.fromkeys(staying & tasks, Reason(why, view.cause)))
                staying -= tasks
        general = _lets_go(member, roster)
        if general is not None:
            gone.update(dict.fromkeys(staying, Reason(general, view.cause)))
            staying = frozenset()
        stays[member.member_id] = staying
        if gone:
            let_go[member.member_id] = gone
    kept_by_all = frozenset[TaskId]().union(*stays.values())
    in_flight = frozenset() if len(kept_by_all) == len(active) else (active - kept_by_all) & items.all
    return Claims(active, stays, let_go, in_flight)


def _lets_go(member: Member, roster: Roster) -> Why | None:
    """Why ``member`` must let go of everything, if it must."""
    if roster.current[member.identity] is not member:
        return Why.SUPERSEDED
    if member.identity in roster.leaving and (roster.receivers or member.identity in roster.held):
        return Why.DRAIN
    return None


def _surplus_copies(
    memory: Memory, roster: Roster, reported: Mapping[str, frozenset[TaskId]], active: frozenset[TaskId]
) -> dict[str, frozenset[TaskId]]:
    """Of tasks that several members report: per member id, the copies that go. One running copy stays."""
    if sum(map(len, reported.values())) == len(active):
        return {}
    seen: set[TaskId] = set()
    doubled: set[TaskId] = set()
    for tasks in reported.values():
        doubled |= seen & tasks
        seen |= tasks
    surplus: dict[str, set[TaskId]] = {}
    for task in doubled:
        holders = [m for m in roster.present if task in reported[m.member_id] and task not in m.stopping]
        best = min(holders, key=lambda m: _precedence(m, task, memory, roster), default=None)
        for member in holders:
            if member is not best:
                surplus.setdefault(member.member_id, set()).add(task)
    return {member_id: frozenset(tasks) for member_id, tasks in surplus.items()}


def _precedence(member: Member, task: TaskId, memory: Memory, roster: Roster) -> tuple[bool, bool, str, str]:
    """The smallest keeps its copy: one that may keep tasks at all, to which memory says it was given."""
    given = task in memory.given.get(member.identity, ())
    return _lets_go(member, roster) is not None, not given, member.identity, member.member_id
