"""The messages as bytes: frames as a broker takes and gives them."""

from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from simulation.broker.messages import (
    Answer,
    Described,
    DescribeGroup,
    Error,
    Heartbeat,
    Heartbeaten,
    Joined,
    JoinGroup,
    LeaveGroup,
    Left,
    Request,
    Synced,
    SyncGroup,
)

# SyncGroup v5 adds nothing but the protocol's name, which it wants repeated.
_JOIN, _SYNC, _HEARTBEAT, _LEAVE, _DESCRIBE = 9, 4, 4, 5, 6


def encoded(request: Request, group_id: str, correlation_id: int) -> bytes:
    client_id = request.client
    message: Any
    match request:
        case JoinGroup():
            client_id = request.client_id
            message = JoinGroupRequest(
                version=_JOIN,
                group_id=group_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                member_id=request.member_id,
                group_instance_id=request.instance_id,
                protocol_type="connect",
                protocols=list(request.protocols),
            )
        case SyncGroup():
            message = SyncGroupRequest(
                version=_SYNC,
                group_id=group_id,
                generation_id=request.generation,
                member_id=request.member_id,
                group_instance_id=request.instance_id,
                assignments=list(request.assignments.items()),
            )
        case Heartbeat():
            message = HeartbeatRequest(
                version=_HEARTBEAT,
                group_id=group_id,
                generation_id=request.generation,
                member_id=request.member_id,
                group_instance_id=request.instance_id,
            )
        case LeaveGroup():
            named = [
                LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in request.members
            ]
            message = LeaveGroupRequest(version=_LEAVE, group_id=group_id, members=named)
        case DescribeGroup():
            message = DescribeGroupsRequest(version=_DESCRIBE, groups=[group_id])
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))


def decoded(request: Request, frame: bytes) -> Answer:
    """``frame``: without its length. ``request``: what it answers."""
    match request:
        case JoinGroup():
            answer = JoinGroupResponse.decode(frame, version=_JOIN, header=True)
            members = tuple((m.member_id, m.group_instance_id, bytes(m.metadata)) for m in answer.members)
            return Joined(
                Error(answer.error_code),
                answer.member_id,
                answer.generation_id,
                answer.leader,
                answer.protocol_name,
                members,
                answer.skip_assignment,
            )
        case SyncGroup():
            answer = SyncGroupResponse.decode(frame, version=_SYNC, header=True)
            return Synced(Error(answer.error_code), bytes(answer.assignment))
        case Heartbeat():
            answer = HeartbeatResponse.decode(frame, version=_HEARTBEAT, header=True)
            return Heartbeaten(Error(answer.error_code))
        case LeaveGroup():
            answer = LeaveGroupResponse.decode(frame, version=_LEAVE, header=True)
            told = tuple((m.member_id, m.group_instance_id, Error(m.error_code)) for m in answer.members)
            return Left(Error(answer.error_code), told)
        case DescribeGroup():
            answer = DescribeGroupsResponse.decode(frame, version=_DESCRIBE, header=True)
            return _described(answer.groups[0])


def _described(group: Any) -> Described:
    members = tuple(
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            bytes(member.member_metadata),
            bytes(member.member_assignment),
        )
        for member in group.members
    )
    return Described(
        Error(group.error_code),
        # With an error there may be no state.
        DescribedGroup(
            GroupState(group.group_state or GroupState.DEAD),
            group.protocol_type,
            group.protocol_data,
            members,
        ),
    )
