"""The encoded assignments that complete a round, for every member."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from cooperator.leader import events as ev
from cooperator.leader.fitting import Fitted
from cooperator.leader.group_record import OVERHEAD_BYTES, GroupRecord
from cooperator.model import Epoch, Member
from cooperator.model.java import KnownNames
from cooperator.model.text import counted, listed
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

_NAMED: Final = 10
"""Number of connectors that a message names."""


def empty_bytes(event: ev.RoundReady, url: str, agent: AgentAssignment) -> int:
    """The size of an assignment that changes nothing."""
    return len(encode_assignment(_empty(event, url, 0, agent), Protocol(event.protocol)))


def of_plan(
    event: ev.RoundReady,
    plan: Plan,
    url: str,
    agent: AgentAssignment,
    record: GroupRecord,
    limit_bytes: int,
    names: KnownNames | None = None,
) -> ev.Answer:
    """Encode each member's assignment; members without changes share one encoding.

    The ids of causes, which are for log lines only, are left out if the record has no room for them.
    ``names``: those of connectors that are known already.
    """
    answer = _encoded(event, plan, url, agent, names)
    if agent.events and record_bytes(record, answer) > limit_bytes:
        return _encoded(event, plan, url, agent._replace(events=""), names)
    return answer


def record_bytes(record: GroupRecord, answer: ev.Answer) -> int:
    """The size of the round's record with ``answer``."""
    changes = sum(len(data) - record.empty_bytes for data in answer.assignments.values())
    return record.least_bytes + changes


def _empty(event: ev.RoundReady, url: str, delay_ms: int, agent: AgentAssignment) -> ExtendedAssignment:
    return ExtendedAssignment(
        error=NO_ERROR,
        leader=event.leader_id,
        leader_url=url,
        config_offset=event.config.offset,
        assigned=(),
        revoked=(),
        delay_ms=delay_ms,
        agent=agent,
    )


def _encoded(
    event: ev.RoundReady, plan: Plan, url: str, agent: AgentAssignment, names: KnownNames | None
) -> ev.Answer:
    encoder = AssignmentEncoder(_empty(event, url, plan.delay_ms, agent), Protocol(event.protocol), names)
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


def nothing(event: ev.RoundReady, url: str, agent: AgentAssignment) -> ev.Answer:
    """Assign and revoke nothing, and name the epoch and where the leader serves."""
    return _to_all(event, _empty(event, url, 0, agent))


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
    return _to_all(event, refused)


def unchanged(event: ev.RoundReady, url: str) -> ev.Answer:
    """Change nothing: each stock worker is sent the offset that it has, so that it does not rejoin."""
    protocol = Protocol(event.protocol)
    if protocol is Protocol.DEFAULT:
        # It has no word for "as before": no tasks would mean that they end.
        return mismatch(event, url)
    same = ExtendedAssignment(NO_ERROR, event.leader_id, url, event.highest_offset, (), (), 0, None)
    return ev.Answer(
        event.generation,
        {
            member_id: encode_assignment(
                same._replace(config_offset=event.offsets.get(member_id, event.highest_offset)), protocol
            )
            for member_id in _everyone(event)
        },
    )


def _to_all(event: ev.RoundReady, assignment: ExtendedAssignment) -> ev.Answer:
    data = encode_assignment(assignment, Protocol(event.protocol))
    return ev.Answer(event.generation, dict.fromkeys(_everyone(event), data))


def _everyone(event: ev.RoundReady) -> list[str]:
    return [*event.idle_ids, *(member.member_id for member in event.members)]


def refusal(fitted: Fitted, record: GroupRecord, limit_bytes: int) -> str:
    """Text for users: what does not fit into the group's record, and the remedy; empty if everything does."""
    refused = fitted.refused
    if not refused and not fitted.stuck and record.least_bytes <= limit_bytes:
        return ""
    if refused:
        of = Counter(task.connector for task in refused)
        connectors = listed([f"{name} ({count})" for name, count in of.items()], _NAMED)
        what = f"not assigned: {counted(len(refused), 'task')} of {connectors}; no room is left in"
    elif fitted.stuck:
        what = f"not moved: {counted(fitted.stuck, 'task')}; there is no room for a revocation in"
    else:
        what = "not even the members' reports fit into"
    needed_bytes = max(fitted.needed_bytes, record.least_bytes) + OVERHEAD_BYTES
    return (
        f"{what} the group's record at the broker, which would need {needed_bytes:,} bytes of "
        f"{limit_bytes + OVERHEAD_BYTES:,}: raise max.message.bytes of __consumer_offsets (noticed "
        "within a minute), give the Worker fewer tasks, or split it into two"
    )
