"""Some hundreds of seeds, each a history of faults around the project's code: every promise holds in each."""

import pytest

from simulation.run import run

SEEDS = 200


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_promise_holds_in_every_history(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = run(seed)
        assert outcome.broken is None, (
            f"seed {seed}: {outcome.broken}\nreplay it: python -m tests.simulation --replay {seed}"
        )
