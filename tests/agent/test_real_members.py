"""Members in a real group: a real broker, real memberships and logs, and a leader that follows a script."""

import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cooperator.agent.main import Agent, Parts
from cooperator.agent.options import RuntimeKind, WorkerOptions
from cooperator.group import Round
from cooperator.leader.endpoint import Endpoint, error_answer, json_answer
from cooperator.local import processes
from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import Logs, LogsConfig, ensure_topics, open_logs
from cooperator.model import INSTANCE, Epoch, SessionKey, TaskId
from cooperator.wire import (
    AgentAssignment,
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    SessionKeyRecord,
    decode_metadata,
    encode_assignment,
    encode_config,
    encode_metadata,
    member_of,
    verify,
)
from tests.agent.surroundings import Watchdog, noop_records
from tests.group.recording_member import RecordingMember
from tests.harness.journal import Journal
from tests.harness.support import eventually

pytestmark = pytest.mark.real

LEASE_MS = 7_000
_RUN = """
import logging, pickle, sys
from cooperator.agent.main import run_worker
logging.basicConfig(level=logging.INFO)
sys.exit(run_worker(pickle.loads(bytes.fromhex(sys.argv[1]))))
"""
_FOLLOWS = Parts(lead=None)
_MAY_LEAD = Parts()
A = [TaskId("a", task) for task in range(4)]


@dataclass
class Script:
    """The leader's plan. ``wanted`` maps identities to tasks. A task moves only when nobody reports it."""

    wanted: Mapping[str, set[TaskId]] = field(default_factory=dict)
    config_offset: int = -1
    url: str = ""
    reports: dict[str, set[TaskId]] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    epochs: list[Epoch] = field(default_factory=list)

    def plan(self, round_: Round) -> Mapping[str, bytes]:
        epoch = Epoch(1, round_.generation)
        self.epochs.append(epoch)
        members = {}
        for joined in round_.members:
            metadata = decode_metadata(joined.metadata)
            if metadata.agent is not None and metadata.agent.role is Role.WORKER:
                members[joined.member_id] = member_of(joined.member_id, joined.client_id, metadata)
        self.reports = {member.identity: set(member.owned) for member in members.values()}
        self.draining = {member.identity for member in members.values() if member.draining}
        taken = set().union(*self.reports.values()) if members else set()
        assignments = {}
        for joined in round_.members:
            assigned: Sequence[TaskId] = ()
            revoked: Sequence[TaskId] = ()
            if joined.member_id in members:
                member = members[joined.member_id]
                wanted = self.wanted.get(member.identity, set())
                assigned = sorted(wanted - taken)
                revoked = sorted(set(member.owned) - wanted)
            assignment = ExtendedAssignment(
                0,
                round_.leader_id,
                self.url,
                self.config_offset,
                tuple(assigned),
                tuple(revoked),
                agent=AgentAssignment(epoch, LEASE_MS),
            )
            assignments[joined.member_id] = encode_assignment(assignment, Protocol(round_.protocol))
        return assignments


class RealMember:
    """One group of this test, and everything that has to end with it."""

    def __init__(self, broker: EmbeddedBroker, group_id: str, directory: Path) -> None:
        self.broker = broker
        self.group_id = group_id
        self.directory = directory
        self.journal = Journal(directory / "journal.jsonl")
        self.members: dict[str, Agent] = {}
        self.codes: dict[str, int] = {}
        self.watchdogs: dict[str, Watchdog] = {}
        self.threads: list[threading.Thread] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        config = LogsConfig(broker.bootstrap_servers, group_id)
        ensure_topics(config)
        self.logs: Logs = open_logs(config)
        self.logs.writer.open()
        self.script = Script()
        self.posted: list[tuple[str, Any]] = []
        self.confirming = False
        self.questions: list[Any] = []
        self.key = SessionKey(b"s" * 32, "HmacSHA256", 0)
        self.endpoint = Endpoint(
            "127.0.0.1", 0, {"POST /connectors/{name}/tasks": self._take, "POST /lease": self._lease}
        )
        self.endpoint.start()
        self.script.url = self.endpoint.url
        me = AgentReport(Role.LEADER, "operator", "incarnation-1")
        self.leader = RecordingMember(
            broker.bootstrap_servers,
            group_id,
            "operator",
            role=Role.LEADER,
            instance_id=f"{group_id}-operator",
            session_timeout_ms=20_000,
            metadata=encode_metadata(Metadata(self.endpoint.url, -1, None, me), Protocol.SESSIONED),
            make_plan=self.script.plan,
        )

    def lead(self) -> None:
        """Starts the script's leader, which leads before any member joins."""
        self.leader.membership.start()
        eventually(lambda: self.leader.generations, 30)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        verify(self.key, dict(request.headers), body)
        self.posted.append((request.match_info["name"], await request.json()))
        return json_answer(204, {})

    async def _lease(self, request: web.Request) -> web.StreamResponse:
        question = await request.json()
        self.questions.append(question)
        if not self.confirming:
            return error_answer(409, "not certain")
        current = self.script.epochs[-1]
        assert Epoch(question["term"], question["generation"]) == current
        return json_answer(200, {"confirmed": True})

    def _options(self, identity: str, incarnation: str) -> WorkerOptions:
        return WorkerOptions(
            group_id=self.group_id,
            bootstrap_servers=self.broker.bootstrap_servers,
            identity=identity,
            incarnation=incarnation,
            state_dir=self.directory / identity,
            checkpoints=self.directory / "checkpoints",
            runtime=RuntimeKind.INLINE,
            journal=self.journal.path,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
            rebalance_timeout_ms=6_000,
            lease_ms=LEASE_MS,
        )

    def member(self, identity: str, parts: Parts = _FOLLOWS) -> Agent:
        """Starts a member on threads of this process."""
        options = self._options(identity, f"incarnation-{len(self.threads)}")
        watchdog = self.watchdogs[identity] = Watchdog()
        agent = self.members[identity] = Agent(options, watchdog, parts)
        agent.open()
        thread = threading.Thread(target=lambda: self.codes.update({identity: agent.run()}), name=identity)
        thread.start()
        self.threads.append(thread)
        return agent

    def process(self, identity: str) -> "subprocess.Popen[bytes]":
        """Starts a member as a process of its own."""
        options = self._options(identity, f"{identity}-process")
        process = processes.spawn(
            [sys.executable, "-c", _RUN, pickle.dumps(options).hex()],
            options.incarnation,
            self.directory / f"{identity}.log",
        )
        self.processes.append(process)
        return process

    def configure(self, tasks: int = 4, **options: str) -> None:
        units = [f"unit-{number}" for number in range(tasks)]
        self.logs.writer.write_config([encode_config(SessionKeyRecord(self.key))])
        self.script.config_offset = self.logs.writer.write_config(
            noop_records("a", units, self.journal.path, **options)
        )

    def want(self, **wanted: Sequence[TaskId]) -> None:
        """Changes the plan and asks for a round."""
        self.script.wanted = {name.replace("_", "-"): set(tasks) for name, tasks in wanted.items()}
        if not self.leader.membership.alive:
            self.lead()
        self.leader.membership.rejoin("another plan")

    def running(self) -> dict[str, str]:
        return {task: member for task, member in self.journal.running().items() if task != "a"}

    def runs(self, timeout_s: float = 30, **wanted: Sequence[TaskId]) -> None:
        """Waits until exactly these tasks run."""
        expected = {str(task): name.replace("_", "-") for name, tasks in wanted.items() for task in tasks}

        def seen() -> bool:
            running = self.running()
            assert running == expected, running
            return True

        eventually(seen, timeout_s, f"{expected} run")

    def close(self) -> None:
        for agent in self.members.values():
            agent.stop()
        for thread in self.threads:
            thread.join(20)
        for process in self.processes:
            process.kill()
            process.wait(20)
        self.leader.membership.stop(leave=True, timeout_s=5)
        self.endpoint.stop()
        self.logs.close()
        assert self.journal.doubled() == []
        assert not any(thread.is_alive() for thread in self.threads)
        assert not any(watchdog.killed for watchdog in self.watchdogs.values())


@pytest.fixture
def real_member(broker: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[RealMember]:
    real_member = RealMember(broker, unique, tmp_path)
    yield real_member
    real_member.close()


def test_tasks_move_between_members_and_the_others_stay(real_member: RealMember) -> None:
    real_member.configure(**{"stop.delay.ms": "300"})
    real_member.want(m_0=A)
    real_member.member("m-0")
    real_member.runs(m_0=A)
    real_member.member("m-1")
    real_member.want(m_0=A[:2], m_1=A[2:])
    real_member.runs(m_0=A[:2], m_1=A[2:])
    assert real_member.journal.starts("a-0", "a-1") == 2, "untouched tasks did not restart"
    assert real_member.journal.starts("a-2", "a-3") == 4


def test_a_draining_member_leaves_when_its_tasks_run_elsewhere(real_member: RealMember) -> None:
    real_member.configure()
    real_member.want(m_0=A[:2], m_1=A[2:])
    leaver, _ = real_member.member("m-0"), real_member.member("m-1")
    real_member.runs(m_0=A[:2], m_1=A[2:])
    leaver.drain()
    eventually(lambda: real_member.script.draining == {"m-0"}, 20)
    real_member.runs(m_0=A[:2], m_1=A[2:])
    real_member.want(m_1=A)
    real_member.runs(m_1=A)
    eventually(lambda: real_member.codes == {"m-0": 0}, 20)
    assert real_member.journal.starts("a-2", "a-3") == 2


def test_an_evicted_member_runs_on_and_comes_back_with_its_tasks(real_member: RealMember) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    real_member.member("m-0")
    real_member.runs(m_0=A)
    rounds = len(real_member.script.epochs)
    [member_id] = [m.member_id for m in real_member.leader.rounds[-1].members if not m.group_instance_id]
    real_member.leader.membership.evict([member_id])
    eventually(
        lambda: len(real_member.script.epochs) > rounds and real_member.script.reports == {"m-0": set(A)}, 20
    )
    real_member.runs(m_0=A)
    assert real_member.journal.starts() == 4


def test_without_an_operator_a_member_leads_and_can_drain_too(real_member: RealMember) -> None:
    real_member.configure()
    both = [real_member.member("m-0", _MAY_LEAD), real_member.member("m-1", _MAY_LEAD)]
    eventually(lambda: set(real_member.running()) == {str(task) for task in A}, 40)
    eventually(lambda: set(real_member.running().values()) == {"m-0", "m-1"}, 40, "they share")
    leading = [agent for agent in both if agent.leads]
    [follower] = [agent for agent in both if not agent.leads]
    assert len(leading) == 1
    stayed = real_member.journal.running_at(follower.options.identity)
    started = real_member.journal.starts(*stayed)
    leading[0].drain()
    eventually(lambda: real_member.codes == {leading[0].options.identity: 0}, 40)
    eventually(lambda: set(real_member.running().values()) == {follower.options.identity}, 40)
    eventually(lambda: set(real_member.running()) == {str(task) for task in A}, 40)
    assert real_member.journal.starts(*stayed) == started


def test_its_instance_posts_signed_when_the_log_says_otherwise(real_member: RealMember) -> None:
    real_member.configure(tasks=2)
    one_task_of_two = noop_records("a", ["unit-0,unit-1"], real_member.journal.path)[1:]
    real_member.script.config_offset = real_member.logs.writer.write_config(one_task_of_two)
    real_member.want(m_0=[TaskId("a", INSTANCE)])
    real_member.member("m-0")
    name, configs = eventually(lambda: real_member.posted, 20)[0]
    assert (name, [config["task.units"] for config in configs]) == ("a", ["unit-0", "unit-1"])


def test_a_process_that_is_stopped_leaves_nothing_behind(real_member: RealMember) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    process = real_member.process("m-0")
    real_member.runs(m_0=A)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert processes.marked("m-0-process") == ()
    real_member.runs()


def test_a_process_that_gets_sigterm_drains_first(real_member: RealMember) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    process = real_member.process("m-0")
    real_member.runs(m_0=A)
    process.send_signal(signal.SIGTERM)
    eventually(lambda: real_member.script.draining == {"m-0"}, 20)
    real_member.runs(m_0=A)
    real_member.member("m-1")
    real_member.want(m_1=A)
    assert process.wait(20) == 0
    real_member.runs(m_1=A)


def test_a_process_whose_python_is_killed_takes_its_group_along(real_member: RealMember) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    process = real_member.process("m-0")
    real_member.runs(m_0=A)
    assert len(processes.marked("m-0-process")) == 2, "the process and its watchdog"
    process.kill()
    process.wait(20)
    eventually(lambda: processes.marked("m-0-process") == (), 10)
    real_member.journal.ended["m-0-process"] = time.time_ns() // 1_000_000


def test_an_outage_longer_than_the_lease_stops_nothing_while_the_leader_confirms(
    real_member: RealMember, broker: EmbeddedBroker
) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    real_member.member("m-0")
    real_member.runs(m_0=A)
    real_member.confirming = True
    asked = len(real_member.questions)
    outage_began = time.monotonic()
    broker.kill()
    try:
        eventually(lambda: time.monotonic() - outage_began > 1.5 * LEASE_MS / 1000, 60)
        assert len(real_member.questions) > asked
        real_member.runs(m_0=A)
    finally:
        broker.start()
    real_member.want(m_0=A[:3])
    real_member.runs(m_0=A[:3], timeout_s=60)
    assert real_member.journal.starts() == 4


def test_an_outage_longer_than_the_lease_stops_everything_when_nobody_confirms(
    real_member: RealMember, broker: EmbeddedBroker
) -> None:
    real_member.configure()
    real_member.want(m_0=A)
    member = real_member.member("m-0")
    real_member.runs(m_0=A)
    broker.kill()
    try:
        real_member.runs(timeout_s=LEASE_MS / 1000 + 10)
        eventually(lambda: member.report.owned == (), 10, "the member knows that it runs nothing")
    finally:
        broker.start()
    real_member.runs(m_0=A, timeout_s=60)
    assert real_member.journal.starts() == 8
