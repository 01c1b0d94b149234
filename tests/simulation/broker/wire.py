"""The messages as bytes: the frames that a broker receives and sends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol import admin, consumer

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from tests.simulation.broker import messages as say


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of request. ``fields`` are the message's without the group's name; ``read`` parses its
    answer."""

    request: Any
    response: Any
    version: int
    fields: Callable[[Any], dict[str, Any]]
    read: Callable[[Any], say.Answer]


def encoded(request: say.Request, group_id: str, correlation_id: int) -> bytes:
    kind = _KINDS[type(request)]
    named = {"groups": [group_id]} if isinstance(request, say.DescribeGroup) else {"group_id": group_id}
    message = kind.request(version=kind.version, **named, **kind.fields(request))
    client_id = request.client_id if isinstance(request, say.JoinGroup) else request.client
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))


def decoded(request: say.Request, frame: bytes) -> say.Answer:
    """``frame`` is without its length. ``request`` is the one that it answers."""
    kind = _KINDS[type(request)]
    return kind.read(kind.response.decode(frame, version=kind.version, header=True))


def _of_member(request: say.SyncGroup | say.Heartbeat) -> dict[str, Any]:
    return {
        "generation_id": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
    }


def _join(request: say.JoinGroup) -> dict[str, Any]:
    return {
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "protocol_type": "connect",
        "protocols": list(request.protocols),
    }


def _joined(answer: Any) -> say.Joined:
    return say.Joined(
        say.Error(answer.error_code),
        answer.member_id,
        answer.generation_id,
        answer.leader,
        answer.protocol_name,
        tuple((m.member_id, m.group_instance_id, bytes(m.metadata)) for m in answer.members),
        answer.skip_assignment,
    )


def _sync(request: say.SyncGroup) -> dict[str, Any]:
    return {**_of_member(request), "assignments": list(request.assignments.items())}


def _synced(answer: Any) -> say.Synced:
    return say.Synced(say.Error(answer.error_code), bytes(answer.assignment))


def _leave(request: say.LeaveGroup) -> dict[str, Any]:
    identity = consumer.LeaveGroupRequest.MemberIdentity
    return {"members": [identity(member_id=m, group_instance_id=i) for m, i in request.members]}


def _left(answer: Any) -> say.Left:
    answers = tuple((m.member_id, m.group_instance_id, say.Error(m.error_code)) for m in answer.members)
    return say.Left(say.Error(answer.error_code), answers)


def _described(answer: Any) -> say.Described:
    group = answer.groups[0]
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
    # With an error there may be no state.
    state = GroupState(group.group_state or GroupState.DEAD)
    described = DescribedGroup(state, group.protocol_type, group.protocol_data, members)
    return say.Described(say.Error(group.error_code), described)


_KINDS: dict[type[say.Request], _Kind] = {
    say.JoinGroup: _Kind(consumer.JoinGroupRequest, consumer.JoinGroupResponse, 9, _join, _joined),
    # Version 5 adds only the protocol's name, which must then be repeated.
    say.SyncGroup: _Kind(consumer.SyncGroupRequest, consumer.SyncGroupResponse, 4, _sync, _synced),
    say.Heartbeat: _Kind(
        consumer.HeartbeatRequest,
        consumer.HeartbeatResponse,
        4,
        _of_member,
        lambda answer: say.Heartbeaten(say.Error(answer.error_code)),
    ),
    say.LeaveGroup: _Kind(consumer.LeaveGroupRequest, consumer.LeaveGroupResponse, 5, _leave, _left),
    say.DescribeGroup: _Kind(
        admin.DescribeGroupsRequest, admin.DescribeGroupsResponse, 6, lambda _: {}, _described
    ),
}
