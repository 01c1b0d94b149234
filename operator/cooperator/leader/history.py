"""What rounds did, kept for people: a short list of the last ones, and totals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cooperator.planner.plan import Plan

if TYPE_CHECKING:
    from cooperator.leader.state import LeaderState


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One round: when (ms since the epoch), why, and what it changed (numbers of items)."""

    at_ms: int
    term: int
    generation: int
    cause: str
    members: int
    assigned: int
    revoked: int
    moved: int
    held: int


def record_rebalance(state: "LeaderState", plan: Plan, cause: str, now_ms: int) -> None:
    """Add the round of ``plan`` to the history; a move is an assignment to another identity than the last."""
    assigned = revoked = moved = 0
    for member in state.members:
        share = plan.shares[member.member_id]
        assigned += len(share.assigned)
        revoked += len(share.revoked)
        last_owners = list(map(state.owners.get, share.assigned))
        moved += len(last_owners) - last_owners.count(member.identity) - last_owners.count(None)
        state.owners.update(dict.fromkeys(share.assigned, member.identity))
        # Reports that are the same object as in the round before say nothing new.
        if state.counted.get(member.member_id) is not member.owned:
            for task in member.owned:
                state.owners.setdefault(task, member.identity)
    state.counted = {member.member_id: member.owned for member in state.members}
    state.rebalances.append(
        Rebalance(
            now_ms,
            state.memory.term,
            state.generation,
            cause,
            len(state.members),
            assigned,
            revoked,
            moved,
            len(plan.held),
        )
    )
    changes = {"rebalances": 1, "assigned": assigned, "revoked": revoked, "moved": moved}
    for name, count in changes.items():
        state.counters[name] = state.counters.get(name, 0) + count
