"""The effects of past rounds, for people: a short list of the last ones, and totals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cooperator.model import Epoch, Memory
from cooperator.planner.plan import Plan

if TYPE_CHECKING:
    from cooperator.leader.state import LeaderState


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One round: when (ms since the epoch), why, and how many items it changed.

    ``since_ms``: when the cause became known. A move takes more than one round; the later ones keep its
    cause. ``events``: the events that caused the round (see ``causes``).
    """

    at_ms: int
    since_ms: int
    term: int
    generation: int
    cause: str
    members: int
    assigned: int
    revoked: int
    moved: int
    held: int
    events: str = ""


def note_births(state: "LeaderState", epoch: Epoch) -> None:
    """Note incarnations that join for the first time. One that already runs something is older than that."""
    known = state.memory.incarnations
    for member in state.members:
        if not member.owned and known.get(member.identity) != member.incarnation:
            state.born[member.identity] = member.incarnation, epoch


def record_rebalance(
    state: "LeaderState", plan: Plan, memory: Memory, cause: str, now_ms: int, events: str = ""
) -> None:
    """Add the round of ``plan`` to the history. ``memory`` is its outcome, ``state.memory`` the one before.

    A move is an assignment to another identity than the last owner.
    """
    state.mark_busy(now_ms)
    since_ms = state.busy_since_ms or now_ms
    if not memory.moving and not any(entry.leased for entry in memory.unstopped):
        state.busy_since_ms = None
    assigned = revoked = moved = 0
    owners = state.owners
    present = {member.identity for member in state.members}
    for identity, tasks in state.memory.given.items():
        if identity not in present:
            owners.update(dict.fromkeys(tasks, identity))
    for member in state.members:
        assignment = plan.assignments[member.member_id]
        revoked += len(assignment.revoked)
        owners.update(dict.fromkeys(assignment.revoked, member.identity))
    for member in state.members:
        assignment = plan.assignments[member.member_id]
        assigned += len(assignment.assigned)
        if owners:
            moved += sum(owners.pop(task, member.identity) != member.identity for task in assignment.assigned)
    state.rebalances.append(
        Rebalance(
            now_ms,
            since_ms,
            state.memory.term,
            state.generation,
            cause,
            len(state.members),
            assigned,
            revoked,
            moved,
            len(plan.held),
            events,
        )
    )
    state.reasons[cause] = state.reasons.get(cause, 0) + 1
    changes = {"rebalances": 1, "assigned": assigned, "revoked": revoked, "moved": moved}
    for name, count in changes.items():
        state.counters[name] = state.counters.get(name, 0) + count
