"""kafka-python's connections, as the package ``group`` uses them, over simulated links.

Replaces ``cooperator.group.library.Connections``: it takes requests of kafka-python and returns responses
with the attributes that are read from them.
"""

from types import SimpleNamespace
from typing import Any

from kafka import errors
from kafka.future import Future

from cooperator.group.library import request_timeout_ms
from tests.simulation.broker import messages as say
from tests.simulation.link import Link, MakeRequest
from tests.simulation.loop import Loop

NODE = 1
RECONNECT_MS = 50


class Manager:
    """The used part of ``KafkaConnectionManager``."""

    def __init__(self, loop: Loop, client_id: str, timeout_ms: int) -> None:
        self._net = loop
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._links = 0
        self._link: Link | None = None
        self.cluster = SimpleNamespace(add_coordinator=lambda *_: NODE, request_update=self._updated)
        self.broker_version = (4, 1)
        self.closed = False

    @property
    def connected(self) -> bool:
        return self._link is not None and not self._link.closed

    def least_loaded_node(self) -> int:
        return NODE

    def call_soon(self, work: Any, *args: Any) -> Future:
        return self._net.call_soon_with_future(work, *args)

    def close(self, node_id: object = None) -> None:
        if node_id is None:
            self.closed = True
        if self._link is not None:
            self._link.close()
            self._link = None

    async def wait_for(self, future: Future, timeout_ms: float | None) -> Any:
        if timeout_ms is None or future.is_done:
            return await future
        first = Future()
        future.add_both(lambda _: first.is_done or first.success(None))
        timer = self._net.call_later(timeout_ms / 1000, lambda: first.is_done or first.success(None))
        await first
        timer.cancel()
        if not future.is_done:
            raise errors.KafkaTimeoutError(f"timed out after {timeout_ms} ms")
        return await future

    def send(self, request: Any, node_id: object = None, request_timeout_ms: float | None = None) -> Future:
        return self.call_soon(self._converse, request, request_timeout_ms or self._timeout_ms)

    async def _converse(self, request: Any, timeout_ms: float) -> Any:
        if self.closed:
            raise errors.KafkaConnectionError("closed")
        link = self._link
        if link is None or link.closed:
            self._links += 1
            owner = self._net.process
            link = self._link = Link(owner, owner.simulation.next_link())
        kind = type(request).__name__
        answer = await link.ask(_REQUESTS[kind](request, self._client_id), timeout_ms)
        return _RESPONSES[kind](answer)

    def _updated(self) -> Future:
        return Future().success(None)


class Connections:
    """Replaces the library's."""

    def __init__(self, loop: Loop, config: Any) -> None:
        self.manager = Manager(loop, config.client_id, request_timeout_ms(config))
        self.client = SimpleNamespace(
            _manager=self.manager,
            is_disconnected=lambda _: not self.manager.connected,
            connection_delay=lambda _: 0 if self.manager._link is None else RECONNECT_MS,
            least_loaded_node=lambda: NODE,
            maybe_connect=lambda _: None,
        )

    @property
    def broker_version(self) -> tuple[int, ...]:
        return self.manager.broker_version

    async def bootstrap(self) -> None:
        return

    async def send(self, request: Any, node_id: Any, timeout_ms: int | None = None) -> Any:
        return await self.manager.send(request, node_id, timeout_ms)

    def close(self) -> None:
        self.manager.close()


# Requests


def _join(r: Any, client_id: str) -> MakeRequest:
    return lambda client: say.JoinGroup(
        client,
        r.member_id,
        r.group_instance_id,
        tuple(r.protocols),
        r.session_timeout_ms,
        r.rebalance_timeout_ms,
        client_id,
    )


def _sync(r: Any, client_id: str) -> MakeRequest:
    return lambda client: say.SyncGroup(
        client, r.member_id, r.generation_id, r.group_instance_id, dict(r.assignments)
    )


def _beat(r: Any, client_id: str) -> MakeRequest:
    return lambda client: say.Heartbeat(client, r.member_id, r.generation_id, r.group_instance_id)


def _leave(r: Any, client_id: str) -> MakeRequest:
    return lambda client: say.LeaveGroup(client, tuple((m.member_id, m.group_instance_id) for m in r.members))


def _describe(r: Any, client_id: str) -> MakeRequest:
    return lambda client: say.DescribeGroup(client)


_REQUESTS = {
    "JoinGroupRequest": _join,
    "SyncGroupRequest": _sync,
    "HeartbeatRequest": _beat,
    "LeaveGroupRequest": _leave,
    "DescribeGroupsRequest": _describe,
    # An answer shows that the coordinator is alive, so this sends a request that changes nothing.
    "FindCoordinatorRequest": _describe,
}

# Responses


def _joined(a: say.Joined) -> Any:
    members = [
        SimpleNamespace(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
        for member_id, instance_id, metadata in a.members
    ]
    return SimpleNamespace(
        API_VERSION=9,
        error_code=int(a.error),
        member_id=a.member_id,
        generation_id=a.generation,
        leader=a.leader,
        protocol_type="connect",
        protocol_name=a.protocol,
        members=members,
        skip_assignment=a.skip_assignment,
    )


def _synced(a: say.Synced) -> Any:
    return SimpleNamespace(
        error_code=int(a.error), protocol_type=None, protocol_name=None, assignment=a.assignment
    )


def _left(a: say.Left) -> Any:
    members = [
        SimpleNamespace(member_id=member_id, group_instance_id=instance_id, error_code=int(error))
        for member_id, instance_id, error in a.members
    ]
    return SimpleNamespace(error_code=int(a.error), members=members)


def _described(a: say.Described) -> Any:
    members = [
        SimpleNamespace(
            member_id=m.member_id,
            group_instance_id=m.group_instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            member_metadata=m.metadata,
            member_assignment=m.assignment,
        )
        for m in a.group.members
    ]
    group = SimpleNamespace(
        error_code=int(a.error),
        group_state=a.group.state.value,
        protocol_type=a.group.protocol_type,
        protocol_data=a.group.protocol,
        members=members,
    )
    return SimpleNamespace(groups=[group])


_RESPONSES = {
    "JoinGroupRequest": _joined,
    "SyncGroupRequest": _synced,
    "HeartbeatRequest": lambda a: SimpleNamespace(error_code=int(a.error)),
    "LeaveGroupRequest": _left,
    "DescribeGroupsRequest": _described,
    "FindCoordinatorRequest": lambda a: SimpleNamespace(error_code=0, coordinators=[]),
}
