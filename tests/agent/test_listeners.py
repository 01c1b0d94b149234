"""The membership's listener: reports in joins, assignments out of answers, and the race between them."""

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cooperator.agent import events as ev
from cooperator.agent.inbox import EventOf
from cooperator.agent.listeners import AgentGroupListener, AgentRuntimeListener
from cooperator.agent.machine import Supervisor
from cooperator.agent.options import WorkerOptions
from cooperator.agent.state import Settings
from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.group import Joined, Round
from cooperator.model import ClusterConfig, ConnectorConfig, Epoch, TaskId
from cooperator.wire import (
    AgentAssignment,
    ExtendedAssignment,
    Protocol,
    Role,
    decode_metadata,
    encode_assignment,
)

A0, A1 = TaskId("a", 0), TaskId("a", 1)
OPTIONS = WorkerOptions(
    "lake",
    "localhost:9092",
    "lake-0",
    "incarnation-1",
    Path("state"),
    Path("checkpoints"),
    zone="z",
    capacity=2.0,
)


class RecordingLeader:
    """A leader that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def joining(self) -> None:
        self.calls.append("joining")

    def plan(self, round_: Round) -> "Future[Any]":
        self.calls.append("plan")
        return Future()

    def joined(self, joined: Joined) -> None:
        self.calls.append("joined")

    def round_void(self, generation: int) -> None:
        self.calls.append("void")

    def lost(self, reason: str) -> None:
        self.calls.append(reason)


class ListenerHarness:
    def __init__(self) -> None:
        self.queue: list[EventOf] = []
        self.supervisor = SynchronizedSupervisor(Supervisor(Settings("lake-0")))
        self.listener = AgentGroupListener(
            OPTIONS,
            self.supervisor,
            self.queue.append,
            lambda contact: self.queue.append(lambda supervisor: contact),
        )
        self.listener.url = "http://me/"
        self.now_ms = 10_000
        tasks = ({"unit": "0"}, {"unit": "1"})
        config = ClusterConfig(4, {"a": ConnectorConfig({}, tasks=tasks)})
        self.supervisor.take(lambda supervisor: ev.ConfigChanged(config), lambda: self.now_ms)

    def answer(
        self,
        generation: int,
        assigned: Sequence[TaskId] = (),
        revoked: Sequence[TaskId] = (),
        leader: str = "operator",
        agent: AgentAssignment | None = None,
        data: bytes | None = None,
    ) -> None:
        assignment = ExtendedAssignment(
            0, leader, "http://leader/", 4, tuple(assigned), tuple(revoked), 0, agent
        )
        self.listener.contact(self.now_ms / 1000)
        encoded = encode_assignment(assignment, Protocol.SESSIONED) if data is None else data
        self.listener.joined(Joined(generation, "lake-0-incarnation-1-uuid", "sessioned", encoded))

    def hear(self) -> list[ev.Event]:
        """The agent's thread handles all queued events."""
        events = []
        for event_of in self.queue:

            def noted(supervisor: SynchronizedSupervisor, event_of: EventOf = event_of) -> ev.Event:
                events.append(event_of(supervisor))
                return events[-1]

            self.supervisor.take(noted, lambda: self.now_ms)
        self.queue.clear()
        return events

    def owned(self) -> tuple[TaskId, ...]:
        return self.supervisor.report().owned


@pytest.fixture
def hearing() -> ListenerHarness:
    return ListenerHarness()


def test_a_join_carries_the_members_identity_and_state(hearing: ListenerHarness) -> None:
    protocols = hearing.listener.protocols()
    assert [name for name, _ in protocols] == ["sessioned", "compatible"]
    for _, data in protocols:
        metadata = decode_metadata(data)
        assert (metadata.url, metadata.config_offset, metadata.allocation) == ("http://me/", 4, None)
        agent = metadata.agent
        assert agent is not None
        assert (agent.role, agent.identity, agent.incarnation) == (Role.WORKER, "lake-0", "incarnation-1")
        assert (agent.zone, agent.capacity, agent.applied, agent.draining) == ("z", 2.0, None, False)


def test_an_assignment_names_the_report_that_it_answers(hearing: ListenerHarness) -> None:
    hearing.listener.protocols()
    hearing.answer(3, [A0], agent=AgentAssignment(Epoch(7, 3), 20_000))
    [contact, assignment] = hearing.hear()
    assert contact == ev.Contact(10_000)
    assert isinstance(assignment, ev.AssignmentReceived)
    assert (assignment.epoch, assignment.lease_ms, assignment.assigned) == (Epoch(7, 3), 20_000, (A0,))
    assert (assignment.leader_url, assignment.config_offset, assignment.leads) == ("http://leader/", 4, False)
    assert assignment.member_id == "lake-0-incarnation-1-uuid"
    metadata = decode_metadata(hearing.listener.protocols()[0][1])
    assert metadata.allocation is not None
    assert metadata.allocation.assigned == (A0,)
    assert metadata.agent is not None
    assert metadata.agent.applied == Epoch(7, 3)


def test_a_task_that_is_stopping_is_reported_as_owned_and_stopping(hearing: ListenerHarness) -> None:
    hearing.listener.protocols()
    hearing.answer(1, [A0, A1])
    hearing.listener.protocols()
    hearing.hear()
    assert hearing.owned() == (), "a join has overtaken it"
    hearing.answer(2, [A0, A1])
    hearing.hear()
    hearing.listener.protocols()
    hearing.answer(3, revoked=[A1])
    hearing.hear()
    metadata = decode_metadata(hearing.listener.protocols()[0][1])
    assert metadata.allocation is not None
    assert metadata.allocation.assigned == (A0, A1)
    assert metadata.agent is not None
    assert metadata.agent.stopping == {A1}


def test_an_assignment_still_queued_when_the_next_join_goes_out_is_dropped(hearing: ListenerHarness) -> None:
    """That join does not report the assignment, so the leader gives its tasks to another member."""
    hearing.listener.protocols()
    hearing.answer(1, [A0])
    assert decode_metadata(hearing.listener.protocols()[0][1]).allocation is None
    [_, assignment] = hearing.hear()
    assert isinstance(assignment, ev.AssignmentReceived)
    assert assignment.superseded
    assert hearing.owned() == ()


def test_an_applied_assignment_is_in_the_next_join(hearing: ListenerHarness) -> None:
    hearing.listener.protocols()
    hearing.answer(1, [A0])
    hearing.hear()
    allocation = decode_metadata(hearing.listener.protocols()[0][1]).allocation
    assert allocation is not None
    assert allocation.assigned == (A0,)


def test_a_stock_leader_writes_no_epoch_and_its_generation_counts(hearing: ListenerHarness) -> None:
    hearing.listener.protocols()
    hearing.answer(3, [A0], agent=AgentAssignment(Epoch(7, 3), 20_000))
    hearing.hear()
    hearing.listener.protocols()
    hearing.answer(4, [A1])
    [_, assignment] = hearing.hear()
    assert isinstance(assignment, ev.AssignmentReceived)
    assert (assignment.epoch, assignment.lease_ms) == (Epoch(7, 4), OPTIONS.lease_ms)


@pytest.mark.parametrize("data", [b"", b"\x00\x02\x00"])
def test_an_assignment_that_cannot_be_read_changes_nothing(hearing: ListenerHarness, data: bytes) -> None:
    hearing.listener.protocols()
    hearing.answer(1, [A0])
    hearing.hear()
    hearing.listener.protocols()
    hearing.answer(2, data=data)
    hearing.hear()
    assert hearing.owned() == (A0,)


def test_the_member_that_plans_a_round_leads_until_another_does(hearing: ListenerHarness) -> None:
    lead = RecordingLeader()
    hearing.listener.lead = lead  # type: ignore[assignment]
    hearing.listener.protocols()
    hearing.listener.plan(Round(1, "sessioned", "lake-0-incarnation-1-uuid", ()))
    hearing.answer(1, [A0], leader="lake-0-incarnation-1-uuid")
    [_, assignment] = hearing.hear()
    assert isinstance(assignment, ev.AssignmentReceived)
    assert assignment.leads
    hearing.listener.round_void(2)
    hearing.listener.protocols()
    hearing.answer(3, leader="operator")
    hearing.answer(3, leader="operator")
    assert lead.calls == ["plan", "joined", "void", "joining", "another member leads"]


def test_a_member_that_is_dropped_no_longer_leads_and_runs_on(hearing: ListenerHarness) -> None:
    lead = RecordingLeader()
    hearing.listener.lead = lead  # type: ignore[assignment]
    hearing.listener.protocols()
    hearing.answer(1, [A0])
    hearing.listener.plan(Round(2, "sessioned", "lake-0-incarnation-1-uuid", ()))
    hearing.listener.dropped("evicted")
    hearing.hear()
    assert lead.calls == ["plan", "evicted"]
    assert hearing.owned() == (A0,)


def test_a_member_that_cannot_lead_says_so(hearing: ListenerHarness) -> None:
    plan = hearing.listener.plan(Round(1, "sessioned", "lake-0-incarnation-1-uuid", ()))
    with pytest.raises(RuntimeError, match="cannot lead"):
        plan.result(0)
    assert hearing.listener.may_take_lead([]) is not True


def test_events_of_the_runtime_reach_the_supervisor(hearing: ListenerHarness) -> None:
    listener = AgentRuntimeListener(hearing.queue.append)
    hearing.listener.protocols()
    hearing.answer(1, [A0])
    hearing.hear()
    configs = [{"unit": "0"}]
    listener.started(A0, 1)
    listener.paused(A0, 1)
    listener.progress(A0, 1, "{}")
    listener.units_changed("a", configs)
    configs[0]["unit"] = "the runtime goes on with its list"
    listener.failed(A0, 1, "no disk")
    listener.stopped(A0, 1)
    assert hearing.hear() == [
        ev.Started(A0, 1),
        ev.Paused(A0, 1),
        ev.Progressed(A0, 1, "{}"),
        ev.UnitsChanged("a", ({"unit": "0"},)),
        ev.Failed(A0, 1, "no disk"),
        ev.Stopped(A0, 1),
    ]
