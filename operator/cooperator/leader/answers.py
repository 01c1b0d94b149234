"""The encoded assignments that complete a round, for every member."""

from collections.abc import Iterable, Iterator

from cooperator.leader import events as ev
from cooperator.model import Epoch, Member
from cooperator.planner.plan import Plan
from cooperator.wire import (
    CONFIG_MISMATCH,
    NO_ERROR,
    AgentAssignment,
    AssignmentEncoder,
    ExtendedAssignment,
    Protocol,
    encode_assignment,
)

MEMBER_BYTES = 200
"""Bytes that the broker stores per member besides metadata and assignment: ids, host, time-outs."""


def of_plan(event: ev.RoundReady, plan: Plan, url: str, agent: AgentAssignment) -> ev.Answer:
    """Encode each member's assignment; members without changes share one encoding."""
    protocol = Protocol(event.protocol)
    empty = ExtendedAssignment(
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
        assignment, member_id = plan.assignments[member.member_id], member.member_id
        if assignment.is_empty:
            assignments[member_id] = nothing
            continue
        written[member_id] = encoder.write(assignment.assigned)
        assignments[member_id] = encoder.encode_written(written[member_id], assignment.revoked)
    return ev.Answer(event.generation, assignments, written)


def projected(members: Iterable[Member], plan: Plan, epoch: Epoch) -> Iterator[Member]:
    """The members as they will report once they have applied the plan, if nothing else happens."""
    for member in members:
        assignment = plan.assignments[member.member_id]
        owned, stopping = member.owned, member.stopping
        if not assignment.is_empty:
            owned, stopping = owned + assignment.assigned, stopping.union(assignment.revoked)
        yield member.having(owned, stopping, epoch if member.is_agent else None)


def mismatch(event: ev.RoundReady, url: str) -> ev.Answer:
    """Refuse the round (CONFIG_MISMATCH): members have read more of the config log than is readable here."""
    refused = ExtendedAssignment(
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


def unchanged(event: ev.RoundReady, url: str) -> ev.Answer:
    """Change nothing: each stock worker is sent the offset that it has, so that it does not rejoin."""
    protocol = Protocol(event.protocol)
    if protocol is Protocol.DEFAULT:
        # It has no word for "as before": no tasks would mean that they end.
        return mismatch(event, url)
    same = ExtendedAssignment(NO_ERROR, event.leader_id, url, event.highest_offset, (), (), 0, None)
    everyone = [*event.idle_ids, *(member.member_id for member in event.members)]
    return ev.Answer(
        event.generation,
        {
            member_id: encode_assignment(
                same._replace(config_offset=event.offsets.get(member_id, event.highest_offset)), protocol
            )
            for member_id in everyone
        },
    )


def misfit(event: ev.RoundReady, answer: ev.Answer, limit_bytes: int) -> str:
    """Returns why the broker could not store this round's group in one record; empty when it can."""
    assigned = sum(len(data) + MEMBER_BYTES for data in answer.assignments.values())
    size = event.metadata_bytes + assigned
    if size <= limit_bytes:
        return ""
    return (
        f"the group's record would have {size} bytes, but the broker accepts {limit_bytes} "
        "(max.message.bytes of __consumer_offsets, read when a leader opens the group): give the Worker "
        "fewer tasks, split it into two, or raise that limit and restart the operator"
    )
