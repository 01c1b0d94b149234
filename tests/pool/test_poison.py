"""Tasks whose start ends its member."""

from collections.abc import Callable
from dataclasses import replace

from cooperator.model import TaskId
from cooperator.pool import ReportReason, pardon
from pool.world import World

Start = Callable[..., World]

BAD, GOOD = TaskId("bad", 0), TaskId("good", 0)


def die_while_starting(world: World, identity: str, *tasks: TaskId) -> None:
    member = world.members[identity]
    world.members[identity] = replace(member, starting=frozenset(tasks))
    world.decide()
    world.crash(identity)
    world.settle()


def test_three_deaths_in_a_row_on_whichever_member(pool: Start) -> None:
    world = pool(3)
    die_while_starting(world, "lake-0", BAD)
    die_while_starting(world, "lake-1", BAD)
    assert world.decide().facts.poisoned == frozenset()

    die_while_starting(world, "lake-0", BAD)
    decision = world.decide()

    assert decision.facts.poisoned == {BAD}
    assert ReportReason.POISON_TASK in {report.reason for report in decision.reports}


def test_a_member_that_the_group_missed_first_counts_too(pool: Start) -> None:
    world = pool(2)
    for _ in range(3):
        world.members["lake-1"] = replace(world.members["lake-1"], starting=frozenset({BAD}))
        world.decide()
        world.drop("lake-1")
        world.decide()
        world.crash("lake-1")
        world.settle()

    assert world.decide().facts.poisoned == {BAD}


def test_a_start_that_is_survived_clears(pool: Start) -> None:
    world = pool(2)
    for _ in range(2):
        die_while_starting(world, "lake-1", BAD, GOOD)
    world.members["lake-0"] = replace(world.members["lake-0"], starting=frozenset({GOOD}))
    world.decide()
    world.members["lake-0"] = replace(world.members["lake-0"], starting=frozenset())
    world.decide()
    die_while_starting(world, "lake-1", BAD, GOOD)

    assert world.decide().facts.poisoned == {BAD}


def test_quarantine_lasts_until_a_pardon(pool: Start) -> None:
    world = pool(2)
    for _ in range(3):
        die_while_starting(world, "lake-1", BAD)
    world.members["lake-1"] = replace(world.members["lake-1"], starting=frozenset({BAD}))
    world.decide()
    world.members["lake-1"] = replace(world.members["lake-1"], starting=frozenset())
    assert world.decide().facts.poisoned == {BAD}

    world.memory = pardon(world.memory, [BAD])
    assert world.decide().facts.poisoned == frozenset()


def test_ends_that_were_asked_for_accuse_nobody(pool: Start) -> None:
    world = pool(2)
    for revision in ("r2", "r3", "r4"):
        for identity, member in world.members.items():
            world.members[identity] = replace(member, starting=frozenset({GOOD}))
        world.desired = replace(world.desired, revision=revision)
        world.settle()

    assert world.decide().facts.poisoned == frozenset()
