"""The folder with all that the commands write, and what a worker does in it."""

import base64
import json
import time
import zlib
from collections.abc import Iterator, Mapping
from multiprocessing import current_process
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.plugin import Selection
from tests.mutation.probe import Slots
from tests.mutation.tree import Tree
from tests.mutation.verdicts import GROUPS, Trial

ROOT = Path(__file__).resolve().parents[2]


class Work:
    """The folder with all that the commands write."""

    def __init__(self, folder: Path, project: Path = ROOT) -> None:
        self.folder = folder.resolve()
        self.project = project.resolve()
        self.recorded = self.folder / "recorded"
        """The clone whose tests are recorded; workers clone it, since the project may go on meanwhile."""
        self.lines = self.folder / "lines"
        self.tests = self.lines / "tests.jsonl"
        self.mutants = self.folder / "mutants.json"
        self.results = self.folder / "results.jsonl"

    def group(self, name: str) -> list[str]:
        """The ids, files and folders of the tests that stayed, or that left."""
        return (self.folder / f"{name}.txt").read_text().splitlines()

    def slots(self) -> Slots:
        return Slots((self.lines / "index").read_text())

    def sources(self) -> dict[str, str]:
        """The recorded sources of the rooms."""
        return {path: (self.recorded / path).read_text() for path in self.slots().first}

    def records(self) -> Iterator[tuple[str, float, bytes]]:
        """Yields each test that passed, its seconds, and a byte for each slot."""
        for line in self.tests.read_text().splitlines() if self.tests.exists() else ():
            record = json.loads(line)
            if record["outcome"] == "passed":
                yield record["test"], record["seconds"], zlib.decompress(base64.b64decode(record["lines"]))

    def tests_by_mutant(self, mutants: list[Mutant]) -> dict[str, dict[str, dict[str, float]]]:
        """Returns the seconds of the tests that execute each mutant, by its digest and by group."""
        first, groups = self.slots().first, {name: Selection(self.group(name)) for name in GROUPS}
        found: dict[str, dict[str, dict[str, float]]]
        found = {mutant.digest: {name: {} for name in GROUPS} for mutant in mutants}
        for test, seconds, lines in self.records():
            for name in (name for name, members in groups.items() if test in members):
                for mutant in mutants:
                    if lines[first[mutant.file] + mutant.line]:
                        found[mutant.digest][name][test] = seconds
        return found

    def drawn(self) -> list[Mutant]:
        return [Mutant(**said) for said in json.loads(self.mutants.read_text())]


def try_mutant(
    work: Work,
    until: float,
    most_s: float,
    words: list[str],
    mutant: Mutant,
    tests: Mapping[str, Mapping[str, float]],
) -> float:
    """Returns the seconds that it took. Monotonic clocks of processes are the same one."""
    began = time.monotonic()
    if began < until:
        tree = Tree(work.recorded, work.folder / current_process().name)
        Trial(tree, mutant, tests, work.results).run(most_s, words)
    return time.monotonic() - began
