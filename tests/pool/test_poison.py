"""Tasks whose start kills their member."""

from collections.abc import Callable
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.pool import ReportReason, pardon
from tests.pool.unreliable_pods import UnreliablePods

Start = Callable[..., UnreliablePods]

BAD, GOOD = TaskId("bad", 0), TaskId("good", 0)


def die_while_starting(pods: UnreliablePods, identity: str, *tasks: TaskId) -> None:
    member = pods.members[identity]
    pods.members[identity] = replace(member, starting=frozenset(tasks))
    pods.decide()
    pods.crash(identity)
    pods.settle()


def test_three_deaths_in_a_row_on_any_members_quarantine_a_task(pool: Start) -> None:
    pods = pool(3)
    die_while_starting(pods, "lake-0", BAD)
    die_while_starting(pods, "lake-1", BAD)
    assert pods.decide().facts.poisoned == frozenset()

    die_while_starting(pods, "lake-0", BAD)
    decision = pods.decide()

    assert decision.facts.poisoned == {BAD}
    assert ReportReason.POISON_TASK in {report.reason for report in decision.reports}


def test_a_death_that_the_group_noticed_first_counts_too(pool: Start) -> None:
    pods = pool(2)
    for _ in range(3):
        pods.members["lake-1"] = replace(pods.members["lake-1"], starting=frozenset({BAD}))
        pods.decide()
        pods.drop("lake-1")
        pods.decide()
        pods.crash("lake-1")
        pods.settle()

    assert pods.decide().facts.poisoned == {BAD}


def test_a_survived_start_clears_the_count(pool: Start) -> None:
    pods = pool(2)
    for _ in range(2):
        die_while_starting(pods, "lake-1", BAD, GOOD)
    pods.members["lake-0"] = replace(pods.members["lake-0"], starting=frozenset({GOOD}))
    pods.decide()
    pods.members["lake-0"] = replace(pods.members["lake-0"], starting=frozenset())
    pods.decide()
    die_while_starting(pods, "lake-1", BAD, GOOD)

    assert pods.decide().facts.poisoned == {BAD}


def test_quarantine_lasts_until_a_pardon(pool: Start) -> None:
    pods = pool(2)
    for _ in range(3):
        die_while_starting(pods, "lake-1", BAD)
    pods.members["lake-1"] = replace(pods.members["lake-1"], starting=frozenset({BAD}))
    pods.decide()
    pods.members["lake-1"] = replace(pods.members["lake-1"], starting=frozenset())
    assert pods.decide().facts.poisoned == {BAD}

    pods.memory = pardon(pods.memory, [BAD])
    assert pods.decide().facts.poisoned == frozenset()


def test_requested_ends_do_not_count(pool: Start) -> None:
    pods = pool(2)
    for revision in ("r2", "r3", "r4"):
        for identity, member in pods.members.items():
            pods.members[identity] = replace(member, starting=frozenset({GOOD}))
        pods.desired = replace(pods.desired, revision=revision)
        pods.settle()

    assert pods.decide().facts.poisoned == frozenset()
