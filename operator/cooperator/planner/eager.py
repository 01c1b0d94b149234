"""The policy Eager: the protocol before KIP-415, which stops the world (protocol notes, section 10).

Members and connectors are sorted; all connector instances are dealt in turn, then all tasks, going on with
the next member. There is no state, no delay and nothing to revoke: stock workers stop everything before they
join. Our own members do not; what they still report is revoked first, and dealt once nobody reports it.

In the round in which the group turns eager a stock worker does not stop anything, either, and never will what
it is not given again. So each is given what it was given last, and all is dealt in the next round.
"""

from itertools import cycle

from cooperator.model import Memory, Share, TaskId
from cooperator.model.java import sort_strings, sort_tasks
from cooperator.planner.itemsets import configured
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.view import View


def plan(view: View, memory: Memory) -> tuple[Plan, Memory]:
    """Decide one round: deal everything anew."""
    items = configured(view.tasks).items
    members = {member.member_id: member for member in view.members}
    occupied = frozenset[TaskId]().union(*(member.owned for member in view.members))
    dealt: dict[str, list[TaskId]] = {member_id: [] for member_id in sort_strings(members)}
    awaiting = any(identity not in {m.identity for m in view.members} for identity in view.awaited)
    if view.turns_eager:
        given = dict(memory.given)
        for member_id, member in members.items():
            kept = given.pop(member.identity, frozenset()) if not member.is_agent else frozenset[TaskId]()
            dealt[member_id] = sort_tasks((kept & (items.instances | items.tasks)) - occupied)
    elif members and not awaiting and not occupied:
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
        shares={member_id: Share(tuple(dealt[member_id]), revoked[member_id]) for member_id in members},
        rejoin_at_ms=min((at_ms for at_ms in view.awaited.values() if at_ms > view.now_ms), default=None),
        assigned_why={item: created for items in dealt.values() for item in items},
        revoked_why={item: stopped for items in revoked.values() for item in items},
    )
    was_given = {members[member_id].identity: frozenset(items) for member_id, items in dealt.items()}
    incarnations = {member.identity: member.incarnation for member in view.members}
    return decided, Memory(memory.term, view.generation, was_given, incarnations)
