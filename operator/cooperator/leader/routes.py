"""The HTTP answers of a leader, be it the operator or a member that leads."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from aiohttp import web

from cooperator.leader.endpoint import Handler, body_of, error_answer, json_answer
from cooperator.leader.events import LearnerReported, PostOutcome
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.lease_confirmation import Candidates, LastQuestion, may_confirm
from cooperator.leader.stock.posts import (
    NOT_NOW,
    PostRefused,
    check_headers,
    check_signature,
    outcome_of,
    read_task_configs,
)
from cooperator.logs import Logs
from cooperator.model import Epoch
from cooperator.reconciliation.messages import decode_report, encode_answer
from cooperator.wire import DecodeError, LearnerAnswer, decode_learner_report, encode_learner_answer

ANSWER_S = 15.0
AGAIN_S = 0.1
FORGET_MS = 60_000
LEARN_AGAIN_MS = 5_000
"""Members that may learn ask so often what to learn; what becomes ready is reported at once."""

R = TypeVar("R")


class LeaseTimes(Protocol):
    """The times on which a confirmation depends."""

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...


class LeaderRoutes:
    """``POST /connectors/{name}/tasks``, ``/lease``, ``/learners`` and ``/report``, and ``GET /story``.

    ``current``: returns the lead and its logs, or None while there is none. ``contact_age_ms``: time since
    the leader itself sent its last answered request to the broker. ``candidates``: see ``may_confirm``.
    """

    def __init__(
        self,
        current: Callable[[], tuple[LeaderThread, Logs] | None],
        contact_age_ms: Callable[[], int],
        times: LeaseTimes,
        candidates: Callable[[], Candidates | None] = lambda: None,
    ) -> None:
        self._current = current
        self._contact_age_ms = contact_age_ms
        self._times = times
        self._candidates = candidates
        self._asked: dict[str, LastQuestion] = {}

    def all(self) -> dict[str, Handler]:
        return {
            "POST /connectors/{name}/tasks": self._post_tasks,
            "POST /lease": self._post_lease,
            "POST /learners": self._post_learners,
            "POST /report": self._post_report,
            "GET /story": self._get_story,
        }

    async def answer_status(self, status: Callable[[], dict[str, Any]]) -> web.Response:
        loop = asyncio.get_running_loop()
        return json_answer(200, await loop.run_in_executor(None, status))

    async def _post_tasks(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._refused_unread(request)) is not None:
            return refused
        body = await body_of(request)
        deadline = time.monotonic() + ANSWER_S
        while True:
            code, message = await self.take_tasks(request.match_info["name"], body, dict(request.headers))
            if message != NOT_NOW or time.monotonic() > deadline:
                break
            # The round ends sooner than the sender would retry.
            await asyncio.sleep(AGAIN_S)
        return json_answer(code, {}) if code < 300 else error_answer(code, message)

    async def take_tasks(self, name: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        """Returns the HTTP code, and a message for codes from 400 on."""
        current = self._current()
        if current is None:
            return 409, "this member does not lead"
        lead, logs = current
        key = logs.config.snapshot().session_key
        try:
            configs = read_task_configs(body, headers, key, lead.standing.protocol)
        except PostRefused as refused:
            return refused.code, str(refused)
        answer = asyncio.wait_for(asyncio.wrap_future(lead.post_tasks(name, configs)), ANSWER_S)
        code = await outcome_of(answer)
        messages = {
            404: f"connector {name} is unknown",
            409: "this member does not lead",
            PostOutcome.AGAIN: NOT_NOW,
        }
        return code, messages.get(code, "")

    async def _post_lease(self, request: web.Request) -> web.StreamResponse:
        """``{"member_id", "term", "generation"}``: 200 if the lease may be renewed from the time of this
        request.

        Signed as task configurations are; a member that has not read the present key may use the former one,
        since a member that cannot read the log must still be able to ask.
        """
        if (refused := self._refused_unread(request)) is not None:
            return refused
        body = await body_of(request)
        try:
            self._check_question(body, dict(request.headers))
            question = json.loads(body)
            member_id = str(question["member_id"])
            epoch = Epoch(int(question["term"]), int(question["generation"]))
        except PostRefused as unsigned:
            return error_answer(unsigned.code, str(unsigned))
        except (ValueError, KeyError, TypeError) as error:
            return error_answer(400, f"a lease request needs member_id, term and generation: {error!r}")
        current = self._current()
        if current is None:
            return error_answer(409, "this member does not lead")
        now_ms = int(time.monotonic() * 1000)
        if member_id not in current[0].standing.members:
            return error_answer(409, "not a member of the last round: rejoin the group")
        self._asked[member_id] = LastQuestion(epoch, now_ms)
        self._asked = {k: a for k, a in self._asked.items() if now_ms - a.at_ms < FORGET_MS}
        standing = current[0].standing
        if may_confirm(
            member_id,
            epoch,
            current=standing.epoch,
            members=standing.members,
            absent=standing.absent,
            candidates=self._candidates(),
            asked=self._asked,
            leader_contact_age_ms=self._contact_age_ms(),
            leader_session_ms=self._times.session_timeout_ms,
            recent_ms=3 * self._times.heartbeat_interval_ms,
            margin_ms=standing.margin_ms,
            now_ms=now_ms,
        ):
            return json_answer(200, {"confirmed": True})
        return error_answer(409, "it is not certain that nothing was reassigned")

    async def _post_learners(self, request: web.Request) -> web.StreamResponse:
        """A member's report of what it learns (``wire.learners``): 200 with what it is to learn; 409 if the
        sender was not in the last round.
        """
        read = await self._read_signed(request, decode_learner_report)
        if isinstance(read, web.StreamResponse):
            return read
        report, lead = read
        answer = asyncio.wrap_future(lead.learned(LearnerReported(report.member_id, report.learned)))
        try:
            learn = await asyncio.wait_for(answer, ANSWER_S)
        except TimeoutError:
            return error_answer(503, "the leader is busy; try again")
        if not isinstance(learn, tuple):
            return error_answer(409, "not a member of the last round: rejoin the group")
        body = encode_learner_answer(LearnerAnswer(learn, LEARN_AGAIN_MS))
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _post_report(self, request: web.Request) -> web.StreamResponse:
        """A member's report between rounds: 200 with the answer as soon as there is news, or after a part of
        the lease; 409 if the member should report again later.
        """
        read = await self._read_signed(request, decode_report)
        if isinstance(read, web.StreamResponse):
            return read
        report, lead = read
        answer = await asyncio.wrap_future(lead.report(report))
        if answer is None:
            return error_answer(409, "this group is not reconciled here now: report again later")
        return web.Response(body=encode_answer(answer), content_type="application/json")

    async def _read_signed(
        self, request: web.Request, decode: Callable[[bytes], R]
    ) -> tuple[R, LeaderThread] | web.StreamResponse:
        """Returns a report, signed as lease requests are, and the lead; or the refusal of the request."""
        if (refused := self._refused_unread(request)) is not None:
            return refused
        body = await body_of(request)
        try:
            self._check_question(body, dict(request.headers))
            report = decode(body)
        except PostRefused as unsigned:
            return error_answer(unsigned.code, str(unsigned))
        except DecodeError as error:
            return error_answer(400, str(error))
        current = self._current()
        if current is None:
            return error_answer(409, "this member does not lead")
        return report, current[0]

    def _refused_unread(self, request: web.Request) -> web.Response | None:
        """Returns the refusal of a request that lacks a required signature, before its body is read; None
        otherwise.
        """
        current = self._current()
        if current is None:
            return error_answer(409, "this member does not lead")
        try:
            check_headers(request.headers, current[0].standing.protocol)
        except PostRefused as unsigned:
            return error_answer(unsigned.code, str(unsigned))
        return None

    def _check_question(self, body: bytes, headers: dict[str, str]) -> None:
        """Raises PostRefused unless a member has signed."""
        current = self._current()
        if current is None:
            raise PostRefused(409, "this member does not lead")
        lead, logs = current
        config = logs.config.snapshot()
        try:
            check_signature(body, headers, config.session_key, lead.standing.protocol)
        except PostRefused:
            if config.former_key is None:
                raise
            check_signature(body, headers, config.former_key, lead.standing.protocol)

    async def _get_story(self, _: web.Request) -> web.StreamResponse:
        """Returns how the leader came to its state, oldest first: {"lines": [{"at_ms", "cause", "what"}]}."""
        current = self._current()
        if current is None:
            return error_answer(409, "this member does not lead")
        story = asyncio.wrap_future(current[0].ask(lambda machine: machine.story()))
        lines = await asyncio.wait_for(story, ANSWER_S)
        assert isinstance(lines, tuple)
        return json_answer(200, {"lines": [asdict(line) for line in lines]})
