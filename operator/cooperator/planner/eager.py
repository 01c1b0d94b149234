"""The policy Eager: the protocol before KIP-415, which stops the world (docs/protocol.md, section 10).

Members and connectors are sorted; connector instances are assigned round-robin, then tasks, continuing with
the next member. There is no state, no delay and nothing to revoke: stock workers stop everything before they
join. Cooperator's own members do not; what they still report is revoked first, and assigned once no member
reports it.

In the round in which the group switches to eager, stock workers have not stopped anything, and would never
stop a task that they are not given again. So each gets its last assignment again, and the next round
reassigns everything.
"""

from itertools import cycle

from cooperator.model import Assignment, Memory, TaskId
from cooperator.model.java import sort_strings, sort_tasks
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.view import View
from cooperator.planner.workspace import Workspace


def plan(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
    """Decide one round: assign everything anew."""
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
    return decided, Memory(memory.term, view.generation, was_given, incarnations)
