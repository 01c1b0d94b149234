"""Calls from a member to its leader's endpoint, on a thread of their own."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.leader.tls import SERVER_NAME, LeaderTrust, certificate_problem
from cooperator.model import SessionKey
from cooperator.reconciliation import Answer, Rejection
from cooperator.reconciliation.messages import decode_answer, encode_report
from cooperator.supervision import keep_turning, supervised
from cooperator.wire import DecodeError, LearnerReport, encode_learner_report, sign

log = logging.getLogger(__name__)

_POST_S = 20.0
_ASK_S = 3.0
_SHOWN = 300


class LeaderCalls:
    """Every call returns at once; the outcome arrives as an event. Calls are not retried here.

    ``leader_ca``: PEM file by which leaders that serve https are verified.
    """

    def __init__(
        self,
        tell: Callable[[ev.Event], None],
        session_key: Callable[[], SessionKey | None],
        now_ms: Callable[[], int],
        leader_ca: Path | None = None,
    ) -> None:
        self._trust = LeaderTrust(leader_ca)
        self._tell = tell
        self._report_on_its_way: asyncio.Task[None] | None = None
        self._session_key = session_key
        self._now_ms = now_ms
        self._loop = asyncio.new_event_loop()
        self._thread = supervised(self._run, "leader-calls")
        self._client: aiohttp.ClientSession | None = None
        self._turning: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=5)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)

    def post(self, order: do.PostTaskConfigs) -> None:
        """Post task configurations, signed if there is a session key (docs/protocol.md, 9). Ends in
        PostAnswered.
        """
        self._submit(self._post(order))

    def ask(self, order: do.AskLeader) -> None:
        """Ask for confirmation of the lease, signed if there is a session key. LeaderConfirmed follows, or
        nothing."""
        self._submit(self._ask(order))

    def learned(self, leader_url: str, report: LearnerReport) -> "Future[tuple[int, str]]":
        """Report what is learned, signed if there is a session key: the HTTP code and body of the answer; 0
        with the reason if the leader cannot be reached."""
        return asyncio.run_coroutine_threadsafe(self._learned(leader_url, report), self._loop)

    async def _learned(self, leader_url: str, report: LearnerReport) -> tuple[int, str]:
        body = encode_learner_report(report)
        url = f"{leader_url.rstrip('/')}/learners"
        try:
            return await self._send(url, body, self._headers(body), _ASK_S)
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            return 0, f"{url}: {_words(failure)}"

    def report(self, order: do.SendReport) -> None:
        """Report to the leader, signed if there is a session key, instead of the report that is on its way.
        Ends in ReportAnswered.
        """
        self._submit(self._begin_report(order))

    async def _begin_report(self, order: do.SendReport) -> None:
        if self._report_on_its_way is not None:
            self._report_on_its_way.cancel()
        self._report_on_its_way = asyncio.create_task(self._report(order))

    async def _report(self, order: do.SendReport) -> None:
        answer = await self._answer_to(order)
        self._tell(ev.ReportAnswered(order.report.sequence, answer))

    async def _answer_to(self, order: do.SendReport) -> Answer | Rejection | None:
        body = encode_report(order.report)
        url = f"{order.leader_url.rstrip('/')}/report"
        try:
            status, text = await self._send(url, body, self._headers(body), order.timeout_ms / 1000)
            if status == 200:
                return decode_answer(text.encode())
        except (aiohttp.ClientError, OSError, ValueError, DecodeError) as failure:
            log.info("the leader does not answer report %d: %s", order.report.sequence, _words(failure))
            return None
        log.info("the leader does not take report %d: %d %s", order.report.sequence, status, text[:_SHOWN])
        return None

    async def _post(self, order: do.PostTaskConfigs) -> None:
        body = json.dumps([dict(config) for config in order.configs], separators=(",", ":")).encode()
        url = f"{order.leader_url.rstrip('/')}/connectors/{quote(order.connector, safe='')}/tasks"
        error = ""
        try:
            status, text = await self._send(url, body, self._headers(body), _POST_S)
            if status >= 300:
                error = f"{status} {text[:_SHOWN]}"
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            error = f"{url}: {_words(failure)}"
        if error:
            log.warning(
                "the task configurations of %s were not accepted, trying again: %s", order.connector, error
            )
        self._tell(ev.PostAnswered(order.connector, order.number, error))

    def _headers(self, body: bytes) -> dict[str, str]:
        key = self._session_key()
        signature = sign(key, body) if key is not None else {}
        return {"Content-Type": "application/json", **signature}

    async def _ask(self, order: do.AskLeader) -> None:
        question = {
            "member_id": order.member_id,
            "term": order.epoch.term,
            "generation": order.epoch.generation,
        }
        body = json.dumps(question).encode()
        sent_at_ms = self._now_ms()
        try:
            status, text = await self._send(
                f"{order.leader_url.rstrip('/')}/lease", body, self._headers(body), _ASK_S
            )
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            log.info("the leader cannot be reached: %s", _words(failure))
            return
        if status == 200:
            self._tell(ev.LeaderConfirmed(sent_at_ms, order.epoch))
        else:
            log.info("the leader does not confirm the lease: %d %s", status, text[:_SHOWN])

    async def _send(self, url: str, body: bytes, headers: dict[str, str], total_s: float) -> tuple[int, str]:
        assert self._client is not None
        timeout = aiohttp.ClientTimeout(total=total_s)
        verified: dict[str, Any] = {}
        if url.startswith("https:"):
            # The leader is reached by its address, so its certificate has a fixed name.
            verified = {"ssl": self._trust.context(), "server_hostname": SERVER_NAME}
        async with self._client.post(url, data=body, headers=headers, timeout=timeout, **verified) as answer:
            return answer.status, await answer.text(errors="replace")

    def _submit(self, call: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(call, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._loop.run_forever()
        self._loop.close()

    async def _open(self) -> None:
        self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_POST_S))
        self._turning = asyncio.create_task(keep_turning())

    async def _close(self) -> None:
        calls = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        if self._client is not None:
            await self._client.close()


def _words(failure: Exception) -> str:
    return certificate_problem(failure) or str(failure) or type(failure).__name__
