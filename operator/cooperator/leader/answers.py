"""The bytes that a round ends with, for every member."""

from collections.abc import Iterable, Iterator

from cooperator.leader import events as ev
from cooperator.model import Epoch, Member
from cooperator.planner.plan import Plan
from cooperator.wire import (
    CONFIG_MISMATCH,
    NO_ERROR,
    AgentShare,
    Assignment,
    AssignmentEncoder,
    Protocol,
    encode_assignment,
)

MEMBER_BYTES = 200
"""What the broker keeps of a member besides metadata and assignment: ids, host, time-outs."""


def of_plan(event: ev.RoundReady, plan: Plan, url: str, agent: AgentShare) -> ev.Answer:
    """Each member's share; members without changes share one encoding."""
    protocol = Protocol(event.protocol)
    empty = Assignment(
        error=NO_ERROR,
        leader=event.leader_id,
        leader_url=url,
        config_offset=event.config.offset,
        assigned=(),
        revoked=(),
        delay_ms=plan.delay_ms,
        agent=agent,
    )
    encoder = AssignmentEncoder(empty, protocol)
    nothing = encoder.encode((), ())
    assignments = dict.fromkeys(event.idle_ids, nothing)
    written: dict[str, bytes] = {}
    for member in event.members:
        share, member_id = plan.shares[member.member_id], member.member_id
        if share.is_empty:
            assignments[member_id] = nothing
            continue
        written[member_id] = encoder.write(share.assigned)
        assignments[member_id] = encoder.encode_written(written[member_id], share.revoked)
    return ev.Answer(event.generation, assignments, written)


def projected(members: Iterable[Member], plan: Plan, epoch: Epoch) -> Iterator[Member]:
    """What the members will report once they have taken up the plan, if nothing else happens."""
    for member in members:
        share = plan.shares[member.member_id]
        owned, stopping = member.owned, member.stopping
        if not share.is_empty:
            owned, stopping = owned + share.assigned, stopping.union(share.revoked)
        yield member.having(owned, stopping, epoch if member.is_agent else None)


def mismatch(event: ev.RoundReady, url: str) -> ev.Answer:
    """Members know a newer configuration than can be read here: nobody gets anything (CONFIG_MISMATCH)."""
    refused = Assignment(
        error=CONFIG_MISMATCH,
        leader=event.leader_id,
        leader_url=url,
        config_offset=event.highest_offset,
        assigned=(),
        revoked=(),
        delay_ms=0,
        agent=None,
    )
    data = encode_assignment(refused, Protocol(event.protocol))
    everyone = [*event.idle_ids, *(member.member_id for member in event.members)]
    return ev.Answer(event.generation, dict.fromkeys(everyone, data))


def misfit(event: ev.RoundReady, answer: ev.Answer, limit_bytes: int) -> str:
    """Why the broker could not keep this round's group in one record; empty when it can."""
    assigned = sum(len(data) + MEMBER_BYTES for data in answer.assignments.values())
    size = event.metadata_bytes + assigned
    if size <= limit_bytes:
        return ""
    return (
        f"the group's record would have {size} bytes, and the broker takes {limit_bytes} "
        "(message.max.bytes): give the Worker fewer tasks, or split it into two"
    )
