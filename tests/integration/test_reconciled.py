"""A group that reconciles without rounds, on a real broker: moves, members of both kinds, another leader."""

import time
from collections.abc import Mapping
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from cooperator.leader.service import LeaderService
from tests.harness.leader_process import desired_of
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually

pytestmark = pytest.mark.real

A = {"connector.class": "noop", "tasks.max": "6", "units": "6"}
ALL = tuple(f"a-{number}" for number in range(6))
WORKERS = ("w-0", "w-1")
POLICY: Mapping[str, Any] = {
    "scheduled_rebalance_max_delay_ms": 60_000,
    "lease_ms": 35_000,
    "join_wait_ms": 90_000,
    "reconciles": True,
}
SOON_S = 1.0


def reconciled(group: MemberGroup) -> LeaderService:
    """Two members whose tasks are reconciled without rounds."""
    leader = group.leader({"a": A}, WORKERS, session_timeout_ms=6_000, policy=POLICY)
    eventually(lambda: leader.status().get("leading"), 60, "the leader has made its topics")
    for worker in WORKERS:
        group.member(worker)
    eventually(lambda: set(group.journal.running().values()) == set(WORKERS), 90, "each has tasks")
    eventually(lambda: is_reconciled(leader) and leader.status()["settled"], 60, "the group has left rounds")
    return leader


def is_reconciled(leader: LeaderService) -> bool:
    return bool(leader.status().get("protocol") == "reconciled")


def has_settled_with(leader: LeaderService, member: MemberProcess, reconciled: bool) -> bool:
    """Whether the group has settled with this incarnation, in this protocol."""
    status = leader.status()
    known = {each["incarnation"] for each in status["members"]}
    return bool(
        member.incarnation in known
        and status["settled"]
        and (status["protocol"] == "reconciled") is reconciled
    )


def want(group: MemberGroup, leader: LeaderService, *names: str) -> float:
    """Want connector a, and others with one task each; returns the time."""
    one = {"connector.class": "noop", "tasks.max": "1", "units": "1"}
    leader.set_desired(desired_of(group._with_journal({"a": A, **dict.fromkeys(names, one)})))
    return time.monotonic()


def runs_after_s(group: MemberGroup, leader: LeaderService, *names: str) -> float:
    """Want these connectors; returns how long it took until a task of the last one ran."""
    began = want(group, leader, *names)
    eventually(lambda: f"{names[-1]}-0" in group.journal.running(), 60)
    return time.monotonic() - began


def test_a_new_connector_runs_at_once_and_without_a_round(group: MemberGroup) -> None:
    leader = reconciled(group)
    generation = leader.status()["generation"]
    assert runs_after_s(group, leader, "b") < SOON_S
    assert leader.status()["generation"] == generation, "no round was needed"


def test_a_member_that_joins_takes_over_tasks_and_others_run_on(group: MemberGroup) -> None:
    leader = reconciled(group)
    before = group.journal.running()
    group.facts(leader, (*WORKERS, "w-2"))
    group.member("w-2")
    eventually(lambda: len(group.journal.running_at("w-2")) == 2, 60)
    eventually(lambda: leader.status()["settled"], 60)
    after = group.runs(*ALL)
    assert [task for task in ALL if after[task] != before[task]] == sorted(group.journal.running_at("w-2"))
    assert is_reconciled(leader)


@pytest.mark.long(
    "tests/leader/test_reconciled.py::"
    "TestTheProtocol::test_a_member_of_an_earlier_release_brings_rounds_and_its_departure_ends_them"
)
def test_members_of_both_kinds_come_and_go_in_every_order(group: MemberGroup) -> None:
    leader = reconciled(group)
    starts = group.journal.starts()
    for kinds in (("older", "newer"), ("newer", "older")):
        joined = [group.member(f"x-{kind}", older=kind == "older") for kind in kinds]
        group.facts(leader, (*WORKERS, *(member.identity for member in joined)))
        eventually(lambda: leader.status()["protocol"] == "sessioned", 60, "an older member brings rounds")
        eventually(lambda: len(leader.status()["members"]) == 4 and leader.status()["settled"], 90)
        for member in joined:
            member.terminate()
            member.wait_ended()
            group.facts(leader, WORKERS)
        eventually(lambda: is_reconciled(leader) and leader.status()["settled"], 90, "rounds have ended")
    assert set(group.runs(*ALL).values()) == set(WORKERS)
    assert group.journal.starts() >= starts


@pytest.mark.long(
    "tests/leader/test_reconciled.py::"
    "TestTheProtocol::test_members_are_upgraded_and_downgraded_in_every_order_and_others_run_on"
)
@pytest.mark.parametrize("order", [*permutations(("w-0", "w-1", "w-2"))], ids="".join)
def test_members_are_upgraded_and_downgraded_under_load_in_every_order(
    group: MemberGroup, order: tuple[str, ...]
) -> None:
    """Each member that is replaced has its own tasks again, and no others start anew. A connector is added at
    each step, and must run.
    """
    leader = group.leader({"a": A}, order, session_timeout_ms=6_000, policy=POLICY)
    eventually(lambda: leader.status().get("leading"), 60, "the leader has made its topics")
    members = {identity: group.member(identity, older=True) for identity in order}
    eventually(lambda: set(group.journal.running().values()) == {*order}, 90, "each has tasks")
    eventually(lambda: leader.status()["settled"], 60)
    names: list[str] = []
    older = {*order}
    for is_older in (False, True, False):
        for identity in order:
            before = group.journal.running()
            others = {task: group.journal.starts(task) for task in before if before[task] != identity}
            members[identity].kill()
            group.facts(leader, order)
            older = older | {identity} if is_older else older - {identity}
            members[identity] = group.member(identity, older=is_older)
            is_there = partial(has_settled_with, leader, members[identity], not older)
            eventually(is_there, 90, f"{identity} is replaced")
            names.append(f"n{len(names)}")
            want(group, leader, *names)
            after = group.runs(*before, f"{names[-1]}-0")
            assert {task: after[task] for task in before} == before
            assert {task: group.journal.starts(task) for task in others} == others


@pytest.mark.long("tests/simulation/test_reconciled.py::test_every_promise_holds_in_histories_without_rounds")
def test_the_operator_is_killed_and_a_member_leads_without_rounds(group: MemberGroup) -> None:
    said: dict[str, Any] = {"session_timeout_ms": 6_000, "policy": POLICY}
    first = group.leader_process({"a": A}, WORKERS, **said)
    eventually(lambda: first.status().get("leading"), 60)
    for worker in WORKERS:
        group.member(worker)
    eventually(lambda: first.status().get("protocol") == "reconciled" and first.status()["settled"], 90)
    before, starts = group.runs(*ALL), group.journal.starts()
    first.kill()
    eventually(lambda: any("leading in term" in log_of(group, worker) for worker in WORKERS), 60)
    back = group.leader_process({"a": A}, WORKERS, **said)
    eventually(lambda: back.status().get("protocol") == "reconciled" and back.status()["settled"], 90)
    assert group.runs(*ALL) == before
    assert group.journal.starts() == starts


def log_of(group: MemberGroup, worker: str) -> str:
    return (group.directory / f"{worker}.log").read_text(errors="replace")
