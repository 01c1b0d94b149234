"""Handing a group back to its stock workers: a layout in which their leader finds nothing to move. Pure.

    even = every configured item is reported by exactly one worker, and each kind is spread by count:
           total mod workers of them have one more than total div workers, the others exactly that

Kafka's leader revokes wherever the layout is not even (docs/protocol.md, 4.2), whatever an assignor intended.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cooperator.model import INSTANCE, Member, TaskId
from cooperator.planner.view import View


def evenly(view: View) -> View:
    """The same view, for a plan by count alone."""
    members = tuple(replace(member, capacity=1.0) for member in view.members)
    policy = replace(view.policy, assignor="Sticky")
    return replace(view, members=members, policy=policy, weights={})


def lacks(members: tuple[Member, ...], tasks: Mapping[str, int]) -> str:
    """Returns what makes the layout uneven; empty if it is even. ``tasks``: number of tasks by connector."""
    reported = Counter(task for member in members for task in member.owned)
    wanted = {TaskId(name, number) for name, count in tasks.items() for number in range(INSTANCE, count)}
    wrong = sorted(task for task in wanted | reported.keys() if reported[task] != (task in wanted))
    if wrong:
        return f"{wrong[0]} is run by {reported[wrong[0]]} workers"
    if any(member.stopping for member in members):
        return "something is being stopped"
    for kind, is_instance in (("connectors", True), ("tasks", False)):
        loads = [sum(task.is_instance is is_instance for task in member.owned) for member in members]
        if loads and max(loads) - min(loads) > 1:
            return f"workers have {min(loads)} to {max(loads)} {kind}"
    return ""
