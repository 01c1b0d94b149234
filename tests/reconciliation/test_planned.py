"""The planner of rounds decides for a reconciled group: nothing runs twice, and all runs, in balance."""

from random import Random

from cooperator.model import INSTANCE, TaskId
from tests.reconciliation.planned_simulation import PlannedSimulation
from tests.reconciliation.test_histories import IDENTITIES, storm

SEEDS = 10


def test_in_any_history_all_runs_in_the_end_and_is_balanced() -> None:
    for seed in range(SEEDS):
        simulation = PlannedSimulation(seed, a=3, b=5, c=0)
        storm(simulation, Random(seed), 40)

        assert simulation.run(200_000, until=lambda simulation=simulation: is_at_rest(simulation)), (
            seed,
            simulation.leader.group,
            simulation.layout,
        )


def is_at_rest(simulation: PlannedSimulation) -> bool:
    return simulation.is_settled() and simulation.is_balanced and is_complete(simulation)


def is_complete(simulation: PlannedSimulation) -> bool:
    configured = {
        TaskId(name, number)
        for name, count in simulation.counts_of.items()
        for number in range(INSTANCE, count)
    }
    return frozenset[TaskId]().union(*map(simulation.running, IDENTITIES)) == configured


def test_a_scale_up_moves_what_the_balance_needs_and_nothing_twice() -> None:
    simulation = PlannedSimulation(1, a=12)
    for identity in "abc":
        simulation.start(identity)
    assert simulation.run(60_000, until=lambda: is_at_rest(simulation))
    before = {task: identity for identity in "abc" for task in simulation.running(identity)}
    epoch = simulation.leader.group.assignment_epoch

    simulation.start("d")
    assert simulation.run(60_000, until=lambda: simulation.is_settled() and len(simulation.running("d")) >= 3)
    simulation.run(5_000)

    after = {task: identity for identity in "abcd" for task in simulation.running(identity)}
    moved = {task for task in after if after[task] != before[task]}
    assert moved == simulation.running("d")
    assert len(moved) == 3
    assert simulation.is_balanced
    # One new target after the join, whatever was on its way meanwhile.
    assert simulation.leader.group.assignment_epoch <= epoch + 2


def test_a_member_that_returns_has_its_tasks_back_and_others_keep_theirs() -> None:
    simulation = PlannedSimulation(2, a=6, b=2)
    for identity in "abc":
        simulation.start(identity)
    assert simulation.run(60_000, until=lambda: is_at_rest(simulation))
    before = {identity: simulation.running(identity) for identity in "abc"}

    simulation.kill("b", proven=True)
    simulation.run(8_000)
    assert (simulation.running("a"), simulation.running("c")) == (before["a"], before["c"])
    simulation.start("b")

    assert simulation.run(5_000, until=lambda: simulation.running("b") == before["b"])
    assert (simulation.running("a"), simulation.running("c")) == (before["a"], before["c"])
