"""Other requests of stock workers to their leader: fencing, and requests forwarded for their users.

Answers are in Kafka Connect's shape: a worker forwards them to its user and interprets nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from cooperator.leader.endpoint import Handler, body_of, error_answer, json_answer
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.stock.fencing import FenceProducers, Fencer
from cooperator.leader.stock.posts import PostRefused, check_headers, check_signature
from cooperator.logs import Logs, LogUnavailable
from cooperator.wire import RestartRecord

PATIENCE_S: Final = 15.0
MANAGED: Final = (
    "the connectors of this group are Connector resources of the operator that leads it: change them there"
)
_CREATED: Final = (
    "cooperator leads this group, where connectors are made as Connector resources: apply one there (with "
    "spec.connectorName, if no resource can have the connector's name)"
)
_UNMANAGED: Final = (
    "connector {name} of this group has no Connector resource: it runs on as it is and cannot be changed "
    "while cooperator leads; `cooperator import` writes its resource, to be applied and changed there"
)
_WHY: Final = {
    404: "there is no such connector or task",
    409: "a rebalance is under way, or this member does not lead; try again",
    503: "its worker does not answer",
}


class Forwarded:
    """Answers user requests that workers forward to their leader.

    ``handler``: that of the Connect REST API's server; None: requests that change a connector are refused.
    ``configured``: whether a connector has a resource; None: the connector does not exist, or this is
    unknown.
    """

    def __init__(self, configured: Callable[[str], bool | None]) -> None:
        self.handler: Handler | None = None
        self._configured = configured

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.handler is not None:
            return await self.handler(request)
        if request.method in ("GET", "HEAD"):
            return error_answer(404, "HTTP 404 Not Found")
        return error_answer(403, self._why(request))

    def _why(self, request: web.Request) -> str:
        """The refusal of a change; the path is /connectors, or /connectors/NAME and what follows."""
        _, _, name = request.match_info["path"].partition("/")
        name = name.removesuffix("/config").removesuffix("/offsets")
        if not name:
            return _CREATED
        managed = self._configured(name)
        return _UNMANAGED.format(name=name) if managed is False else MANAGED if managed else _CREATED


class StockRoutes:
    """``PUT /connectors/{name}/fence``, restarts, and all other requests.

    ``current``: as in ``LeaderRoutes``. ``fence``: see ``FenceProducers``. ``restart`` and ``status``:
    methods of the service, called on another thread.
    """

    def __init__(
        self,
        current: Callable[[], tuple[LeaderThread, Logs] | None],
        group_id: str,
        fence: FenceProducers,
        restart: Callable[[RestartRecord], int],
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._current = current
        self._fencer = Fencer(group_id, fence, PATIENCE_S)
        self._restart = restart
        self._status = status
        self.forwarded = Forwarded(self._has_resource)

    def all(self) -> dict[str, Handler]:
        return {
            "PUT /connectors/{name}/fence": self._put_fence,
            "POST /connectors/{name}/restart": self._restart_connector,
            "POST /connectors/{name}/tasks/{task}/restart": self._restart_task,
            "* /{path:.*}": self.forwarded.answer,
        }

    def _has_resource(self, connector: str) -> bool | None:
        current = self._current()
        state = None if current is None else current[0].machine.state
        # Both attributes are replaced as a whole, so that any thread may read them.
        if state is None or connector not in state.config.connectors:
            return None
        return state.desired is not None and connector in state.desired.connectors

    async def _put_fence(self, request: web.Request) -> web.StreamResponse:
        current = self._current()
        if current is None:
            return error_answer(409, "this member does not lead")
        lead, logs = current
        key = logs.config.snapshot().session_key
        try:
            check_headers(request.headers, lead.standing.protocol)
            check_signature(await body_of(request), dict(request.headers), key, lead.standing.protocol)
            await self._fencer.fenced(lead, logs, request.match_info["name"])
        except PostRefused as refused:
            return error_answer(refused.code, str(refused))
        return json_answer(204, {})

    async def _restart_connector(self, request: web.Request) -> web.StreamResponse:
        include_tasks, only_failed = (
            request.query.get(name, "").lower() == "true" for name in ("includeTasks", "onlyFailed")
        )
        return await self._restarted(RestartRecord(request.match_info["name"], include_tasks, only_failed))

    async def _restart_task(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["task"]
        if not (number.isascii() and number.isdigit()):
            return error_answer(404, "HTTP 404 Not Found")
        return await self._restarted(RestartRecord(request.match_info["name"], task=int(number)))

    async def _restarted(self, record: RestartRecord) -> web.StreamResponse:
        current = self._current()
        if current is None or not current[0].standing.stock:
            # Only users of a stock worker use this route.
            return error_answer(403, MANAGED)
        try:
            code = await asyncio.to_thread(self._restart, record)
        except (TimeoutError, LogUnavailable) as error:
            return error_answer(500, f"the restart could not be asked for: {error or type(error).__name__}")
        if code >= 300:
            what = record.connector if record.task is None else f"{record.connector}-{record.task}"
            return error_answer(code, f"{what} was not restarted: {_WHY.get(code, 'its worker refused')}")
        if not (record.include_tasks or record.only_failed):
            return json_answer(204, {})
        return json_answer(202, _state(record.connector, await asyncio.to_thread(self._status)))


def _state(connector: str, status: dict[str, Any]) -> dict[str, Any]:
    """The state in the shape of Kafka Connect's ConnectorStateInfo."""
    items = [each for each in status.get("tasks", ()) if each["connector"] == connector]

    def described(item: dict[str, Any]) -> dict[str, Any]:
        return {"state": item["state"], "worker_id": item["worker_id"] or ""}

    nothing = {"state": "UNASSIGNED", "worker_id": ""}
    return {
        "name": connector,
        "connector": next((described(item) for item in items if item["task"] < 0), nothing),
        "tasks": [{"id": item["task"], **described(item)} for item in items if item["task"] >= 0],
        "type": "unknown",
    }
