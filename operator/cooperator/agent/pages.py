"""Routes of a member's endpoint: member, tasks, stories, metrics; the leader's routes while it leads."""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from aiohttp import web

import cooperator
from cooperator.agent.elected_lead import ElectedLead
from cooperator.agent.metrics import MemberMetrics
from cooperator.agent.offsets import OffsetsPage
from cooperator.agent.options import WorkerOptions
from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.leader.endpoint import (
    POSTS_TO_LEADERS,
    Handler,
    answer_health,
    error_answer,
    json_answer,
)
from cooperator.model import INSTANCE, TaskId
from cooperator.supervision import trouble


class Pages:
    """``lead``: returns the part that leads, or None."""

    def __init__(
        self,
        options: WorkerOptions,
        supervisor: SynchronizedSupervisor,
        metrics: MemberMetrics,
        lead: Callable[[], ElectedLead | None],
        offsets: OffsetsPage,
    ) -> None:
        self._options = options
        self._supervisor = supervisor
        self._metrics = metrics
        self._lead = lead
        self._offsets = offsets

    def routes(self) -> dict[str, Handler]:
        return {
            "GET /": self._root,
            "GET /healthz": answer_health,
            "GET /metrics": self._metrics.answer,
            "GET /tasks": self._tasks,
            "POST /offsets": self._offsets.answer,
            "POST /offsets/change": self._offsets.change,
            "POST /state": self._offsets.state,
            "GET /offsets/nonce": self._offsets.nonce,
            "GET /tasks/{connector}/{task}/story": self._story,
            **{route: self._leaders(route) for route in POSTS_TO_LEADERS},
        }

    async def _root(self, request: web.Request) -> web.StreamResponse:
        report = self._supervisor.report()
        return json_answer(
            200,
            {
                "version": cooperator.__version__,
                "group": self._options.group_id,
                "identity": self._options.identity,
                "incarnation": self._options.incarnation,
                "applied": None if report.applied is None else str(report.applied),
                "draining": report.draining,
                "runtime": report.warmth.value,
                "owned": len(report.owned),
                "config_offset": report.config_offset,
                "trouble": trouble(),
            },
        )

    async def _tasks(self, request: web.Request) -> web.StreamResponse:
        return json_answer(200, self._supervisor.tasks())

    async def _story(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["task"]
        if number != "instance" and not number.isdecimal():
            return error_answer(400, f"task {number[:40]!r}: use its number, or 'instance'")
        task = TaskId(request.match_info["connector"], INSTANCE if number == "instance" else int(number))
        lines = [asdict(line) | {"task": str(line.task or "")} for line in self._supervisor.story(task)]
        return json_answer(200, lines)

    def _leaders(self, route: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            lead = self._lead()
            routes: Mapping[str, Handler] = {} if lead is None else lead.routes()
            if route not in routes:
                return error_answer(409, "this member does not lead")
            return await routes[route](request)

        return handle
