"""Random histories of a reconciled group: no task runs twice, and everything reaches its target in the
end."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

import tests.reconciliation.group_simulation as simulation_module
from cooperator.reconciliation import BrokenInvariant, ReconciledGroup, fold, reports
from tests.reconciliation.group_simulation import Faults, GroupSimulation, TaskRunsTwice

SEEDS = 30
IDENTITIES = ("a", "b", "c", "d", "e")


def play(seed: int, prepare: Callable[[GroupSimulation], None] = lambda simulation: None) -> GroupSimulation:
    """Two minutes of faults, then peace until everything runs where it should."""
    simulation = GroupSimulation(seed)
    prepare(simulation)
    # Late reports that count are the more dangerous, and those that are held the more frequent ones.
    storm(simulation, Random(-seed), 60, held=0.0 if seed % 2 else 0.2)
    simulation.run(5_000)
    simulation.relayout()
    assert simulation.run(60_000, until=simulation.is_settled), simulation.leader.group
    return simulation


def storm(simulation: GroupSimulation, dice: Random, troubles: int, held: float = 0.2) -> None:
    """All members start, and then comes trouble; in the end, all are there and nothing is wrong any more."""
    for identity in IDENTITIES:
        simulation.start(identity)
    longest_ms = dice.choice([50, 2_000, 12_000])
    simulation.faults = Faults(lost=0.2, repeated=0.2, longest_delay_ms=longest_ms, held=held)
    for _ in range(troubles):
        simulation.run(dice.randint(1, 4_000))
        trouble(simulation, dice)
    simulation.faults = Faults()
    for process in simulation.processes.values():
        process.frozen = process.cut_off = False
        process.stop_ms = 50
    simulation.run(60_000)
    for identity in set(IDENTITIES) - simulation.processes.keys():
        simulation.start(identity)


def trouble(simulation: GroupSimulation, dice: Random) -> None:
    identity = dice.choice(IDENTITIES)
    process = simulation.processes.get(identity)
    match dice.randint(0, 9):
        case 0 | 1 | 2 | 3:
            simulation.relayout()
        case 4 if process is not None:
            process.frozen = not process.frozen
        case 5 if process is not None:
            process.cut_off = not process.cut_off
        case 6 if process is not None:
            simulation.kill(identity, proven=dice.random() < 0.5)
        case 7:
            simulation.lead()
        case 8 if process is not None:
            process.stop_ms = dice.choice([50, 3_000, 30_000])
        case _ if process is None:
            simulation.start(identity)
        case _:
            pass


def test_no_task_runs_twice_and_all_reach_their_target() -> None:
    seen: dict[str, int] = {}
    for seed in range(SEEDS):
        simulation = play(seed)
        assert frozenset().union(*map(simulation.running, IDENTITIES)) == simulation.tasks
        assert sequences_apart(fold(simulation.log)) == sequences_apart(simulation.leader.group)
        for what, count in simulation.counts.items():
            seen[what] = seen.get(what, 0) + count
    states = {"STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS"}
    # Members learn the term of a leader in its own round, so none reports to the predecessor by that term.
    rejections = {*reports.Rejection} - {reports.Rejection.UNKNOWN_LEADER_EPOCH}
    assert seen.keys() >= states | rejections | {"expired", "killed", "overdue", "withdrawn"}, seen


def sequences_apart(group: ReconciledGroup) -> ReconciledGroup:
    return replace(group, members={i: replace(m, sequence=0) for i, m in group.members.items()}, occupants={})


def without_numbers(simulation: GroupSimulation, patch: pytest.MonkeyPatch) -> None:
    """The leader considers late and repeated reports."""
    handle = reports._rejection
    patch.setattr(
        reports,
        "_rejection",
        lambda group, report: handle(group, replace(report, sequence=1 << 40)),
    )


def with_late_answers(simulation: GroupSimulation, patch: pytest.MonkeyPatch) -> None:
    """Members apply answers to any of their reports."""
    simulation.applies_any_answer = True


def without_fences(simulation: GroupSimulation, patch: pytest.MonkeyPatch) -> None:
    """The tasks of a departed member are free at once."""
    patch.setattr(simulation_module, "FENCE_MS", 0)


def without_patience_for_the_frozen(simulation: GroupSimulation, patch: pytest.MonkeyPatch) -> None:
    """A member that does not take up its new tasks in time loses those that it was given, too."""
    simulation.takes_late_members_for_dead = True


FAULTS = [without_numbers, with_late_answers, without_fences, without_patience_for_the_frozen]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rule_is_needed(fault, monkeypatch):
    def play_all() -> None:
        for seed in range(SEEDS):
            play(seed, lambda simulation: fault(simulation, monkeypatch))

    with pytest.raises((TaskRunsTwice, BrokenInvariant)):
        play_all()
