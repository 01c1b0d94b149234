"""The scheduling decision: ``plan(view, memory) -> (Plan, Memory)``, pure and deterministic.

What may live here: the view (all inputs of a decision), the plan, the policies (``default``, ``kip415``,
``eager``), the target and the next safe step as separate parts, holds, and the assignors, one strategy per
file. Time is an argument, timers are values in the plan. No I/O, no clock, no randomness.
May import ``model`` only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cooperator.model import Member, Memory, PolicyName
from cooperator.planner import default, eager, itemsets, kip415
from cooperator.planner.plan import HeldTask, Plan, Reason, Why
from cooperator.planner.view import Facts, View

__all__ = ["Facts", "HeldTask", "Plan", "Reason", "View", "Why", "plan", "prepare"]

_POLICIES: Final[Mapping[PolicyName, Callable[[View, Memory], tuple[Plan, Memory]]]] = {
    PolicyName.DEFAULT: default.plan,
    PolicyName.KIP415: kip415.plan,
    PolicyName.EAGER: eager.plan,
}


def plan(view: View, memory: Memory) -> tuple[Plan, Memory]:
    """Decide one round by ``view.policy``: the same view and memory give the same plan.

    The returned memory must be persisted before any assignment of the plan is sent.
    """
    return _POLICIES[view.policy.name](view, memory)


def prepare(members: Iterable[Member]) -> None:
    """Fill the caches for the next plan of ``members`` while nothing waits for it. Affects no decision."""
    for member in members:
        itemsets.prepare(member.owned)
