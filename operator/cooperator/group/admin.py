"""The admin client: sends requests about the group while the member's own connection waits for a round.

The broker answers the requests of a connection in order, and holds a JoinGroup or SyncGroup until the round
is complete. Any other request in the meantime needs a second connection, which is opened on first use.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID, JoinGroupRequest, LeaveGroupRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from cooperator.group.config import GroupConfig
from cooperator.group.library import Connections, errors, parked_timeout_ms
from cooperator.group.listener import DescribedGroup, DescribedMember, GroupState
from cooperator.group.takeover import PROTOCOL_TYPE

_KNOWN_TO_BE_GONE = (errors.UnknownMemberIdError.errno, errors.FencedInstanceIdError.errno)


class GroupAdmin:
    """All methods are coroutines of the loop. After a KafkaError the next call opens a new connection."""

    def __init__(self, loop: NetworkSelector, config: GroupConfig) -> None:
        self._loop = loop
        self._config = config
        self._connections: Connections | None = None
        self._coordinator: Any = None

    async def describe(self) -> DescribedGroup:
        response = await self._ask(DescribeGroupsRequest(groups=[self._config.group_id]))
        group = response.groups[0]
        if group.error_code == errors.GroupIdNotFoundError.errno:
            return DescribedGroup(GroupState.DEAD, "", "", ())
        _raise_for(group.error_code, getattr(group, "error_message", None))
        members = tuple(_member(member) for member in group.members)
        return DescribedGroup(_state(group.group_state), group.protocol_type, group.protocol_data, members)

    async def remove(self, members: Iterable[tuple[str, str | None]], reason: str) -> None:
        """Remove (member id, group instance id) pairs by one LeaveGroup. Members that are gone are no error.

        With an instance id the broker refuses if another process has taken the member's place.
        """
        identities = [
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=reason[:255]
            )
            for member_id, instance_id in members
        ]
        response = await self._ask(
            LeaveGroupRequest(group_id=self._config.group_id, members=identities, min_version=3)
        )
        _raise_for(response.error_code)
        for member in response.members:
            if member.error_code not in _KNOWN_TO_BE_GONE:
                _raise_for(member.error_code, f"member {member.member_id}")

    async def add_pending(self, protocols: Sequence[tuple[str, bytes]]) -> str:
        """Get a member id without using it (KIP-394).

        No round completes until ``remove`` removes that id, or until one session time-out has passed.
        """
        request = JoinGroupRequest(
            group_id=self._config.group_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.rebalance_timeout_ms,
            member_id=UNKNOWN_MEMBER_ID,
            protocol_type=PROTOCOL_TYPE,
            protocols=list(protocols),
            min_version=4,
        )
        response = await self._ask(request, parked_timeout_ms(self._config))
        if response.error_code != errors.MemberIdRequiredError.errno:
            _raise_for(response.error_code)
            raise errors.IllegalStateError("JoinGroup without a member id was not answered with one")
        return str(response.member_id)

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._connections = None
        self._coordinator = None

    async def _ask(self, request: Any, timeout_ms: int | None = None) -> Any:
        try:
            if self._connections is None:
                self._connections = Connections(self._loop, self._config)
            connections = self._connections
            await connections.bootstrap()
            if self._coordinator is None:
                self._coordinator = await self._find_coordinator(connections)
            response = await connections.send(request, self._coordinator, timeout_ms)
        except Exception:
            self.close()
            raise
        if _moved(response):
            self._coordinator = None
        return response

    async def _find_coordinator(self, connections: Connections) -> Any:
        group_id = self._config.group_id
        request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
        response = await connections.send(request, connections.manager.least_loaded_node())
        found = response.coordinators[0] if response.coordinators else response
        _raise_for(found.error_code)
        return connections.manager.cluster.add_coordinator(found, CoordinatorType.GROUP, group_id)


def _member(member: Any) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=bytes(member.member_metadata or b""),
        assignment=bytes(member.member_assignment or b""),
    )


def _state(name: str) -> GroupState:
    try:
        return GroupState(name)
    except ValueError:
        raise errors.IllegalStateError(
            f"the broker describes the group as {name!r}, which is not a classic group"
        ) from None


def _moved(response: Any) -> bool:
    codes = {getattr(response, "error_code", 0)} | {g.error_code for g in getattr(response, "groups", ())}
    return bool(codes & {errors.NotCoordinatorError.errno, errors.CoordinatorNotAvailableError.errno})


def _raise_for(error_code: int, detail: str | None = None) -> None:
    if error_code:
        error = errors.for_code(error_code)
        raise error(detail) if detail else error()
