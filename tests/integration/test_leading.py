"""The lead changes and no task notices: the operator is killed, away, back, doubled, refused; the broker is
away."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import LogsConfig, open_logs
from cooperator.model import Desired
from tests.harness.member_group import LeaderProcess, MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

CONNECTORS = {"a": {"connector.class": "noop", "tasks.max": "6", "units": "6"}}
ALL = tuple(f"a-{number}" for number in range(6))
WORKERS = ("w-0", "w-1", "w-2")
SHORT: Mapping[str, Any] = {
    "session_timeout_ms": 6_000,
    # On a busy machine members start slowly; the leader waits for all of them.
    "policy": {"scheduled_rebalance_max_delay_ms": 60_000, "lease_ms": 35_000, "join_wait_ms": 90_000},
}
# Back in time is before the session ends, however slowly a process starts.
PATIENT = {**SHORT, "session_timeout_ms": 60_000}


def condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    found = (c for c in status.get("conditions", ()) if c["type"] == type_)
    return next(found, {"status": "Unknown", "reason": "", "message": ""})


def leads(process: LeaderProcess) -> bool:
    status = process.status()
    return condition(status, "Leading")["status"] == "True" and len(status.get("members", ())) == 3


def running(group: MemberGroup, **said: Any) -> LeaderProcess:
    leader = group.leader_process(CONNECTORS, WORKERS, **{**SHORT, **said})
    # Otherwise a member that is first leads without the topics, and says so.
    eventually(lambda: leader.status().get("leading"), 60, "the leader has made its topics")
    for worker in WORKERS:
        group.member(worker)
    group.at_rest(leader, WORKERS)
    assert told_of_failures(group) == [], "a normal start"
    return leader


def told_of_failures(group: MemberGroup) -> list[str]:
    """The lines of the logs of leader and members that tell of a failure."""
    lines = [line for log in group.directory.glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if re.search("ERROR|CRITICAL|Traceback|fail|refuse", line)]


def each_has_tasks(group: MemberGroup) -> dict[str, str]:
    """Returns which tasks run where, once all members have joined."""
    workers = set(WORKERS)
    eventually(lambda: set(group.journal.running().values()) == workers, 90, "each has joined and has tasks")
    return group.runs(*ALL)


@dataclass
class Led:
    """Three members and the operator's process that leads them; each test leaves such a group."""

    group: MemberGroup
    leader: LeaderProcess


@pytest.fixture(scope="module")
def led(shared: MemberGroup) -> Led:
    return Led(shared, running(shared))


def test_while_the_operator_is_away_a_member_leads_with_its_memory_and_hands_the_lead_back(led: Led) -> None:
    group = led.group
    before, all_starts = group.journal.running(), group.journal.starts()
    led.leader.kill()
    eventually(lambda: _led_by_a_member(group), 60, "a member leads")
    assert group.journal.running() == before

    victim = next(member for member in group.members if member.identity == "w-1")
    lost = group.journal.running_at("w-1")
    victim.kill()
    group.member("w-1")
    # Nothing proves the end of w-1's first incarnation, so its lease has to run out first.
    assert group.runs(*ALL, timeout_s=90) == before
    assert group.journal.starts() == all_starts + len(lost)
    assert group.journal.starts(*(set(ALL) - lost)) == len(ALL) - len(lost)

    starts = group.journal.starts()
    led.leader = group.leader_process(CONNECTORS, WORKERS, **SHORT)
    eventually(lambda: leads(led.leader) and led.leader.status()["settled"], 60)
    assert group.journal.running() == before
    assert group.journal.starts() == starts


def _led_by_a_member(group: MemberGroup) -> bool:
    return any(
        "leading in term" in (group.directory / f"{worker}.log").read_text(errors="replace")
        for worker in WORKERS
    )


def test_another_installation_with_the_same_group_id_is_refused_and_changes_nothing(led: Led) -> None:
    starts = led.group.journal.starts()
    theirs = led.group.leader_process({}, (), cluster="elsewhere", **SHORT)
    eventually(lambda: condition(theirs.status(), "Leading")["reason"] == "GroupConflict", 30)
    assert "spec.groupId" in condition(theirs.status(), "Leading")["message"]
    assert leads(led.leader)
    assert led.group.journal.starts() == starts
    theirs.kill()


def test_two_operators_of_one_name_never_lead_at_once_and_one_that_is_back_in_time_changes_nothing(
    led: Led,
) -> None:
    group, first = led.group, led.leader
    before, starts = group.journal.running(), group.journal.starts()
    second = led.leader = group.leader_process(CONNECTORS, WORKERS, **PATIENT)
    eventually(lambda: leads(second), 60)
    eventually(lambda: condition(first.status(), "Leading")["reason"] == "Fenced", 30)
    assert group.journal.starts() == starts
    first.kill()

    term = second.status()["term"]
    second.kill()
    led.leader = group.leader_process(CONNECTORS, WORKERS, **PATIENT)
    eventually(lambda: leads(led.leader), 90)
    assert led.leader.status()["term"] == term + 1
    assert group.journal.running() == before
    assert group.journal.starts() == starts


def test_members_killed_again_and_again_get_their_own_tasks_back_and_what_is_deleted_leaves_no_status(
    group: MemberGroup,
) -> None:
    leader = group.leader(CONNECTORS, WORKERS, **SHORT)
    for worker in WORKERS:
        group.member(worker)
    before = group.at_rest(leader, WORKERS)
    assert before.keys() == set(ALL)
    for count in range(1, 3):
        victim = next(m for m in reversed(group.members) if m.identity == "w-2")
        lost = group.journal.running_at("w-2")
        victim.kill()
        group.facts(leader, WORKERS)
        group.member("w-2")
        assert group.runs(*ALL) == before
        for task in ALL:
            assert group.journal.starts(task) == 1 + (count if task in lost else 0)

    logs = open_logs(LogsConfig(group.bootstrap_servers, group.group_id))
    try:
        assert {str(task) for task in logs.status.read_to_end(20_000)} == {"a", *ALL}
        leader.set_desired(Desired(2, {}))
        eventually(lambda: not group.journal.running(), 30)
        eventually(lambda: logs.status.read_to_end(20_000) == {}, 30, "its statuses are forgotten")
    finally:
        logs.close()


def test_a_frozen_member_has_stopped_before_its_tasks_start_elsewhere(group: MemberGroup) -> None:
    policy = {"scheduled_rebalance_max_delay_ms": 0, "lease_ms": 12_000, "join_wait_ms": 90_000}
    said = {**SHORT, "policy": policy}
    times = {"rebalance_timeout_ms": 8_000}
    leader = group.leader(CONNECTORS, WORKERS, **said, **times)
    for worker in WORKERS:
        group.member(worker, rebalance_timeout_ms="8000")
    each_has_tasks(group)
    eventually(lambda: leader.status()["settled"], 60)
    frozen = next(m for m in group.members if m.identity == "w-2")
    moving = group.journal.running_at("w-2")
    frozen.freeze()
    eventually(
        lambda: all(
            any(run.task == task and run.member != "w-2" for run in group.journal.runs()) for task in moving
        ),
        60,
        "its tasks run elsewhere",
    )
    moved_ms = {
        t: min(r.start_ms for r in group.journal.runs() if r.task == t and r.member != "w-2") for t in moving
    }
    incarnations = [r for r in group.journal.runs() if r.member == "w-2" and r.task in moving]
    assert all(run.last_ms < moved_ms[run.task] for run in incarnations)
    frozen.kill()
    # A frozen member has run nothing since its last record; the journal takes that as its end.
    group.journal.ended[frozen.incarnation] = max(run.last_ms for run in incarnations)


@pytest.mark.long(
    "tests/agent/test_real_members.py::"
    "test_an_outage_longer_than_the_lease_stops_nothing_while_the_leader_confirms"
)
def test_an_outage_of_the_broker_that_is_many_leases_long_stops_no_task(
    group: MemberGroup, broker: EmbeddedBroker
) -> None:
    """A minute is five leases, and no hold would delay a move."""
    policy = {"scheduled_rebalance_max_delay_ms": 0, "lease_ms": 12_000}
    said = {**SHORT, "policy": policy, "rebalance_timeout_ms": 8_000}
    leader = group.leader_process(CONNECTORS, WORKERS, **said)
    for worker in WORKERS:
        group.member(worker, rebalance_timeout_ms="8000")
    before = group.at_rest(leader, WORKERS)
    broker.stop()
    down_at = time.monotonic()
    eventually(lambda: time.monotonic() - down_at >= 60, 70, "the outage has lasted a minute")
    assert group.journal.running() == before
    broker.start()
    eventually(lambda: leads(leader) and leader.status()["settled"], 90, "the group is back")
    assert group.journal.running() == before
    assert group.journal.starts() == len(ALL)
