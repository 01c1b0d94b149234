"""Runs tests against mutants, cheapest first, until one of them fails.

A failure counts when the test alone also fails a second time with the mutant, and passes without it, so that
neither an unsteady test nor one that the clone cannot run kills a mutant. Each step is appended to a file,
and a later call continues behind it.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant
from tests.mutation.tree import Outcome, Tree

FIRST_BATCH_S = 10.0
"""Recorded duration of the first batch; each next one takes twice as long."""
BATCH_TESTS = 400
GROUPS = ("stayed", "left")


@dataclass
class Progress:
    """The progress of the tests of one group against one mutant."""

    passed: set[str] = field(default_factory=set)
    """Includes tests that are skipped."""
    not_counted: dict[str, str] = field(default_factory=dict)
    """Tests that failed, but not in the way that kills; with the reason."""
    killed_by: str | None = None
    why: str = ""
    seconds: float = 0.0

    def add(self, event: Mapping[str, Any]) -> None:
        self.seconds += event["seconds"]
        self.passed.update(event.get("passed", ()))
        self.not_counted.update(event.get("not_counted", {}))
        self.killed_by = event.get("killed_by", self.killed_by)
        self.why = event.get("why", self.why)

    def waiting(self, tests: Mapping[str, float], most_s: float) -> dict[str, float]:
        """The tests to run yet, the cheapest ones first, as far as all together take at most ``most_s``."""
        total, waiting = 0.0, {}
        for test, seconds in sorted(tests.items(), key=lambda item: (item[1], item[0])):
            total += seconds
            if total > most_s:
                break
            if test not in self.passed and test not in self.not_counted:
                waiting[test] = seconds
        return waiting


def read_progress(path: Path) -> dict[tuple[str, str], Progress]:
    """Returns the progress by mutant (its digest) and group of tests."""
    found: dict[tuple[str, str], Progress] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        event = json.loads(line)
        found.setdefault((event["mutant"], event["group"]), Progress()).add(event)
    return found


class Trial:
    """The trial of one mutant in a tree. ``tests`` are the seconds of those that execute it, by group."""

    def __init__(
        self, tree: Tree, mutant: Mutant, tests: Mapping[str, Mapping[str, float]], results: Path
    ) -> None:
        self._tree = tree
        self._mutant = mutant
        self._tests = tests
        self._results = results
        self._source = (tree.path / mutant.file).read_text()

    def run(self, most_s: float, words: Sequence[str] = ()) -> None:
        """Run the tests that stayed, and those that left when none of these kills the mutant."""
        known = read_progress(self._results)
        for group in GROUPS:
            progress = known.get((self._mutant.digest, group), Progress())
            if progress.killed_by is None:
                self._search(group, progress, most_s, words)
            if progress.killed_by is not None:
                break

    def _search(self, group: str, progress: Progress, most_s: float, words: Sequence[str]) -> None:
        bound_s = FIRST_BATCH_S
        while waiting := progress.waiting(self._tests[group], most_s):
            began = time.monotonic()
            batch = dict(first(waiting, bound_s))
            outcome = self._with_mutant(batch, words)
            event: dict[str, Any] = {"mutant": self._mutant.digest, "group": group}
            if outcome.failed is None:
                event["passed"] = outcome.passed
                if missing := sorted(batch.keys() - set(outcome.passed)):
                    event["not_counted"] = dict.fromkeys(missing, "was not found")
                bound_s *= 2
            else:
                event["passed"] = outcome.passed
                suspect = {outcome.failed: batch.get(outcome.failed, 0.0)}
                if reason := self._acquit(suspect, words):
                    event["not_counted"] = {outcome.failed: reason}
                else:
                    event |= {"killed_by": outcome.failed, "why": outcome.why}
            event["seconds"] = round(time.monotonic() - began, 1)
            progress.add(event)
            with self._results.open("a") as file:
                file.write(json.dumps(event) + "\n")
            if progress.killed_by is not None:
                return

    def _with_mutant(self, tests: Mapping[str, float], words: Sequence[str]) -> Outcome:
        with self._tree.with_source(self._mutant.file, self._mutant.applied_to(self._source)):
            return self._tree.run(tests, words)

    def _acquit(self, test: Mapping[str, float], words: Sequence[str]) -> str | None:
        """Returns why the test's failure does not count, None if it does."""
        if self._tree.run(test, words).failed is not None:
            return "fails without the mutant"
        if self._with_mutant(test, words).failed is None:
            return "failed with the mutant once, and then passed"
        return None


def first(waiting: Mapping[str, float], bound_s: float) -> Iterator[tuple[str, float]]:
    """Yields the first of the tests that together take ``bound_s``, or a single one."""
    total = 0.0
    for number, (test, seconds) in enumerate(waiting.items()):
        total += seconds
        if number and (total > bound_s or number == BATCH_TESTS):
            return
        yield test, seconds
