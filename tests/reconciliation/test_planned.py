"""The planner of rounds decides for a reconciled group: nothing runs twice, and all runs, in balance."""

from random import Random

from cooperator.model import INSTANCE, TaskId
from tests.reconciliation.planned_world import PlannedWorld
from tests.reconciliation.test_histories import IDENTITIES, trouble
from tests.reconciliation.world import Faults

SEEDS = 10


def test_in_any_history_all_runs_in_the_end_and_is_balanced() -> None:
    for seed in range(SEEDS):
        world = PlannedWorld(seed, a=3, b=5, c=0)
        dice = Random(seed)
        for identity in IDENTITIES:
            world.start(identity)
        world.faults = Faults(lost=0.2, repeated=0.2, longest_delay_ms=dice.choice([50, 2_000, 12_000]))
        for _ in range(40):
            world.run(dice.randint(1, 4_000))
            trouble(world, dice)
        world.faults = Faults()
        for process in world.processes.values():
            process.frozen = process.cut_off = False
            process.stop_ms = 50
        world.run(60_000)
        for identity in set(IDENTITIES) - world.processes.keys():
            world.start(identity)

        assert world.run(
            200_000, until=lambda world=world: world.is_settled() and world.is_balanced and is_complete(world)
        ), (seed, world.leader.group, world.layout)


def is_complete(world: PlannedWorld) -> bool:
    configured = {
        TaskId(name, number) for name, count in world.counts_of.items() for number in range(INSTANCE, count)
    }
    return frozenset[TaskId]().union(*map(world.running, IDENTITIES)) == configured


def test_a_scale_up_moves_what_the_balance_needs_and_nothing_twice() -> None:
    world = PlannedWorld(1, a=12)
    for identity in "abc":
        world.start(identity)
    assert world.run(60_000, until=lambda: world.is_settled() and is_complete(world) and world.is_balanced)
    before = {task: identity for identity in "abc" for task in world.running(identity)}
    epoch = world.leader.group.assignment_epoch

    world.start("d")
    assert world.run(60_000, until=lambda: world.is_settled() and len(world.running("d")) >= 3)
    world.run(5_000)

    after = {task: identity for identity in "abcd" for task in world.running(identity)}
    moved = {task for task in after if after[task] != before[task]}
    assert moved == world.running("d")
    assert len(moved) == 3
    assert world.is_balanced
    # One new target after the join, whatever was on its way meanwhile.
    assert world.leader.group.assignment_epoch <= epoch + 2


def test_a_member_that_returns_has_its_tasks_back_and_others_keep_theirs() -> None:
    world = PlannedWorld(2, a=6, b=2)
    for identity in "abc":
        world.start(identity)
    assert world.run(60_000, until=lambda: world.is_settled() and is_complete(world) and world.is_balanced)
    before = {identity: world.running(identity) for identity in "abc"}

    world.kill("b", proven=True)
    world.run(8_000)
    assert (world.running("a"), world.running("c")) == (before["a"], before["c"])
    world.start("b")

    assert world.run(5_000, until=lambda: world.running("b") == before["b"])
    assert (world.running("a"), world.running("c")) == (before["a"], before["c"])
