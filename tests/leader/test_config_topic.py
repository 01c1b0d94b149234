"""A config topic that is not the group's stops nothing: a group that is adopted is left as it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from cooperator.leader import events as ev
from cooperator.leader.observability.group_inspector import seen_refusal
from cooperator.leader.observability.projection import plan_conditions, project
from cooperator.leader.ownership import GroupPolicy, adoption_refusals
from cooperator.leader.settings import ServiceSettings
from cooperator.logs import Logs, LogsConfig, MemoryBroker, MemoryTransport, ensure_topics_of
from cooperator.model import INSTANCE, Epoch, TaskId
from cooperator.wire import (
    ConnectorRecord,
    FencingRecord,
    Metadata,
    Owner,
    Protocol,
    RestartRecord,
    encode_metadata,
)
from tests.harness.fake_group import FakeGroup

RUNNING = [TaskId("jdbc", number) for number in range(INSTANCE, 3)]


def adopted(*, has: int = 0) -> FakeGroup:
    """Two stock workers that run ``jdbc``; the config topic that is named holds ``has`` records of others."""
    group = FakeGroup(leading=False, owns_config=False)
    for number in range(has):
        group.write([ConnectorRecord(f"other-{number}", {"connector.class": "x"})])
    for name in ("w-0", "w-1"):
        group.join(name, is_agent=False)
    first, second = group.members.values()
    for number, task in enumerate(RUNNING):
        member = (first, second)[number % 2]
        member.running.add(task)
        member.epochs[task] = Epoch(0, 0)
    group.config_end = group.offset
    group.take_lead()
    return group


def running(group: FakeGroup) -> dict[str, set[TaskId]]:
    return {member.identity: set(member.running) for member in group.members.values()}


def refusal(group: FakeGroup) -> str:
    state = group.machine.state
    [(_, status, reason, message)] = [
        each for each in plan_conditions(project(state, {})) if each[0] == "Planned"
    ]
    assert status is (reason == "Planned")
    return message


STEPS = ("round", "wait", "desire", "post", "restart", "fenced", "join", "lead")


@settings(max_examples=60)
@given(st.integers(0, 4), st.integers(1, 60), st.lists(st.sampled_from(STEPS), max_size=12), st.booleans())
def test_members_ahead_of_the_topic_cause_no_revocation_and_no_write(
    has: int, beyond: int, steps: list[str], signs: bool
) -> None:
    group = adopted(has=has)
    group.protocol = "sessioned" if signs else "compatible"
    group.read_to = group.offset + beyond
    before, offset = running(group), group.offset
    group.round()
    for step in steps:
        if step == "round":
            group.round()
        elif step == "wait":
            asked = len(group.rejoins)
            group.advance(1_000)
            assert len(group.rejoins) <= asked + 1, "looked at again at leisure"
        elif step == "desire":
            group.desire(jdbc=2, more=3)
        elif step == "post":
            assert group.post("jdbc", "a", "b") == ev.PostOutcome.AGAIN
        elif step == "restart":
            assert group.replies[group.restart(RestartRecord("other-0"))] == ev.PostOutcome.AGAIN
        elif step == "fenced":
            assert group.fenced(FencingRecord("other-0", 1), 0) == ev.PostOutcome.AGAIN
        elif step == "join":
            before |= {group.join(f"w-{len(group.members)}", is_agent=False).identity: set()}
        else:
            group.machine.handle(ev.LeadLost("replaced"), group.now_ms)
            group.take_lead()
            group.round()
        assert running(group) == before
        assert not any(member.stopping for member in group.members.values())
    group.advance(120_000)
    group.round()
    assert running(group) == before
    assert (group.written, group.offset) == ([], offset)
    assert f"have read to offset {group.read_to}, and topic" in refusal(group)


def test_that_is_over_when_members_have_read_no_more_than_there_is() -> None:
    group = adopted(has=3)
    group.read_to = 100
    group.round()
    assert refusal(group)
    group.advance(31_000)
    assert group.rejoins, "it is looked again by itself"
    group.read_to = group.config_end = None
    group.write([ConnectorRecord("jdbc", {"connector.class": "x"})])
    group.round()
    assert refusal(group) == ""
    assert group.machine.state.plan is not None


def test_a_topic_that_is_longer_than_the_members_own_is_known_by_what_they_run() -> None:
    group = adopted(has=9)
    group.read_to = 4
    before = running(group)
    for _ in range(3):
        group.round()
        group.advance(60_000)
    assert running(group) == before
    assert group.written == []
    assert "run connectors (jdbc) of which topic" in refusal(group)


def test_connectors_that_were_deleted_while_the_lead_was_taken_are_let_go_once_members_have_read_that() -> (
    None
):
    group = adopted(has=9)
    group.round()
    assert not any(member.running & set(RUNNING) for member in group.members.values())


def test_aborted_records_at_the_end_are_skipped_in_an_adopted_group_too() -> None:
    """Members count it, and no reader of committed records does."""
    group = adopted(has=3)
    group.read_to = group.config_end = group.offset + 2
    group.round()
    assert group.written == ["target-state-other-0"]
    assert refusal(group) == ""


def test_nothing_is_passed_over_in_an_adopted_group_while_the_end_of_the_topic_is_not_known() -> None:
    group = adopted(has=3)
    before = running(group)
    group.read_to, group.config_end = group.offset + 2, None
    group.round()
    group.advance(10_000)
    assert group.written == []
    assert running(group) == before
    assert group.rejoins, "it is asked for in the next round"


def test_a_group_of_ours_whose_topic_was_made_anew_is_written_on_until_its_members_are_reached() -> None:
    group = FakeGroup()
    group.join("w-0", is_agent=False)
    group.desire(a=1)
    group.round()
    group.read_to, group.config_end = group.offset + 5, group.offset
    asked = rounds = 0
    while group.offset < group.read_to:
        group.round()
        rounds += 1
        group.advance(100)
        asked += bool(group.rejoins)
        assert rounds < 100
    assert asked <= 1 + rounds * 600 // 2_000, "asked for at most every two seconds"
    group.read_to = None
    group.settle()
    assert refusal(group) == ""


def stock_worker(offset: int) -> tuple[str, bytes]:
    return "connect-1", encode_metadata(Metadata("http://a/", offset, None, None), Protocol.SESSIONED)


def test_import_compares_what_members_have_read_with_the_topic() -> None:
    def found(offset: int, end: int | None) -> tuple[str, ...]:
        return adoption_refusals("g", None, [stock_worker(offset)], ("data", "lake"), "my-configs", end)

    assert found(7, 7) == found(7, None) == found(3, 9) == ()
    [message] = found(8, 7)
    assert "have read to offset 8, and topic my-configs ends at 7" in message
    assert "spec.connect.topics.config" in message


@pytest.mark.parametrize(
    ("policy", "offset", "refused"), [("Adopt", 9, True), ("Adopt", 0, False), ("Create", 9, False)]
)
def test_a_group_is_looked_at_before_its_lead_is_taken(
    policy: str, offset: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id, data = stock_worker(offset)
    member = DescribedMember("m", None, client_id, "h", data, b"")
    seen = DescribedGroup(GroupState.STABLE, "connect", "sessioned", (member,))
    monkeypatch.setattr("cooperator.leader.observability.group_inspector.describe_group", lambda *_: seen)
    config = LogsConfig("memory", "lake")
    transport = MemoryTransport(MemoryBroker())
    ensure_topics_of(transport, config.topic_names, 1, 5_000)
    logs = Logs(transport, config)
    try:
        message = seen_refusal(
            ServiceSettings("memory", "lake", Owner("a", "b", "c"), GroupPolicy(policy)), logs.config
        )
    finally:
        logs.close()
    assert ("lake-configs ends at 0" in message) is refused
