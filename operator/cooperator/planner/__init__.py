"""The scheduling decision: ``plan(view, memory, workspace) -> (Plan, Memory)``, deterministic.

Contents: the view (all inputs of a decision), the plan, the policies (``default``, ``kip415``,
``eager``), the target and the next safe step as separate parts, holds, and the assignors, one strategy per
file. Time is an argument, timers are values in the plan. No I/O, no clock, no randomness, and no state of a
module: the state between rounds is in the ``Workspace`` of one leader.
May import ``model`` only.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cooperator.model import Memory, PolicyName
from cooperator.planner import default, eager, kip415
from cooperator.planner.plan import HeldTask, Plan, Reason, Why
from cooperator.planner.view import Facts, View
from cooperator.planner.workspace import Workspace

__all__ = ["Facts", "HeldTask", "Plan", "Reason", "View", "Why", "Workspace", "plan"]

_POLICIES: Final[Mapping[PolicyName, Callable[[View, Memory, Workspace], tuple[Plan, Memory]]]] = (
    MappingProxyType(
        {PolicyName.DEFAULT: default.plan, PolicyName.KIP415: kip415.plan, PolicyName.EAGER: eager.plan}
    )
)


def plan(view: View, memory: Memory, workspace: Workspace | None = None) -> tuple[Plan, Memory]:
    """Decide one round by ``view.policy``: the same view, memory and assignors give the same plan.

    ``workspace``: the leader's own; None: an empty one, with the assignors that are built in.
    The returned memory must be persisted before any assignment of the plan is sent.
    """
    return _POLICIES[view.policy.name](view, memory, Workspace() if workspace is None else workspace)
