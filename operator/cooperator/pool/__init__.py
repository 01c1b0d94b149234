"""The lifecycle of a Worker's pods, as a pure decision.

    decide(desired, observed, memory, now_ms) -> Decision(actions, facts, reports, next_ms, memory)

Contents: desired and observed state of a pool, which ordinals it should have, deaths and their
proofs, crash budgets, rolls, poison tasks. The meaning of a pod depends on the host: a Kubernetes pod, or a
process group on a laptop. Values in, values out; no clock, no I/O. May import ``model`` only.

A host calls ``decide`` when anything that it observes has changed, and at ``next_ms``. It hands ``facts`` to
the leader *before* it carries out ``actions``: by the time a pod is asked to end, the leader must know it as
leaving or returning. An action without visible effect is requested again after a while, so a failed action is
not lost. The mark that ``Drain`` leaves is kept with the pod, so that a host without memory can continue;
it counts the drain anew, by its own clock.
"""

from cooperator.pool.actions import Action, Create, Delete, Drain, Kill, Remove, UnDrain
from cooperator.pool.decide import decide
from cooperator.pool.decision import Decision, PoolFacts, Report, ReportReason
from cooperator.pool.desired import PoolDesired, PoolPolicy, RollStrategy
from cooperator.pool.incarnations import survey
from cooperator.pool.memory import PoolMemory
from cooperator.pool.observed import (
    End,
    EndCause,
    GroupSeen,
    MarkReason,
    MemberSeen,
    Node,
    Phase,
    Pod,
    PoolObserved,
)
from cooperator.pool.poison import pardon

__all__ = [
    "Action",
    "Create",
    "Decision",
    "Delete",
    "Drain",
    "End",
    "EndCause",
    "GroupSeen",
    "Kill",
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
    "survey",
]
