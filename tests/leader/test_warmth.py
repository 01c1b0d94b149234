"""Conversations about members whose runtime is not up yet: when there is a round, and what it changes."""

import pytest

from cooperator.leader.observability.projection import is_settled, project
from cooperator.model import Policy, PolicyName, TaskStatus, Warmth
from cooperator.model import TaskState as S
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup, FakeMember, running_group


def a_newcomer(group: FakeGroup) -> FakeMember:
    """One more member, which is warming up; the group has heard of it."""
    group.facts(Facts(expected=frozenset({"lake-0", "lake-1", "lake-2", "lake-3"})))
    newcomer = group.join("lake-3", warmth=Warmth.WARMING)
    group.round()
    return newcomer


def settled(group: FakeGroup) -> bool:
    members = group.members.values()
    statuses = {
        task: TaskStatus(task, S.RUNNING, member.identity, member.epochs[task])
        for member in members
        for task in member.running
    }
    return is_settled(project(group.machine.state, statuses))


def test_a_warming_member_causes_no_round_and_takes_nothing() -> None:
    group = running_group()
    newcomer = a_newcomer(group)
    group.advance(600_000)
    assert group.rejoins == []
    assert newcomer.running == set()
    assert all(not member.stopping for member in group.members.values())


def test_its_word_that_it_is_warm_is_the_round_that_balances() -> None:
    group = running_group()
    newcomer = a_newcomer(group)
    newcomer.warmth = Warmth.WARM
    group.round()
    assert sum(len(member.stopping) for member in group.members.values()) == 1, (
        "of six tasks, by four members"
    )
    group.settle()
    assert len(newcomer.running) == 1


def test_nobody_is_waited_for_who_is_there_and_warming_up() -> None:
    group = running_group(Policy(join_wait_ms=30_000))
    a_newcomer(group)
    group.facts(Facts(expected=frozenset({"lake-0", "lake-1", "lake-2", "lake-3", "lake-4"})))
    group.join("lake-4")
    group.round()
    assert any(member.stopping for member in group.members.values()), "for lake-4, at once"


def test_unassigned_tasks_do_not_wait_for_a_warming_member() -> None:
    group = running_group()
    newcomer = a_newcomer(group)
    group.desire(a=6, b=1)
    group.settle()
    assert newcomer.running == set()
    assert len(group.all_running()) == 8


def test_a_departing_member_releases_when_another_reports_warm() -> None:
    group = running_group(members=1)
    leaver = group.of("lake-0")
    group.facts(Facts(expected=frozenset({"lake-0", "lake-1"})))
    newcomer = group.join("lake-1", warmth=Warmth.WARMING)
    leaver.draining = True
    group.round()
    group.advance(60_000)
    assert group.rejoins == []
    assert leaver.stopping == set()
    newcomer.warmth = Warmth.WARM
    group.round()
    assert len(leaver.stopping) == 7
    group.settle()
    assert len(newcomer.running) == 7


def test_a_group_with_a_member_that_is_warming_up_is_not_settled() -> None:
    group = running_group()
    assert settled(group)
    newcomer = a_newcomer(group)
    assert not settled(group), "others run the tasks that it is to get"
    newcomer.warmth = Warmth.STALLED
    group.round()
    assert settled(group), "nothing will move because of it"
    projected = project(group.machine.state, {})["members"]
    assert {member["identity"]: member["runtime"] for member in projected} == {
        "lake-0": "Warm",
        "lake-1": "Warm",
        "lake-2": "Warm",
        "lake-3": "Stalled",
    }


@pytest.mark.parametrize("warmth", list(Warmth))
def test_kafka_s_own_rules_know_nothing_of_it(warmth: Warmth) -> None:
    group = running_group(Policy(name=PolicyName.KIP415))
    group.join("lake-3", warmth=warmth)
    group.round()
    assert sum(len(member.stopping) for member in group.members.values()) == 1
