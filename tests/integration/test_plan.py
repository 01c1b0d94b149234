"""``cooperator plan`` predicts what happens to a live group, and changes nothing."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.group import GroupState, describe_group
from cooperator.leader.repeats import REPEAT_MS
from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from tests.group.recording_member import RecordingMember
from tests.harness.connect_worker import MAX_DELAY_MS, ConnectWorker
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

HOLD_MS = 12_000
CALM_S = REPEAT_MS / 1000 + 1
CONNECTORS = {
    "a": {"connector.class": "noop", "tasks.max": "6", "units": "6"},
    "b": {"connector.class": "noop", "tasks.max": "2", "units": "2"},
}
TASKS = (*(f"a-{number}" for number in range(6)), "b-0", "b-1")
WORKERS = ("w-0", "w-1", "w-2")
SAID: Mapping[str, Any] = {"policy": {"scheduled_rebalance_max_delay_ms": HOLD_MS, "lease_ms": 35_000}}


def plan(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(program(), ["plan", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def answer(servers: str, group_id: str, *words: object) -> dict[str, Any]:
    said = plan("--bootstrap-servers", servers, "--group", group_id, "--output", "json", *words)
    value: dict[str, Any] = json.loads(said)
    return value


def placed(answered: Mapping[str, Any]) -> dict[str, str]:
    """The member of each task at the end of an answer."""
    return {entry["name"]: entry["member"] for entry in answered["placed"] if entry["task"] >= 0}


def end_offsets(servers: str) -> dict[tuple[str, int], int]:
    """The end offsets of all logs of the broker: rounds, commits and records each change one of them."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    partitions = [
        TopicPartition(topic.topic, partition)
        for topic in admin.list_topics(timeout=10).topics.values()
        for partition in topic.partitions
    ]
    answers = admin.list_offsets({partition: OffsetSpec.latest() for partition in partitions})
    return {(each.topic, each.partition): future.result(10).offset for each, future in answers.items()}


def touches_nothing(servers: str, group_id: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of ``ask``, which has made no round, no member, no topic and no record.

    Meanwhile only members write, namely the progress of their tasks.
    """
    at_rest(servers, group_id)
    before, described = end_offsets(servers), describe_group(servers, group_id)
    answered = ask()
    after = end_offsets(servers)
    assert describe_group(servers, group_id) == described
    assert after.keys() == before.keys()
    for place in (place for place, offset in after.items() if offset != before[place]):
        for key, value in records(servers, place, before[place], after[place]):
            if place[0] == "__consumer_offsets":
                assert group_id.encode() not in key, "the broker records the end of an earlier test's group"
            else:
                assert place[0] == f"{group_id}-status"
                assert json.loads(value)["worker_id"] in WORKERS
    return answered


def at_rest(servers: str, group_id: str) -> None:
    """Waits until no round has been under way for longer than a leader waits before it asks again."""
    seen, since = describe_group(servers, group_id), time.monotonic()

    def calm() -> bool:
        nonlocal seen, since
        now = describe_group(servers, group_id)
        if now != seen or now.state is not GroupState.STABLE:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > CALM_S

    eventually(calm, 60, "the group is at rest")


def records(servers: str, place: tuple[str, int], start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values in a partition between two offsets."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "log_level": 0, "group.id": "reads", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(*place, start)])
        while start < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            start = (message.offset() or 0) + 1
            yield message.key() or b"", message.value() or b""  # type: ignore[misc]
    finally:
        consumer.close()


def running(group: MemberGroup) -> LeaderService:
    leader = group.leader(CONNECTORS, WORKERS, **SAID)
    for worker in WORKERS:
        group.member(worker)
    assert group.at_rest(leader, WORKERS).keys() == set(TASKS)
    return leader


@dataclass
class Planned:
    """A group that begins with three members, and goes from one prediction to the next."""

    group: MemberGroup
    leader: LeaderService


@pytest.fixture(scope="module")
def planned(shared: MemberGroup) -> Planned:
    return Planned(shared, running(shared))


def test_a_death_happens_as_predicted(planned: Planned) -> None:
    group, leader = planned.group, planned.leader
    servers, group_id = group.bootstrap_servers, group.group_id
    at_rest(servers, group_id)
    group.journal.at_rest()
    before, generation = group.journal.running(), leader.status()["generation"]

    quiet = touches_nothing(servers, group_id, lambda: answer(servers, group_id))
    assert (quiet["led_by"], quiet["rounds"], placed(quiet)) == ("operator", [], before)
    answered = touches_nothing(servers, group_id, lambda: answer(servers, group_id, "--die", "w-1"))
    assert leader.status()["generation"] == generation
    held, moves = answered["rounds"]
    lost = group.journal.running_at("w-1")
    assert {entry["name"] for entry in held["held"] if entry["task"] >= 0} == lost
    assert moves["after_ms"] == HOLD_MS

    victim = next(member for member in group.members if member.identity == "w-1")
    victim.kill()
    group.facts(leader, WORKERS)
    eventually(lambda: len(leader.status()["members"]) == 2, 20, "the dead member is out of the group")
    really_held = {task["name"]: task["held_for"] for task in leader.status()["tasks"] if "held_for" in task}
    assert really_held == {entry["name"]: entry["held_for"] for entry in held["held"]}
    assert group.runs(*TASKS, timeout_s=HOLD_MS / 1000 + 30) == placed(answered)
    untouched = set(TASKS) - lost
    assert group.journal.starts(*untouched) == len(untouched)
    assert group.journal.starts(*lost) == 2 * len(lost)


def test_a_join_and_a_drain_happen_as_predicted(planned: Planned) -> None:
    group, leader = planned.group, planned.leader
    members = sorted(member["identity"] for member in leader.status()["members"])
    drained, after = members[0], (*members[1:], "w-3")
    group.at_rest(leader, members)
    answered = answer(group.bootstrap_servers, group.group_id, "--join", 1, "--drain", drained)
    newcomer = {"new-0": "w-3"}

    group.member("w-3")
    group.facts(leader, after, leaving=frozenset({drained}))
    next(member for member in group.members if member.identity == drained).terminate()
    group.at_rest(leader, after)
    loads = sorted(len(group.journal.running_at(worker)) for worker in after)
    foretold = [load["after"]["tasks"] for load in answered["members"] if load["after"]]
    assert loads == sorted(foretold)
    assert {newcomer.get(load["name"], load["name"]) for load in answered["members"] if load["after"]} == set(
        after
    )


def test_a_group_without_members_is_read(planned: Planned) -> None:
    group, leader = planned.group, planned.leader
    servers, group_id = group.bootstrap_servers, group.group_id
    for member in group.members:
        if member.child.poll() is None:
            member.kill()
    leader.stop(leave=True)
    group.leaders.remove(leader)
    eventually(lambda: not describe_group(servers, group_id).members, 30)
    answered = answer(servers, group_id)
    assert any("nothing runs" in note for note in answered["notes"])
    assert len(answered["unassigned"]) == len(TASKS) + len(CONNECTORS)
    again = answer(servers, group_id, "--join", 2)
    assert again["unassigned"] == []


def test_while_a_member_leads_the_answer_notes_the_lack_of_proofs(group: MemberGroup) -> None:
    said = {**SAID, "session_timeout_ms": 6_000}
    leader = group.leader_process(CONNECTORS, WORKERS, **said)
    for worker in WORKERS:
        group.member(worker)
    before = group.at_rest(leader, WORKERS)
    assert before.keys() == set(TASKS)
    leader.kill()
    servers, group_id = group.bootstrap_servers, group.group_id

    def led_by_a_member() -> dict[str, Any]:
        answered = answer(servers, group_id, "--die", "w-1")
        assert answered["led_by"] == "member"
        return answered

    eventually(led_by_a_member, 60)
    answered = touches_nothing(servers, group_id, led_by_a_member)
    assert any("a member leads" in note for note in answered["notes"])
    waits = {entry["until_ms"] - answered["now_ms"] for entry in answered["rounds"][0]["held"]}
    assert waits == {35_000 + 5_000}, "the lease is longer than the hold"
    assert placed(answer(servers, group_id)) == before == group.journal.running()


def called(running: Mapping[str, str]) -> dict[str, str]:
    """Where items run, by the client id that a stock worker derives from its address."""
    return {item: f"connect-{address}" for item, address in running.items()}


@pytest.fixture
def connect(broker: EmbeddedBroker, unique: str, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    workers = [ConnectWorker(broker.bootstrap_servers, unique, tmp_path) for _ in range(2)]
    yield workers
    for worker in workers:
        worker.kill()


@pytest.mark.long("tests/stock/test_deaths.py::test_a_worker_dies_while_our_leader_is_away")
def test_a_death_among_stock_workers_happens_as_predicted(
    connect: list[ConnectWorker], broker: EmbeddedBroker, unique: str, tmp_path: Path
) -> None:
    servers, (first, second) = broker.bootstrap_servers, connect
    first.start()
    eventually(lambda: first.ask("connectors") == [] or True, 90, "the first worker serves")
    second.start()
    eventually(lambda: second.ask("connectors") == [] or True, 90, "the second worker serves")
    source = tmp_path / "lines.txt"
    source.write_text("one\n")
    names = [f"lines{number}" for number in range(4)]
    for name in names:
        first.create(name, source)
    everything = {*names, *(f"{name}-0" for name in names)}
    eventually(lambda: first.running().keys() == everything, 60, "all run")

    group = ("--config-topic", first.config_topic, "--max-delay-ms", MAX_DELAY_MS)
    quiet = touches_nothing(servers, unique, lambda: answer(servers, unique, *group))
    assert (quiet["led_by"], quiet["policy"], quiet["rounds"]) == ("stock", "Kip415", [])
    assert {entry["name"]: entry["member"] for entry in quiet["placed"]} == called(first.running())

    answered = answer(servers, unique, *group, "--die", f"connect-{second.address}")
    assert answered["rounds"][-1]["after_ms"] == MAX_DELAY_MS
    second.kill()
    after = {entry["name"]: entry["member"] for entry in answered["placed"]}
    assert set(after.values()) == {f"connect-{first.address}"}
    eventually(lambda: called(first.running()) == after, 60, "its items run at the other")
    ours = answer(servers, unique, *group, "--policy", "Default", "--join", 1)
    assert ours["led_by"] == "operator"


class TestUnreadableGroups:
    def test_a_group_that_does_not_exist(self, broker: EmbeddedBroker, unique: str) -> None:
        text = plan("--bootstrap-servers", broker.bootstrap_servers, "--group", unique, code=1)
        assert f"group '{unique}' does not exist" in text
        assert "check --group" in " ".join(text.split())

    def test_a_group_of_consumers(self, broker: EmbeddedBroker, unique: str) -> None:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(unique, 1, 1)])[unique].result(10)
        consumer = Consumer({"bootstrap.servers": servers, "log_level": 0, "group.id": unique})
        try:
            consumer.subscribe([unique])

            def joined() -> bool:
                consumer.poll(0.2)
                return bool(describe_group(servers, unique).members)

            eventually(joined, 60)
            text = plan("--bootstrap-servers", servers, "--group", unique, code=1)
            assert "is used by clients of type 'consumer'" in " ".join(text.split())
        finally:
            consumer.close()

    def test_a_group_in_mid_round(self, broker: EmbeddedBroker, unique: str) -> None:
        never: Future[Mapping[str, bytes]] = Future()
        member = RecordingMember(
            broker.bootstrap_servers, unique, "slow", rebalance_timeout_ms=60_000, make_plan=lambda _: never
        )
        member.membership.start()
        try:
            eventually(lambda: member.rounds, 30, "it leads a round, and does not end it")
            text = plan("--bootstrap-servers", broker.bootstrap_servers, "--group", unique, code=1)
            assert "is in mid-round (CompletingRebalance)" in " ".join(text.split())
        finally:
            member.membership.stop(leave=True, timeout_s=5)
