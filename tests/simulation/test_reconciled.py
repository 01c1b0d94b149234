"""Groups that leave rounds and return to them, in histories of faults: the promises are those of rounds.

Many more histories: ``python -m tests.simulation --reconciling 1.0 --seeds 1000``, and with 0.9, where some
members are of an earlier release.
"""

import pytest

from tests.harness.support import slow
from tests.simulation.command import command_of
from tests.simulation.planted import ALL, find
from tests.simulation.reconciled_mutations import FAST
from tests.simulation.run import Outcome, run


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


@pytest.mark.parametrize("name", FAST)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == name)
    assert find(mutation, limit=20) is not None, f"not found: {mutation.bug}"


@pytest.mark.parametrize("seed", [25, 37, 73, 340, 1002, 1076])
@slow("env -u CI pytest tests/simulation/test_reconciled.py")
def test_histories_that_have_found_a_bug(seed: int) -> None:
    """In CI, the test above plays others.

    25: a request for a round crossed its JoinGroup, without end. 37: an earlier incarnation stops for the
    later one. 73: answers that had waited for the log were sent after newer reports. 340: they were sent
    after the group had returned to rounds. 1002: the end of a hold lets the group leave rounds. 1076: a
    member went through rounds without applying an assignment.
    """
    played(seed, 1.0)
