"""One incarnation of a group, round by round: led by our leader, and by Kafka's. Members are not timed."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.kafka_leader import KafkaLeader
from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.reports import ReportReader
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, ConnectorConfig, Epoch, Memory, SessionKey, TaskId
from cooperator.wire import (
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
)

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
    """The duration and the changes (numbers of items) of one round of one incarnation.

    ``afterwards_nanos`` is our leader's own work once the assignments are delivered.
    """

    nanos: int
    assigned: int
    revoked: int
    afterwards_nanos: int = 0


@dataclass(slots=True)
class Worker:
    """The tasks of one member, from its own records."""

    owned: tuple[TaskId, ...] = ()
    applied: Epoch | None = None

    def apply(self, assignment: ExtendedAssignment) -> None:
        revoked = frozenset(assignment.revoked)
        if revoked:
            self.owned = tuple(task for task in self.owned if task not in revoked)
        self.owned += assignment.assigned
        assert assignment.agent is not None
        self.applied = assignment.agent.epoch


class GroupIncarnation:
    """One incarnation of a group that our leader leads. ``rounds`` plays and times it."""

    def __init__(self, tasks: int, members: int, group: int = 0) -> None:
        self._config = _config(tasks, group)
        self._machine = LeaderMachine(LeaderSettings(url=URL, max_group_bytes=2**31))
        self._reader = ReportReader()
        self._workers = {f"member-{i:05d}": Worker() for i in range(members)}
        self._now_ms = 1_000_000
        self._generation = 0
        self._offset = 100
        self.memory = Memory()

    def rounds(self) -> Iterator[Timed]:
        """Yields in the order of ``ROUNDS``. The connectors are created once the group has formed."""
        config, self._config = self._config, ClusterConfig(self._offset)
        self._machine.handle(ev.LeadTaken(self.memory, self._config), self._now_ms)
        self._round()
        began = time.perf_counter_ns()
        self._config = replace(config, offset=self._offset)
        self._machine.handle(ev.ConfigChanged(self._config), self._now_ms)
        considered_nanos = time.perf_counter_ns() - began
        first = self._round()
        yield replace(first, afterwards_nanos=max(first.afterwards_nanos, considered_nanos))
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
        # Where nothing changes, only the offset differs from round to round.
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
        afterwards_nanos = time.perf_counter_ns() - began
        assigned = revoked = 0
        for member_id, data in assignments.items():
            if member_id in self._workers:
                assignment = decode_assignment(data)
                assigned += len(assignment.assigned)
                revoked += len(assignment.revoked)
                self._workers[member_id].apply(assignment)
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
                self._machine.handle(ev.MemorySaved(instruction.memory), self._now_ms)
            elif isinstance(instruction, ev.Answer):
                answer = instruction.assignments
                self._reader.expect(self._machine.state.members, instruction.written)
        return answer

    def _metadata(self, member_id: str, worker: Worker) -> bytes:
        report = AgentReport(Role.WORKER, member_id, "incarnation-1", applied=worker.applied)
        allocation = ExtendedAssignment(0, "", URL, self._offset, assigned=worker.owned)
        return encode_metadata(Metadata(URL, self._offset, allocation, report), Protocol.SESSIONED)

    def _leader_metadata(self) -> bytes:
        report = AgentReport(Role.LEADER, "leader", "leader")
        return encode_metadata(Metadata(URL, self._offset, None, report), Protocol.SESSIONED)


def _config(tasks: int, group: int = 0) -> ClusterConfig:
    """``group``: no two groups have a connector in common."""
    one: Mapping[str, str] = {}
    connector = ConnectorConfig(one, tasks=(one,) * TASKS_PER_CONNECTOR)
    names = (f"connector-{group}-{i:05d}" for i in range(tasks // TASKS_PER_CONNECTOR))
    return ClusterConfig(100, dict.fromkeys(names, connector), SessionKey(b"key", "HmacSHA256", 1_000_000))


def play_kafka(kafka: KafkaLeader, tasks: int, members: int) -> Iterator[Timed]:
    """Play one incarnation of the group that Kafka leads, in the order of ``ROUNDS``."""
    running: dict[str, dict[TaskId, None]] = {f"member-{i:05d}": {} for i in range(members)}
    now_ms, generation = 1_000_000, 0
    kafka.incarnation(DELAY_MS)
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
        for member_id, assignment in decision.assignments.items():
            for task in assignment.revoked:
                running[member_id].pop(task, None)
            running[member_id].update(dict.fromkeys(assignment.assigned))
        return Timed(
            decision.nanos,
            sum(len(assignment.assigned) for assignment in decision.assignments.values()),
            sum(len(assignment.revoked) for assignment in decision.assignments.values()),
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
