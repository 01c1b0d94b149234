"""Groups that leave rounds and return to them, in histories of faults: the promises are those of rounds.

Many more histories: ``python -m tests.simulation --reconciling 1.0 --seeds 1000``, and with 0.9, where some
members are of an earlier release.
"""

from collections.abc import Callable
from random import Random

import pytest

from cooperator.leader import held_reports
from cooperator.model import TaskId
from tests.simulation.command import command_of
from tests.simulation.patches import simulated
from tests.simulation.planted import ALL, find
from tests.simulation.reconciled_mutations import FAST
from tests.simulation.run import Outcome, run
from tests.simulation.simulation import Shape, Simulation
from tests.simulation.spec import ConnectorSpec, Times


def played(seed: int, reconciling: float) -> Outcome:
    outcome = run(seed, reconciling=reconciling)
    again = command_of(seed, reconciling=reconciling)
    assert outcome.broken is None, f"seed {seed}: {outcome.broken}\nreplay it: {again}"
    return outcome


def changes_of_protocol(outcome: Outcome) -> int:
    told = [line.what for _, leader in outcome.simulation.stories for line in leader.story()]
    return sum(what.startswith("protocol: ") and "'reconciled'" in what for what in told)


@pytest.mark.parametrize(("reconciling", "seeds", "answers", "changes"), [(1.0, 3, 150, 4), (0.9, 4, 50, 2)])
def test_every_promise_holds_in_histories_without_rounds(
    reconciling: float, seeds: int, answers: int, changes: int
) -> None:
    outcomes = [played(seed, reconciling) for seed in range(seeds)]
    assert sum(outcome.simulation.answers for outcome in outcomes) > answers
    assert sum(map(changes_of_protocol, outcomes)) >= changes


def new_connectors_ms(seed: int, count: int) -> list[int]:
    """Freeze the member that runs the least, and want a new connector soon after, ``count`` times.

    Returns how long (ms) it took until a task of each one ran; a member is frozen for 3 s each time.
    """
    dice = Random(seed)
    shape = Shape(5, 3, 1, (("a", 6),), restarts_in_place=False, slow=1, hold_ms=12_000, reconciling=1.0)
    simulation = Simulation(shape, dice, Times())
    took_ms = []

    def passes(ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        end_ms = simulation.now_ms + ms
        while not until() and simulation.scheduler.step(end_ms):
            pass
        return until()

    def runs(task: TaskId) -> bool:
        return any(copy.task == task for member in simulation.members for copy in member.copies())

    with simulated(simulation):
        simulation.begin()
        assert passes(60_000, lambda: simulation.answers > 0 and all(map(runs, simulation.spec.tasks())))
        passes(5_000)
        for number in range(count):
            victim = min(simulation.members, key=lambda member: len(member.copies()))
            victim.freeze()
            passes(dice.choice([1, 20, 300]))
            begun_ms = simulation.now_ms
            simulation.spec.connectors[f"new-{number}"] = ConnectorSpec(1)
            simulation.spec.touch()
            passes(3_000, lambda number=number: runs(TaskId(f"new-{number}", 0)))  # type: ignore[misc]
            took_ms.append(simulation.now_ms - begun_ms)
            passes(max(0, begun_ms + 3_000 - simulation.now_ms))
            victim.thaw()
            passes(2_000)
    return took_ms


def test_new_tasks_run_soon_beside_a_member_that_has_just_been_frozen() -> None:
    """The operator notices a new connector after up to 0.2 s here, and its instance and task take as long to
    start.
    """
    took_ms = new_connectors_ms(seed=1, count=3)
    assert max(took_ms) < 1_200, took_ms


def test_they_would_wait_for_it_without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_reports, "late", lambda until_ms, group, now_ms: frozenset())
    took_ms = new_connectors_ms(seed=1, count=2)
    assert max(took_ms) >= 3_000, took_ms


@pytest.mark.parametrize("name", FAST)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == name)
    assert find(mutation, limit=20) is not None, f"not found: {mutation.bug}"


@pytest.mark.parametrize("seed", [25, 37, 73, 340, 1002, 1076])
@pytest.mark.long("tests/simulation/test_reconciled.py::test_every_promise_holds_in_histories_without_rounds")
def test_histories_that_have_found_a_bug(seed: int) -> None:
    """25: a request for a round crossed its JoinGroup, without end. 37: an earlier incarnation stops for the
    later one. 73: answers that had waited for the log were sent after newer reports. 340: they were sent
    after the group had returned to rounds. 1002: the end of a hold lets the group leave rounds. 1076: a
    member went through rounds without applying an assignment.
    """
    played(seed, 1.0)
