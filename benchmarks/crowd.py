"""Very many light members of one group in one process: one thread, and for each member one connection to the
broker and one to the leader.

They speak the real protocols (Kafka's group protocol, the config and status logs, the leader's endpoint) and
run nothing. The only argument is JSON (``Said``). The process answers each line of its standard input with a
line of JSON: what the members run, and what they have sent and received (``Seen``).
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import aiohttp
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kafka.protocol.parser import KafkaProtocol

from cooperator.logs import Logs, LogsConfig, open_logs
from cooperator.model import INSTANCE, Epoch, TaskId, TaskState, TaskStatus
from cooperator.reconciliation import Answer, Rejection, ReportingMember, apply_answer, next_report, told_term
from cooperator.reconciliation.messages import decode_answer, encode_report
from cooperator.wire import (
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
    sign,
)

_PROTOCOLS: Final = (Protocol.RECONCILED, Protocol.SESSIONED)
_AGAIN_S: Final = 1.0
_READ_AGAIN_S: Final = 0.05
_MEMBER_ID_REQUIRED: Final = 79
_REBALANCE_IN_PROGRESS: Final = 27
_UNKNOWN_MEMBER_ID: Final = 25
_CPU: Final = time.process_time


@dataclass(frozen=True, slots=True)
class Said:
    """``count``: the number of members."""

    bootstrap_servers: str
    group_id: str
    count: int
    session_timeout_ms: int = 60_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 15_000


@dataclass(slots=True)
class Seen:
    """Counts of all members since they began.

    ``reconciled``: members that report between rounds. ``owned``: tasks and instances that they run.
    ``last_start_ms``: when (ms since the epoch) the last of them began. ``exchanges``: reports whose answers
    said something new or asked for another report, and those that followed these; ``bytes``: of their bodies
    and those of their answers. ``idle``: all other reports. ``posts``: task configurations posted.
    ``failures``: reports that got no answer.
    """

    joined: int = 0
    reconciled: int = 0
    owned: int = 0
    starts: int = 0
    stops: int = 0
    last_start_ms: int = 0
    exchanges: int = 0
    bytes: int = 0
    concerned: int = 0
    idle: int = 0
    posts: int = 0
    failures: int = 0
    cpu_s: float = 0.0


class Connection:
    """One connection to a broker, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = KafkaProtocol(client_id=client_id)

    @staticmethod
    async def open(servers: str, client_id: str) -> "Connection":
        host, _, port = servers.partition(":")
        return Connection(*await asyncio.open_connection(host, int(port)), client_id)

    async def ask(self, request: Any) -> Any:
        self._protocol.send_request(request)
        self._writer.write(self._protocol.send_bytes())
        while True:
            data = await self._reader.read(65_536)
            if not data:
                raise ConnectionError("the broker has closed the connection")
            for _, response in self._protocol.receive_bytes(data):
                return response


class Crowd:
    """All members, on the event loop of one thread."""

    def __init__(self, said: Said, logs: Logs) -> None:
        self.said, self.logs = said, logs
        self.seen = Seen()
        self.members = [CrowdMember(self, f"w-{number:04}") for number in range(said.count)]

    async def live(self) -> None:
        unlimited = aiohttp.TCPConnector(limit=0, keepalive_timeout=600)
        async with aiohttp.ClientSession(connector=unlimited) as self.http:
            await asyncio.gather(
                *(each for m in self.members for each in (m.join_always(), m.report_always()))
            )

    def look(self) -> Seen:
        """Any thread."""
        seen = self.seen
        seen.reconciled = sum(member.reporting.is_set() for member in self.members)
        seen.owned = sum(len(member.owned) for member in self.members)
        seen.cpu_s = _CPU()
        return seen


class CrowdMember:
    def __init__(self, crowd: Crowd, identity: str) -> None:
        self.crowd, self.identity = crowd, identity
        self.incarnation = f"{identity}-{time.time_ns()}"
        self.owned: dict[TaskId, Epoch] = {}
        self.reporting = asyncio.Event()
        self._side = ReportingMember(identity, self.incarnation)
        self._assignment: ExtendedAssignment | None = None
        self._rounds = 0
        self._follows_news = False
        self._posting: set[asyncio.Task[None]] = set()

    # --- rounds ---

    async def join_always(self) -> None:
        while True:
            try:
                connection = await Connection.open(self.crowd.said.bootstrap_servers, self.incarnation)
                await self._stay(connection)
            except (OSError, ValueError) as error:
                sys.stderr.write(f"{self.identity}: {error!r}\n")
                await asyncio.sleep(_AGAIN_S)

    async def _stay(self, connection: Connection) -> None:
        said, member_id = self.crowd.said, ""
        while True:
            self.reporting.clear()
            self._rounds += 1
            request = JoinGroupRequest(
                group_id=said.group_id,
                session_timeout_ms=said.session_timeout_ms,
                rebalance_timeout_ms=said.rebalance_timeout_ms,
                member_id=member_id,
                group_instance_id=None,
                protocol_type="connect",
                protocols=self._offers(),
                reason="",
                version=9,
            )
            joined = await connection.ask(request)
            if joined.error_code == _MEMBER_ID_REQUIRED:
                member_id = joined.member_id
                continue
            if joined.error_code:
                member_id = "" if joined.error_code == _UNKNOWN_MEMBER_ID else member_id
                await asyncio.sleep(_AGAIN_S)
                continue
            member_id = joined.member_id
            group = {
                "group_id": said.group_id,
                "generation_id": joined.generation_id,
                "member_id": member_id,
                "group_instance_id": None,
            }
            synced = await connection.ask(
                SyncGroupRequest(
                    **group,
                    protocol_type="connect",
                    protocol_name=joined.protocol_name,
                    assignments=[],
                    version=5,
                )
            )
            if synced.error_code:
                await asyncio.sleep(0 if synced.error_code == _REBALANCE_IN_PROGRESS else _AGAIN_S)
                continue
            self._take_up(joined.protocol_name, bytes(synced.assignment))
            while True:
                await asyncio.sleep(said.heartbeat_interval_ms / 1000)
                beat = await connection.ask(HeartbeatRequest(**group, version=4))
                if beat.error_code:
                    member_id = "" if beat.error_code == _UNKNOWN_MEMBER_ID else member_id
                    break

    def _offers(self) -> list[tuple[str, bytes]]:
        assignment, allocation = self._assignment, None
        if assignment is not None:
            allocation = ExtendedAssignment(
                0, assignment.leader, assignment.leader_url, assignment.config_offset, tuple(self.owned)
            )
        applied = assignment.agent.epoch if assignment is not None and assignment.agent is not None else None
        report = AgentReport(Role.WORKER, self.identity, self.incarnation, applied=applied, reconciles=True)
        metadata = Metadata("http://nowhere/", self.crowd.logs.config.snapshot().offset, allocation, report)
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in _PROTOCOLS]

    def _take_up(self, protocol: str, data: bytes) -> None:
        assignment = decode_assignment(data)
        if assignment.agent is None:
            return
        if assignment.assigned or assignment.revoked:
            raise ValueError("the benchmark wants tasks without rounds only, and a round has assigned some")
        self._assignment = assignment
        self.crowd.seen.joined += 1
        if protocol == Protocol.RECONCILED.value:
            self._side = told_term(self._side, assignment.agent.epoch.term)
            self._side = ReportingMember(
                self.identity, self.incarnation, self._side.term, 0, self._side.sequence
            )
            self.reporting.set()

    # --- between rounds ---

    async def report_always(self) -> None:
        while True:
            await self.reporting.wait()
            try:
                await self._report()
            except (OSError, ValueError, aiohttp.ClientError) as error:
                self.crowd.seen.failures += 1
                sys.stderr.write(f"{self.identity}: {error!r}\n")
                await asyncio.sleep(_AGAIN_S)

    async def _report(self) -> None:
        assignment, rounds, now_ms = self._assignment, self._rounds, time.monotonic_ns() // 1_000_000
        assert assignment is not None
        assert assignment.agent is not None
        self._side, report = next_report(self._side, tuple(self.owned), now_ms, 0)
        if report is None:
            await asyncio.sleep(_READ_AGAIN_S)
            return
        code, body, sent_bytes = await self._post(assignment, "report", encode_report(report))
        if code != 200:
            await asyncio.sleep(_AGAIN_S)
            return
        answer = decode_answer(body)
        now_ms = time.monotonic_ns() // 1_000_000
        is_stale = answer is Rejection.STALE_REPORT
        changes = 0
        if self._rounds == rounds:
            lease_ms = assignment.agent.lease_ms
            self._side, may_run = apply_answer(self._side, answer, report.sequence, now_ms, lease_ms)
            if may_run is not None and isinstance(answer, Answer):
                changes = self._run_only(may_run, Epoch(report.term, answer.group_epoch), assignment)
        seen = self.crowd.seen
        if is_stale or changes or self._follows_news:
            seen.exchanges += 1
            seen.bytes += sent_bytes + len(body)
            seen.concerned += bool(changes)
        else:
            seen.idle += 1
        self._follows_news = bool(is_stale)

    def _run_only(self, tasks: frozenset[TaskId], epoch: Epoch, assignment: ExtendedAssignment) -> int:
        seen, gone, new = self.crowd.seen, self.owned.keys() - tasks, sorted(tasks - self.owned.keys())
        now_ms = time.time_ns() // 1_000_000
        for task in gone:
            del self.owned[task]
            self._say(task, TaskState.UNASSIGNED, epoch, now_ms)
        for task in new:
            self.owned[task] = epoch
            seen.last_start_ms = now_ms
            self._say(task, TaskState.RUNNING, epoch, now_ms)
            if task.is_instance:
                posting = asyncio.create_task(self._post_tasks(task.connector, assignment))
                self._posting.add(posting)
                posting.add_done_callback(self._posting.discard)
        seen.starts += len(new)
        seen.stops += len(gone)
        return len(gone) + len(new)

    async def _post_tasks(self, connector: str, assignment: ExtendedAssignment) -> None:
        while TaskId(connector, INSTANCE) in self.owned:
            found = self.crowd.logs.config.snapshot().connectors.get(connector)
            if found is None:
                await asyncio.sleep(_READ_AGAIN_S)
                continue
            count = int(found.config["tasks.max"])
            body = json.dumps([{"number": str(number)} for number in range(count)]).encode()
            self.crowd.seen.posts += 1
            with suppress(OSError, aiohttp.ClientError):
                code, _, _ = await self._post(assignment, f"connectors/{connector}/tasks", body)
                if code == 204:
                    return
            await asyncio.sleep(_AGAIN_S)

    async def _post(self, assignment: ExtendedAssignment, path: str, body: bytes) -> tuple[int, bytes, int]:
        key = self.crowd.logs.config.snapshot().session_key
        signature: Mapping[str, str] = {} if key is None else sign(key, body)
        headers = {"Content-Type": "application/json", **signature}
        url = f"{assignment.leader_url.rstrip('/')}/{path}"
        async with self.crowd.http.post(
            url, data=body, headers=headers, timeout=aiohttp.ClientTimeout(total=120)
        ) as answer:
            return answer.status, await answer.read(), len(body)

    def _say(self, task: TaskId, state: TaskState, epoch: Epoch, now_ms: int) -> None:
        self.crowd.logs.status.put(TaskStatus(task, state, self.identity, epoch=epoch, at_ms=now_ms))


def main() -> None:
    said = Said(**json.loads(sys.argv[1]))
    crowd = Crowd(said, open_logs(LogsConfig(said.bootstrap_servers, said.group_id)))
    threading.Thread(target=lambda: asyncio.run(crowd.live()), daemon=True).start()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(asdict(crowd.look())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
