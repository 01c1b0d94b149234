"""The policy Eager: the protocol before KIP-415, which stops the world (docs/protocol.md, section 10).

It is the baseline of benchmarks and of groups in which a stock worker speaks nothing else. Members and
connectors are sorted; connector instances are assigned round-robin, then tasks, continuing with the next
member. There is no preference for the previous owner, and no delay.

Members stop everything before they join: stock workers by themselves, cooperator's own members as the last
assignment told them (``AgentAssignment.stops_before_join``). Tasks that a member nevertheless reports are
revoked first, and everything is assigned once no member reports anything. Cooperator's own members keep
leases, so a task of one that vanished without proof of its end starts nowhere before its lease has ended, as
under every policy.

In the round in which the group switches to the eager protocol, stock workers have not stopped anything, and
would never stop a task that they are not given again. So each gets its last assignment again, and the next
round reassigns everything.
"""

from dataclasses import replace
from itertools import cycle

from cooperator.model import Assignment, Memory, TaskId
from cooperator.model.java import sort_strings, sort_tasks
from cooperator.planner import holds, step
from cooperator.planner.claims import Claims, sort_claims
from cooperator.planner.itemsets import Configured, Items
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.roster import Roster, survey
from cooperator.planner.view import View
from cooperator.planner.workspace import Workspace

_NONE: frozenset[TaskId] = frozenset()
_NO_ITEMS = Items(_NONE, _NONE, _NONE)


def plan(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    """Decide one round: assign everything anew."""
    if _has_leases(view, memory):
        return _with_leases(view, memory, workspace)
    return _as_kafka(view, memory, workspace)


def _has_leases(view: View, memory: Memory) -> bool:
    """Return whether a member, or one that is away, keeps a lease."""
    if any(member.is_agent for member in view.members):
        return True
    known = memory.given.keys() | memory.holds.keys()
    away = known - set(memory.leaseless) - {member.identity for member in view.members}
    return not view.turns_eager and (bool(away) or any(entry.leased for entry in memory.unstopped))


def _with_leases(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    wanted = workspace.configured(view.tasks)
    # Nothing waits for a member's return, only for the end of its lease.
    view = replace(view, policy=replace(view.policy, scheduled_rebalance_max_delay_ms=0))
    roster = survey(view, memory)
    claimed = sort_claims(view, memory, roster, wanted.items, workspace.reported(roster.present))
    settled = holds.settle(view, memory, roster, claimed, wanted.items.all, claimed.unreported)
    why = {**settled.free, **{task: r for owed in settled.owed.values() for task, r in owed.items()}}
    settled.owed = {}
    free: dict[TaskId, Reason] = {}
    if any(member.owned for member in roster.present):
        claimed = _revoking_everything(view, roster, claimed)
    elif not settled.frozen:
        created = Reason(Why.CREATED, view.cause)
        waiting = view.barred.union(settled.held, *settled.reserved.values())
        free = {task: why.get(task, created) for task in claimed.unreported - waiting}
    placed = _dealt(roster, wanted, frozenset(free))
    found = step.RoundDecision(roster, claimed, settled, claimed.unreported, free, placed, ({}, {}), {})
    return step.take(view, memory, found)


def _revoking_everything(view: View, roster: Roster, claimed: Claims) -> Claims:
    balance = Reason(Why.BALANCE, view.cause)
    let_go: dict[str, dict[TaskId, Reason]] = {}
    for member in roster.present:
        stays = dict.fromkeys(claimed.stays[member.member_id].all, balance)
        gone = {**claimed.let_go.get(member.member_id, {}), **stays}
        if gone:
            let_go[member.member_id] = gone
    return replace(claimed, stays=dict.fromkeys(claimed.stays, _NO_ITEMS), let_go=let_go)


def _dealt(
    roster: Roster, wanted: Configured, free: frozenset[TaskId]
) -> tuple[dict[TaskId, str], dict[TaskId, str]]:
    """Return the identity that gets each of ``free``: instances, and tasks."""
    by_id = {member.member_id: identity for identity, member in roster.receivers.items()}
    turn = cycle([by_id[member_id] for member_id in sort_strings(by_id)])
    if not by_id:
        return {}, {}
    items = wanted.items
    instances = {item: next(turn) for item in wanted.sort(items.instances & free, True)}
    return instances, {item: next(turn) for item in wanted.sort(items.tasks & free, False)}


def _as_kafka(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    items = workspace.configured(view.tasks).items
    members = {member.member_id: member for member in view.members}
    occupied = frozenset[TaskId]().union(*(member.owned for member in view.members))
    dealt: dict[str, list[TaskId]] = {member_id: [] for member_id in sort_strings(members)}
    if view.turns_eager:
        given = dict(memory.given)
        for member_id, member in members.items():
            kept = given.pop(member.identity, frozenset()) if not member.is_agent else frozenset[TaskId]()
            dealt[member_id] = sort_tasks((kept & (items.instances | items.tasks)) - occupied)
    elif members and not view.awaited and not occupied:
        turn = cycle(dealt.values())
        for kind in (items.instances, items.tasks):
            for item in sort_tasks(kind - view.barred):
                next(turn).append(item)
    revoked = {
        member_id: tuple(sort_tasks(set(member.owned) - member.stopping))
        for member_id, member in members.items()
    }
    created, stopped = Reason(Why.CREATED, view.cause), Reason(Why.BALANCE, view.cause)
    decided = Plan(
        assignments={
            member_id: Assignment(tuple(dealt[member_id]), revoked[member_id]) for member_id in members
        },
        rejoin_at_ms=min((at_ms for at_ms in view.awaited.values() if at_ms > view.now_ms), default=None),
        assigned_why={item: created for items in dealt.values() for item in items},
        revoked_why={item: stopped for items in revoked.values() for item in items},
    )
    was_given = {members[member_id].identity: frozenset(items) for member_id, items in dealt.items()}
    incarnations = {member.identity: member.incarnation for member in view.members}
    leaseless = tuple(sorted(member.identity for member in view.members if not member.is_agent))
    return decided, Memory(memory.term, view.generation, was_given, incarnations, leaseless=leaseless)
