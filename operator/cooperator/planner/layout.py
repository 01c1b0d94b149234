"""The layout that a decision aims at: what every identity is to run, however many steps the way there takes.

A round takes the next safe step of it (``step``); reconciliation moves each member towards it by itself.
"""

from collections.abc import Mapping

from cooperator.model import TaskId
from cooperator.planner.step import RoundDecision
from cooperator.planner.view import View


def layout_of(view: View, decision: RoundDecision) -> Mapping[str, frozenset[TaskId]]:
    """Return the tasks of every identity that is a member or that tasks are held for.

        layout(i) = stays(i) − released(i) ∪ placed(i) ∪ owed(i) ∪ reserved(i)    of a member
        layout(i) = held(i)                                                       of an absent identity

    Each task is in one place at most. Tasks that may run nowhere now have none, and neither have those that a
    draining member releases until it is back.
    """
    settled, roster = decision.settled, decision.roster
    placed = {task: identity for each in decision.placed for task, identity in each.items()}
    layout: dict[str, set[TaskId]] = {}
    for identity, member in roster.current.items():
        tasks = {*decision.claimed.stays[member.member_id].all, *settled.reserved.get(identity, ())}
        layout[identity] = tasks.union(task for task in settled.owed.get(identity, ()) if task not in placed)
    for released in decision.released:
        for identity, gone in released.items():
            layout[identity].difference_update(gone)
    for task, identity in placed.items():
        layout[identity].add(task)
    # A hold may cover any task while it is not known what the absent member ran.
    taken = view.barred.union(*layout.values())
    for task, held in settled.held.items():
        if held.identity not in roster.current and task not in taken:
            layout.setdefault(held.identity, set()).add(task)
    return {identity: frozenset(layout[identity] - view.barred) for identity in sorted(layout)}
