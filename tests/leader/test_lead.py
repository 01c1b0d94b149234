"""The leader's thread with real logs (the twin in memory): durable before sent, fenced when replaced."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future

import pytest

from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.lead import Lead, LeadRefused
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.state import LeaderSettings
from cooperator.logs import (
    LeaderState,
    LeadWriter,
    Logs,
    LogsConfig,
    MemoryBroker,
    MemoryTransport,
    WriterFenced,
    ensure_topics_of,
)
from cooperator.model import Desired, DesiredConnector, Epoch, TaskId, TaskState, TaskStatus
from cooperator.planner.view import Facts
from cooperator.wire import (
    AgentReport,
    Assignment,
    Metadata,
    Owner,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
)
from support import eventually


class Group:
    """What the leader asks of its membership, written down."""

    def __init__(self) -> None:
        self.rejoins: list[str] = []
        self.evicted: list[str] = []

    def rejoin(self, reason: str) -> None:
        self.rejoins.append(reason)

    def evict(self, member_ids: Sequence[str]) -> None:
        self.evicted.extend(member_ids)


class Stage:
    """A broker in memory, and leads of the group ``lake`` on it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.closing: list[Lead] = []
        self.logs: list[Logs] = []

    def group_logs(self) -> Logs:
        config = LogsConfig("memory", "lake")
        transport = MemoryTransport(self.broker)
        ensure_topics_of(transport, config.topic_names, replication_factor=1, timeout_ms=5_000)
        logs = Logs(transport, config)
        self.logs.append(logs)
        return logs

    def lead(self, group: Group, **options: object) -> Lead:
        machine = LeaderMachine(LeaderSettings(url="http://leader/"))
        lead = Lead(machine, group, self.group_logs(), **options)  # type: ignore[arg-type]
        lead.start()
        self.closing.append(lead)
        return lead

    def leader_state(self) -> LeaderState:
        return self.group_logs().leader.read_to_end(5_000)


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    for lead in stage.closing:
        lead.stop()


def a_round(generation: int, *owned: TaskId, offset: int = -1, metadata: bytes | None = None) -> Round:
    report = AgentReport(Role.WORKER, "lake-0", "life-1")
    allocation = Assignment(0, "", "", offset, owned, (), 0, None)
    data = encode_metadata(Metadata("http://lake-0/", offset, allocation, report), Protocol.SESSIONED)
    me = encode_metadata(
        Metadata("http://leader/", -1, None, AgentReport(Role.LEADER, "me", "me")), Protocol.SESSIONED
    )
    members = (JoinedMember("leader-1", "me", me), JoinedMember("m-1", None, metadata or data))
    return Round(generation, "sessioned", "leader-1", members)


def shares(answers: "Future[Mapping[str, bytes]]") -> dict[str, Assignment]:
    return {member_id: decode_assignment(data) for member_id, data in answers.result(10).items()}


def test_a_round_gives_every_member_a_share_and_the_leader_none(stage: Stage) -> None:
    lead = stage.lead(Group())
    lead.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    first = shares(lead.plan(a_round(1)))
    assert first["leader-1"].assigned == ()
    lead.submit(ev.Delivered(1))
    eventually(lambda: "a" in lead.machine.state.config.connectors, 10)
    second = shares(lead.plan(a_round(2)))
    assert second["m-1"].assigned == (TaskId("a", -1),)
    assert second["m-1"].agent is not None
    assert second["m-1"].agent.epoch == (1, 2)


def test_what_is_answered_is_in_the_leader_log_already(stage: Stage) -> None:
    lead = stage.lead(Group())
    shares(lead.plan(a_round(1, TaskId("a", 0))))
    memory = stage.leader_state().memory
    assert memory is not None
    assert memory.term == 1
    assert "lake-0" in memory.given


def test_a_leader_that_has_not_heard_of_the_group_for_a_session_configures_nothing(stage: Stage) -> None:
    silence = [False]
    lead = stage.lead(Group(), is_silent=lambda: silence[0])
    shares(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    eventually(lambda: lead.machine.state.config.session_key is not None, 10)
    silence[0] = True
    lead.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    eventually(lambda: "still lead" in lead.machine.state.trouble, 10)
    assert stage.group_logs().config.read_to_end(5_000).connectors == {}
    silence[0] = False
    eventually(lambda: "a" in lead.machine.state.config.connectors, 20, "it is written once that is known")


def test_the_next_leader_goes_on_in_the_next_term_and_the_one_before_writes_no_more(stage: Stage) -> None:
    group = Group()
    old, new = stage.lead(group), stage.lead(Group())
    assert shares(old.plan(a_round(1)))["m-1"].agent.epoch == (1, 1)  # type: ignore[union-attr]
    old.submit(ev.Delivered(1))
    assert shares(new.plan(a_round(2)))["m-1"].agent.epoch == (2, 2)  # type: ignore[union-attr]
    old.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    eventually(lambda: not old.machine.state.leading, 10, "the old leader stands down")
    assert "a" not in stage.group_logs().config.read_to_end(5_000).connectors
    eventually(lambda: group.rejoins == ["its writer was fenced"], 10, "the broker decides who leads")


def test_a_plan_by_a_leader_that_was_fenced_in_the_meantime_is_never_sent(stage: Stage) -> None:
    old, new = stage.lead(Group()), stage.lead(Group())
    shares(old.plan(a_round(1)))
    shares(new.plan(a_round(2)))
    with pytest.raises(WriterFenced):
        old.plan(a_round(3, TaskId("z", 0))).result(10)


def test_a_broker_outage_fails_the_round_and_the_next_one_succeeds(stage: Stage) -> None:
    group = Group()
    lead = stage.lead(group)
    shares(lead.plan(a_round(1)))
    stage.broker.stop()
    failing = lead.plan(a_round(2, TaskId("z", 0)))
    assert failing.exception(30) is not None
    stage.broker.start()
    assert shares(lead.plan(a_round(3, TaskId("z", 0))))["m-1"].revoked == (TaskId("z", 0),)


def test_a_group_that_is_not_ours_is_refused_after_fencing_and_nothing_is_written(stage: Stage) -> None:
    def claim(state: LeaderState, writer: LeadWriter) -> None:
        if state.owner != Owner("me", "", ""):
            raise LeadRefused("not ours")

    owner = stage.group_logs().writer
    owner.open()
    owner.write_leader(owner=Owner("other", "", ""))
    refused: list[str] = []
    lead = stage.lead(Group(), claim=claim, on_refused=refused.append)
    with pytest.raises(LeadRefused):
        lead.plan(a_round(1)).result(10)
    eventually(lambda: refused == ["not ours"], 10)
    assert stage.leader_state().memory is None


def test_a_member_that_cannot_be_understood_gets_an_empty_share(stage: Stage) -> None:
    lead = stage.lead(Group())
    assert shares(lead.plan(a_round(1, metadata=b"\xff")))["m-1"].assigned == ()


def test_statuses_of_what_is_no_more_are_forgotten_by_whoever_leads(stage: Stage) -> None:
    statuses = stage.group_logs().status
    for task in (TaskId("z", -1), TaskId("z", 0)):
        statuses.put(TaskStatus(task, TaskState.RUNNING, "lake-0", Epoch(1, 1)))
    statuses.flush(5_000)
    lead = stage.lead(Group())

    shares(lead.plan(a_round(1, TaskId("z", 0))))
    lead.submit(ev.Delivered(1))
    assert statuses.read_to_end(5_000).keys() == {TaskId("z", -1), TaskId("z", 0)}, "z-0 still runs"

    shares(lead.plan(a_round(2)))
    lead.submit(ev.Delivered(2))
    eventually(lambda: statuses.read_to_end(5_000) == {}, 10)


def test_a_proven_death_becomes_an_eviction(stage: Stage) -> None:
    group = Group()
    lead = stage.lead(group)
    shares(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    lead.submit(ev.FactsChanged(Facts(ended=frozenset({("lake-0", "life-1")}))))
    eventually(lambda: group.evicted == ["m-1"], 10)
