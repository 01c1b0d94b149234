"""Trials of one mutant by a tree that only remembers what it was to run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mutation.mutants import draw
from tests.mutation.report import verdict_of
from tests.mutation.tree import Outcome
from tests.mutation.verdicts import Trial, read_progress

FILE = "operator/cooperator/planner/small.py"
SOURCE = "def f(a):\n    return a\n"
(MUTANT,) = draw({FILE: SOURCE}, {FILE: {2}}, 1, 1)


class RecordedTree:
    """Runs nothing. ``fails`` answers for a test whether it fails, with the mutant or without."""

    def __init__(self, path: Path, fails: Callable[[str, bool], bool]) -> None:
        self.path = path
        self.runs: list[tuple[list[str], bool]] = []
        self._fails = fails
        (path / FILE).parent.mkdir(parents=True, exist_ok=True)
        (path / FILE).write_text(SOURCE)

    @contextmanager
    def with_source(self, file: str, source: str) -> Iterator[None]:
        (self.path / file).write_text(source)
        yield
        (self.path / file).write_text(SOURCE)

    def run(self, tests: Mapping[str, float], words: Sequence[str]) -> Outcome:
        mutated = (self.path / FILE).read_text() != SOURCE
        self.runs.append((list(tests), mutated))
        passed = []
        for test in tests:
            if self._fails(test, mutated):
                return Outcome(passed, test, "failed")
            passed.append(test)
        return Outcome(passed, None)


TESTS = {
    "stayed": {f"s{number}": float(number) for number in (4, 3, 2, 1)},
    "left": {"l1": 1.0, "l2": 2.0},
}
"""The tests that execute the mutant, with their seconds."""


class Tried:
    """A trial of the mutant by these tests."""

    def __init__(self, folder: Path, fails: Callable[[str, bool], bool], most_s: float = 1000) -> None:
        self.tree = RecordedTree(folder / "tree", fails)
        self._results = folder / "results"
        Trial(self.tree, MUTANT, TESTS, self._results).run(most_s)

    def killer(self, group: str) -> str | None:
        return read_progress(self._results)[MUTANT.digest, group].killed_by

    def verdict(self) -> str:
        return verdict_of(MUTANT, read_progress(self._results), {MUTANT.digest: TESTS})


def killed_by(*killers: str) -> Callable[[str, bool], bool]:
    return lambda test, mutated: mutated and test in killers


def test_the_cheapest_test_that_stayed_kills_first(tmp_path: Path) -> None:
    tried = Tried(tmp_path, killed_by("s2", "s3"))
    assert tried.killer("stayed") == "s2"
    assert tried.tree.runs == [(["s1", "s2", "s3", "s4"], True), (["s2"], False), (["s2"], True)]
    assert tried.verdict() == "killed"


def test_a_test_that_left_is_named_when_no_other_kills(tmp_path: Path) -> None:
    tried = Tried(tmp_path, killed_by("l2"))
    assert (tried.killer("stayed"), tried.killer("left")) == (None, "l2")
    assert tried.verdict() == "only by left"


def test_a_mutant_that_no_test_kills_survives_both(tmp_path: Path) -> None:
    assert Tried(tmp_path, killed_by()).verdict() == "survived"


@pytest.mark.parametrize("with_mutant_again", [True, False])
def test_a_failure_counts_only_with_the_mutant_and_each_time(tmp_path: Path, with_mutant_again: bool) -> None:
    times: list[bool] = []

    def fails(test: str, mutated: bool) -> bool:
        if test == "s1":
            times.append(mutated)
            # Either it always fails, or the first time only.
            return with_mutant_again or len(times) == 1
        return mutated and test == "s3"

    tried = Tried(tmp_path, fails)
    assert tried.killer("stayed") == "s3"
    (progress,) = read_progress(tmp_path / "results").values()
    assert progress.not_counted.keys() == {"s1"}


def test_a_trial_goes_on_behind_what_is_known(tmp_path: Path) -> None:
    short = Tried(tmp_path, killed_by("s4", "l2"), most_s=6)
    assert short.tree.runs[0] == (["s1", "s2", "s3"], True)
    assert short.verdict() == "by left first"
    assert Tried(tmp_path, killed_by("s4", "l2"), most_s=6).tree.runs == []
    longer = Tried(tmp_path, killed_by("s4", "l2"))
    assert longer.tree.runs[0] == (["s4"], True)
    assert longer.verdict() == "killed"


def test_an_unfinished_search_is_not_a_survival(tmp_path: Path) -> None:
    assert Tried(tmp_path, killed_by(), most_s=3).verdict() == "cut short"
