"""The leader's thread with real logs (the in-memory fake): durable before sent, fenced when replaced."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from cooperator.group import GroupConfig, JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.leader_thread import LeaderThread, LeadRefused
from cooperator.leader.routes import LeaderRoutes
from cooperator.leader.state import LeaderSettings
from cooperator.leader.stock.posts import NOT_NOW
from cooperator.logs import (
    LeaderRecords,
    LeadWriter,
    Logs,
    LogsConfig,
    LogUnavailable,
    MemoryBroker,
    MemoryTransport,
    WriterFenced,
    ensure_topics_of,
)
from cooperator.model import Desired, DesiredConnector, Epoch, TaskId, TaskState, TaskStatus
from cooperator.planner.view import Facts
from cooperator.wire import (
    AgentReport,
    ConnectorRecord,
    ExtendedAssignment,
    LearnerReport,
    Metadata,
    Owner,
    Protocol,
    RestartRecord,
    Role,
    decode_assignment,
    encode_learner_report,
    encode_metadata,
    sign,
)
from tests.harness.support import eventually
from tests.harness.validated_leader import ValidatedLeader


class Group:
    """Records the leader's calls to its membership."""

    def __init__(self) -> None:
        self.rejoins: list[str] = []
        self.evicted: list[str] = []

    def rejoin(self, reason: str) -> None:
        self.rejoins.append(reason)

    def evict(self, member_ids: Sequence[str]) -> None:
        self.evicted.extend(member_ids)


class RunningLead:
    """A broker in memory, and leads of the group ``lake`` on it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.closing: list[LeaderThread] = []
        self.logs: list[Logs] = []

    def group_logs(self) -> Logs:
        config = LogsConfig("memory", "lake")
        transport = MemoryTransport(self.broker)
        ensure_topics_of(transport, config.topic_names, replication_factor=1, timeout_ms=5_000)
        logs = Logs(transport, config)
        self.logs.append(logs)
        return logs

    def lead(self, group: Group, **options: object) -> LeaderThread:
        machine = ValidatedLeader(LeaderSettings(url="http://leader/"))
        lead = LeaderThread(machine, group, self.group_logs(), **options)  # type: ignore[arg-type]
        lead.start()
        self.closing.append(lead)
        return lead

    def leader_state(self) -> LeaderRecords:
        return self.group_logs().leader.read_to_end(5_000)


@pytest.fixture
def running_lead() -> Iterator[RunningLead]:
    running_lead = RunningLead()
    yield running_lead
    for lead in running_lead.closing:
        lead.stop()


def a_round(generation: int, *owned: TaskId, offset: int = -1, metadata: bytes | None = None) -> Round:
    report = AgentReport(Role.WORKER, "lake-0", "incarnation-1")
    allocation = ExtendedAssignment(0, "", "", offset, owned, (), 0, None)
    data = encode_metadata(Metadata("http://lake-0/", offset, allocation, report), Protocol.SESSIONED)
    me = encode_metadata(
        Metadata("http://leader/", -1, None, AgentReport(Role.LEADER, "me", "me")), Protocol.SESSIONED
    )
    members = (JoinedMember("leader-1", "me", me), JoinedMember("m-1", None, metadata or data))
    return Round(generation, "sessioned", "leader-1", members)


def assignments(answers: "Future[Mapping[str, bytes]]") -> dict[str, ExtendedAssignment]:
    return {member_id: decode_assignment(data) for member_id, data in answers.result(10).items()}


def test_a_round_gives_every_member_an_assignment_and_the_leader_none(running_lead: RunningLead) -> None:
    lead = running_lead.lead(Group())
    lead.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    first = assignments(lead.plan(a_round(1)))
    assert first["leader-1"].assigned == ()
    lead.submit(ev.Delivered(1))
    eventually(lambda: "a" in lead.machine.state.config.connectors, 10)
    second = assignments(lead.plan(a_round(2)))
    assert second["m-1"].assigned == (TaskId("a", -1),)
    assert second["m-1"].agent is not None
    assert second["m-1"].agent.epoch == (1, 2)


def test_the_machine_hears_of_an_own_join_before_anything_that_is_queued(running_lead: RunningLead) -> None:
    lead = running_lead.lead(Group())
    assignments(lead.plan(a_round(1)))
    is_busy: Future[None] = Future()
    lead.ask(lambda machine: is_busy.result(10))
    at_its_turn = lead.ask(lambda machine: machine.state.is_joining)
    lead.joining()
    is_busy.set_result(None)
    assert at_its_turn.result(10) is True
    assignments(lead.plan(a_round(2)))
    assert lead.ask(lambda machine: machine.state.is_joining).result(10) is False


def test_a_join_that_cannot_be_noted_takes_no_step_with_it(
    running_lead: RunningLead, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = running_lead.lead(Group())
    assignments(lead.plan(a_round(1)))
    handle = ValidatedLeader.handle

    def out_of_reach(machine: ValidatedLeader, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        if isinstance(event, ev.Joining):
            raise LogUnavailable("the log is out of reach")
        return handle(machine, event, now_ms)

    monkeypatch.setattr(ValidatedLeader, "handle", out_of_reach)
    lead.joining()
    assert "m-1" in assignments(lead.plan(a_round(2)))


def test_a_round_is_answered_only_after_the_leader_log_has_it(running_lead: RunningLead) -> None:
    lead = running_lead.lead(Group())
    assignments(lead.plan(a_round(1, TaskId("a", 0))))
    memory = running_lead.leader_state().memory
    assert memory is not None
    assert memory.term == 1
    assert "lake-0" in memory.given


def test_a_leader_that_has_not_heard_of_the_group_for_a_session_configures_nothing(
    running_lead: RunningLead,
) -> None:
    silence = [False]
    lead = running_lead.lead(Group(), is_silent=lambda: silence[0])
    assignments(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    eventually(lambda: lead.machine.state.config.session_key is not None, 10)
    silence[0] = True
    lead.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    eventually(lambda: "still lead" in lead.machine.state.trouble, 10)
    assert running_lead.group_logs().config.read_to_end(5_000).connectors == {}
    silence[0] = False
    eventually(lambda: "a" in lead.machine.state.config.connectors, 20, "it is written once that is known")


@pytest.mark.parametrize("at", range(3))
def test_evictions_do_not_wait_for_a_log_that_cannot_be_written(running_lead: RunningLead, at: int) -> None:
    group, silence = Group(), [False]
    lead = running_lead.lead(group, is_silent=lambda: silence[0])
    assignments(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    eventually(lambda: lead.machine.state.config.session_key is not None, 10)
    silence[0] = True
    before = len(group.rejoins)
    instructions: list[ev.Instruction] = [ev.Evict(("m-8",), "gone"), ev.Evict(("m-9",), "gone")]
    instructions.insert(at, ev.WriteConfig((ConnectorRecord("a", {"k": "v"}),), "a test"))
    instructions.append(ev.RequestRejoin("what was written"))
    with pytest.raises(LogUnavailable):
        lead.ask(lambda machine: lead._carry_out(instructions)).result(10)
    assert group.evicted == ["m-8", "m-9"]
    assert len(group.rejoins) == before, "what depends on the record waits for it"


def asked(lead: LeaderThread, logs: Logs, unit: str = "u") -> tuple[int, str]:
    """The answer to the task configurations of connector ``a``, asked for once."""
    routes = LeaderRoutes(
        lambda: (lead, logs), lambda: 0, GroupConfig("memory:9092", "lake", "me", Role.WORKER)
    )
    body = json.dumps([{"units": unit}]).encode()
    key = logs.config.snapshot().session_key
    assert key is not None
    return asyncio.run(routes.take_tasks("a", body, sign(key, body)))


def leading_with_a_connector(
    running_lead: RunningLead, is_silent: Callable[[], bool]
) -> tuple[LeaderThread, Logs]:
    lead = running_lead.lead(Group(), is_silent=is_silent)
    assignments(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    lead.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    eventually(lambda: "a" in lead.machine.state.config.connectors, 10)
    eventually(lambda: lead.machine.state.config.session_key is not None, 10)
    logs = running_lead.group_logs()
    logs.config.read_to_end(5_000)
    return lead, logs


def test_tasks_whose_write_fails_are_answered_as_not_written_until_they_are(
    running_lead: RunningLead,
) -> None:
    silence = [False]
    lead, logs = leading_with_a_connector(running_lead, lambda: silence[0])
    silence[0] = True
    assert asked(lead, logs) == (503, NOT_NOW), "the write failed"
    assert asked(lead, logs) == (503, NOT_NOW), "the same write is not repeated at once, and is in no log"
    assert running_lead.group_logs().config.read_to_end(5_000).connectors["a"].tasks == ()
    silence[0] = False
    eventually(lambda: asked(lead, logs)[0] == 204, 20)
    assert running_lead.group_logs().config.read_to_end(5_000).connectors["a"].tasks == ({"units": "u"},)


def test_a_restart_whose_write_fails_is_answered_when_it_is_written(running_lead: RunningLead) -> None:
    silence = [False]
    lead, _ = leading_with_a_connector(running_lead, lambda: silence[0])
    silence[0] = True
    answer = lead.restart(RestartRecord("a"), timeout_s=60)
    eventually(lambda: "still lead" in lead.machine.state.trouble, 10)
    assert not answer.done()
    silence[0] = False
    assert answer.result(20) == 202


def reported(routes: LeaderRoutes, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    async def read() -> bytes:
        return body

    request: Any = SimpleNamespace(
        headers=headers, content_length=len(body), client_max_size=2**20, read=read
    )
    answer: Any = asyncio.run(routes.all()["POST /learners"](request))  # type: ignore[arg-type]
    return answer.status, json.loads(answer.text)


def test_members_are_told_what_to_learn_if_they_sign_and_are_members(running_lead: RunningLead) -> None:
    lead, logs = leading_with_a_connector(running_lead, lambda: False)
    routes = LeaderRoutes(
        lambda: (lead, logs), lambda: 0, GroupConfig("memory:9092", "lake", "me", Role.WORKER)
    )
    key = logs.config.snapshot().session_key
    assert key is not None
    (member_id, *_) = lead.standing.members
    body = encode_learner_report(LearnerReport(member_id, {}))
    assert reported(routes, body, sign(key, body)) == (200, {"v": 1, "learn": [], "again_ms": 5_000})
    assert reported(routes, body, {})[0] == 400, "it is not signed"
    assert reported(routes, body, sign(key, b"another"))[0] == 403
    stranger = encode_learner_report(LearnerReport("m-99", {}))
    assert reported(routes, stranger, sign(key, stranger))[0] == 409
    unreadable = b'{"v": 2}'
    code, answer = reported(routes, unreadable, sign(key, unreadable))
    assert (code, answer["message"]) == (400, "learners.v: version 2 cannot be read, only 1")


def test_the_story_of_a_leader_is_served(running_lead: RunningLead) -> None:
    lead, logs = leading_with_a_connector(running_lead, lambda: False)
    routes = LeaderRoutes(
        lambda: (lead, logs), lambda: 0, GroupConfig("memory:9092", "lake", "me", Role.WORKER)
    )
    answer: Any = asyncio.run(routes.all()["GET /story"](None))  # type: ignore[arg-type, func-returns-value]
    lines = [line["what"] for line in json.loads(answer.text)["lines"]]
    assert "leading: False -> True" in lines
    assert "write 1 config record: desired connectors" in lines


def test_a_leader_that_finds_itself_fenced_answers_that_it_does_not_lead(running_lead: RunningLead) -> None:
    lead, logs = leading_with_a_connector(running_lead, lambda: False)
    assignments(running_lead.lead(Group()).plan(a_round(2)))
    assert asked(lead, logs) == (409, "this member does not lead")


def test_the_next_leader_goes_on_in_the_next_term_and_the_one_before_writes_no_more(
    running_lead: RunningLead,
) -> None:
    group = Group()
    old, new = running_lead.lead(group), running_lead.lead(Group())
    assert assignments(old.plan(a_round(1)))["m-1"].agent.epoch == (1, 1)  # type: ignore[union-attr]
    old.submit(ev.Delivered(1))
    assert assignments(new.plan(a_round(2)))["m-1"].agent.epoch == (2, 2)  # type: ignore[union-attr]
    old.submit(ev.DesiredChanged(Desired(1, {"a": DesiredConnector({"connector.class": "noop"})})))
    eventually(lambda: not old.machine.state.leading, 10, "the old leader stands down")
    assert "a" not in running_lead.group_logs().config.read_to_end(5_000).connectors
    eventually(lambda: group.rejoins == ["its writer was fenced"], 10, "the broker decides who leads")


def test_a_plan_by_a_leader_that_was_fenced_in_the_meantime_is_never_sent(running_lead: RunningLead) -> None:
    old, new = running_lead.lead(Group()), running_lead.lead(Group())
    assignments(old.plan(a_round(1)))
    assignments(new.plan(a_round(2)))
    with pytest.raises(WriterFenced):
        old.plan(a_round(3, TaskId("z", 0))).result(10)


def test_a_broker_outage_fails_the_round_and_the_next_one_succeeds(running_lead: RunningLead) -> None:
    group = Group()
    lead = running_lead.lead(group)
    assignments(lead.plan(a_round(1)))
    running_lead.broker.stop()
    failing = lead.plan(a_round(2, TaskId("z", 0)))
    assert failing.exception(30) is not None
    running_lead.broker.start()
    assert assignments(lead.plan(a_round(3, TaskId("z", 0))))["m-1"].revoked == (TaskId("z", 0),)


def test_a_group_that_is_not_ours_is_refused_after_fencing_and_nothing_is_written(
    running_lead: RunningLead,
) -> None:
    def claim(state: LeaderRecords, writer: LeadWriter) -> None:
        if state.owner != Owner("me", "", ""):
            raise LeadRefused("not ours")

    owner = running_lead.group_logs().writer
    owner.open()
    owner.write_leader(owner=Owner("other", "", ""))
    refused: list[str] = []
    lead = running_lead.lead(Group(), claim=claim, on_refused=refused.append)
    with pytest.raises(LeadRefused):
        lead.plan(a_round(1)).result(10)
    eventually(lambda: refused == ["not ours"], 10)
    assert running_lead.leader_state().memory is None


def test_a_member_that_cannot_be_understood_gets_an_empty_assignment(running_lead: RunningLead) -> None:
    lead = running_lead.lead(Group())
    assert assignments(lead.plan(a_round(1, metadata=b"\xff")))["m-1"].assigned == ()


def test_statuses_of_what_is_no_more_are_forgotten_by_whoever_leads(running_lead: RunningLead) -> None:
    statuses = running_lead.group_logs().status
    for task in (TaskId("z", -1), TaskId("z", 0)):
        statuses.put(TaskStatus(task, TaskState.RUNNING, "lake-0", Epoch(1, 1)))
    statuses.flush(5_000)
    lead = running_lead.lead(Group())

    assignments(lead.plan(a_round(1, TaskId("z", 0))))
    lead.submit(ev.Delivered(1))
    assert statuses.read_to_end(5_000).keys() == {TaskId("z", -1), TaskId("z", 0)}, "z-0 still runs"

    assignments(lead.plan(a_round(2)))
    lead.submit(ev.Delivered(2))
    eventually(lambda: statuses.read_to_end(5_000) == {}, 10)


def test_a_proven_death_becomes_an_eviction(running_lead: RunningLead) -> None:
    group = Group()
    lead = running_lead.lead(group)
    assignments(lead.plan(a_round(1)))
    lead.submit(ev.Delivered(1))
    lead.submit(ev.FactsChanged(Facts(ended=frozenset({("lake-0", "incarnation-1")}))))
    eventually(lambda: group.evicted == ["m-1"], 10)
