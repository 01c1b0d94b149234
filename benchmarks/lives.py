"""One life of a group, round by round: as our leader leads it, and as Kafka's does. Members are not timed."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.reports import ReportReader
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, ConnectorConfig, Epoch, Memory, SessionKey, TaskId
from cooperator.planner import prepare
from cooperator.wire import (
    AgentReport,
    Assignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
)
from kafka_leader import KafkaLeader

TASKS_PER_CONNECTOR: Final = 10
DELAY_MS: Final = 300_000
ROUNDS: Final = (
    "cold start",
    "taken up",
    "no change",
    "member joins",
    "follow-up",
    "member lost",
    "hold ended",
)
URL: Final = "http://worker:8083/"


@dataclass(frozen=True, slots=True)
class Timed:
    """One round of one life: how long, and what it changed (numbers of items).

    ``afterwards_nanos``: what our leader does of its own accord once the shares are delivered.
    """

    nanos: int
    assigned: int
    revoked: int
    afterwards_nanos: int = 0


@dataclass(slots=True)
class Worker:
    """What one member runs, as its own records say it."""

    owned: tuple[TaskId, ...] = ()
    applied: Epoch | None = None

    def apply(self, share: Assignment) -> None:
        revoked = frozenset(share.revoked)
        if revoked:
            self.owned = tuple(task for task in self.owned if task not in revoked)
        self.owned += share.assigned
        assert share.agent is not None
        self.applied = share.agent.epoch


class Life:
    """One life of a group that our leader leads. ``rounds`` plays and times it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._config = _config(tasks)
        self._machine = LeaderMachine(LeaderSettings(url=URL, max_group_bytes=2**31))
        self._reader = ReportReader()
        self._workers = {f"member-{i:05d}": Worker() for i in range(members)}
        self._now_ms = 1_000_000
        self._generation = 0
        self._offset = 100
        self.memory = Memory()
        self._machine.handle(ev.LeadTaken(self.memory, self._config), self._now_ms)

    def rounds(self) -> Iterator[Timed]:
        """In the order of ``ROUNDS``."""
        yield self._round()
        yield self._round()
        yield self._round()
        newcomer = f"member-{len(self._workers):05d}"
        self._workers[newcomer] = Worker()
        yield self._round()
        yield self._round()
        del self._workers[newcomer]
        yield self._round()
        self._now_ms += DELAY_MS + 1
        yield self._round()

    def _round(self) -> Timed:
        self._generation += 1
        # The offset is the one thing that differs from round to round where nothing changes.
        self._offset += 1
        self._config = replace(self._config, offset=self._offset)
        members = tuple(
            JoinedMember(member_id, None, self._metadata(member_id, worker))
            for member_id, worker in self._workers.items()
        )
        leader = JoinedMember("leader", None, self._leader_metadata())
        round_ = Round(self._generation, Protocol.SESSIONED.value, "leader", (leader, *members))
        began = time.perf_counter_ns()
        assignments = self._decide(round_)
        nanos = time.perf_counter_ns() - began
        began = time.perf_counter_ns()
        self._machine.handle(ev.Delivered(self._generation), self._now_ms)
        self._reader.foresee()
        prepare(self._machine.state.members)
        afterwards_nanos = time.perf_counter_ns() - began
        assigned = revoked = 0
        for member_id, data in assignments.items():
            if member_id in self._workers:
                share = decode_assignment(data)
                assigned += len(share.assigned)
                revoked += len(share.revoked)
                self._workers[member_id].apply(share)
        return Timed(nanos, assigned, revoked, afterwards_nanos)

    def _decide(self, round_: Round) -> Mapping[str, bytes]:
        reports = self._reader.read(round_)
        instructions = self._machine.handle(
            ev.RoundReady(
                round_.generation,
                round_.protocol,
                round_.leader_id,
                reports.members,
                reports.idle_ids,
                reports.highest_offset,
                self._config,
                reports.metadata_bytes,
            ),
            self._now_ms,
        )
        answer: Mapping[str, bytes] = {}
        for instruction in instructions:
            if isinstance(instruction, ev.SaveMemory):
                self.memory = instruction.memory
                self._machine.saved(instruction.memory)
            elif isinstance(instruction, ev.Answer):
                answer = instruction.assignments
                self._reader.expect(self._machine.state.members, instruction.written)
        return answer

    def _metadata(self, member_id: str, worker: Worker) -> bytes:
        report = AgentReport(Role.WORKER, member_id, "life-1", applied=worker.applied)
        allocation = Assignment(0, "", URL, self._offset, assigned=worker.owned)
        return encode_metadata(Metadata(URL, self._offset, allocation, report), Protocol.SESSIONED)

    def _leader_metadata(self) -> bytes:
        report = AgentReport(Role.LEADER, "leader", "leader")
        return encode_metadata(Metadata(URL, self._offset, None, report), Protocol.SESSIONED)


def _config(tasks: int) -> ClusterConfig:
    one: Mapping[str, str] = {}
    connector = ConnectorConfig(one, tasks=(one,) * TASKS_PER_CONNECTOR)
    names = (f"connector-{i:05d}" for i in range(tasks // TASKS_PER_CONNECTOR))
    return ClusterConfig(100, dict.fromkeys(names, connector), SessionKey(b"key", "HmacSHA256", 1_000_000))


def play_kafka(kafka: KafkaLeader, tasks: int, members: int) -> Iterator[Timed]:
    """One life of the group that Kafka leads, in the order of ``ROUNDS``."""
    running: dict[str, dict[TaskId, None]] = {f"member-{i:05d}": {} for i in range(members)}
    now_ms, generation = 1_000_000, 0
    kafka.life(DELAY_MS)
    kafka.configure(_config(tasks).task_counts())

    def round_() -> Timed:
        nonlocal generation
        generation += 1
        decision = kafka.decide(
            [(member_id, generation, items) for member_id, items in running.items()],
            now_ms=now_ms,
            generation=generation,
            completed=generation - 1,
            leader="member-00000",
            process="leader",
            offset=generation,
        )
        for member_id, share in decision.shares.items():
            for task in share.revoked:
                running[member_id].pop(task, None)
            running[member_id].update(dict.fromkeys(share.assigned))
        return Timed(
            decision.nanos,
            sum(len(share.assigned) for share in decision.shares.values()),
            sum(len(share.revoked) for share in decision.shares.values()),
        )

    yield round_()
    yield round_()
    yield round_()
    newcomer = f"member-{members:05d}"
    running[newcomer] = {}
    yield round_()
    yield round_()
    del running[newcomer]
    yield round_()
    now_ms += DELAY_MS + 1
    yield round_()
