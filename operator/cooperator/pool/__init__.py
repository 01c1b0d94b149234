"""The life of a Worker's pods, as a pure decision.

    decide(desired, observed, memory, now_ms) -> Decision(actions, facts, reports, next_ms, memory)

What may live here: what is wanted and seen of a pool, which ordinals it should have, deaths and their proofs,
crash budgets, rolls, poison tasks. A pod is whatever the host makes of it: a pod of Kubernetes, or a process
group on a laptop. Values in, values out; no clock, no I/O. May import ``model`` only.

A host calls ``decide`` when anything it sees has changed, and at ``next_ms``. It hands ``facts`` to the
leader *before* it carries out ``actions``: whoever is told to end must be known as leaving, or returning, by
then. An action that does not show in what is seen next is asked for again after a while, so nothing is lost
when it fails. The mark that ``Drain`` leaves is kept with the pod, so that a host without memory goes on.
"""

from cooperator.pool.actions import Action, Create, Delete, Drain, Kill, Remove, UnDrain
from cooperator.pool.decide import decide
from cooperator.pool.decision import Decision, PoolFacts, Report, ReportReason
from cooperator.pool.desired import PoolDesired, PoolPolicy, RollStrategy
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import GroupSeen, Mark, MarkReason, MemberSeen, Node, Phase, Pod, PoolObserved
from cooperator.pool.poison import pardon

__all__ = [
    "Action",
    "Create",
    "Decision",
    "Delete",
    "Drain",
    "GroupSeen",
    "Kill",
    "Mark",
    "MarkReason",
    "MemberSeen",
    "Node",
    "Phase",
    "Pod",
    "PoolDesired",
    "PoolFacts",
    "PoolMemory",
    "PoolObserved",
    "PoolPolicy",
    "Remove",
    "Report",
    "ReportReason",
    "RollStrategy",
    "UnDrain",
    "decide",
    "pardon",
]
