"""Some hundreds of seeds, each a history of faults around the project's code: every promise holds in each."""

from collections.abc import Iterable

import pytest

from tests.simulation.command import command_of
from tests.simulation.run import run
from tests.simulation.seeds import FIXED, FOUND, FOUND_SINCE, FRESH, first_fresh

AT_ONCE = 10
EVERY_RUN = 50
"""Every run has this number of the fixed seeds. They find less and less; the fresh ones stay as many."""
HISTORIES = "tests/simulation/test_seeds.py::test_every_promise_holds_in_every_history"


def check(seeds: Iterable[int]) -> None:
    for seed in seeds:
        outcome = run(seed)
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}\nreplay it: {command_of(seed)}"


@pytest.mark.parametrize(
    "first",
    [
        *range(0, EVERY_RUN, AT_ONCE),
        *(
            pytest.param(first, marks=pytest.mark.long(HISTORIES))
            for first in range(EVERY_RUN, FIXED, AT_ONCE)
        ),
    ],
)
def test_every_promise_holds_in_every_history(first: int) -> None:
    check(range(first, first + AT_ONCE))


@pytest.mark.parametrize("seed", [*FOUND, *FOUND_SINCE])
def test_a_history_that_broke_a_promise_keeps_all_of_them(seed: int) -> None:
    check([seed])


@pytest.mark.parametrize("skipped", range(0, FRESH, AT_ONCE))
def test_every_promise_holds_in_histories_that_nobody_has_looked_at(skipped: int) -> None:
    first = first_fresh() + skipped
    check(range(first, first + AT_ONCE))


def test_a_run_names_its_fresh_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.simulation import seeds

    monkeypatch.delenv(seeds.FIRST_FRESH)
    monkeypatch.setattr("tests.simulation.seeds.time.time", lambda: 1_000.0)
    first = seeds.first_fresh()
    monkeypatch.setattr("tests.simulation.seeds.time.time", lambda: 2_000.0)
    assert seeds.first_fresh() == first, "another process of the same run"
    assert f"--start {first} --seeds {FRESH}" in seeds.name_fresh()
    monkeypatch.delenv(seeds.FIRST_FRESH)
    assert seeds.first_fresh() >= first + FRESH, "a later run looks at others"
