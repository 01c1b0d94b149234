"""Reads the journal that ``noop`` units write where they run: who ran what, when, and never twice at once."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.support import eventually


@dataclass
class Run:
    """One run of one unit at one member. ``end_ms`` is None while it continues, or if it was killed."""

    unit: str
    task: str
    member: str
    incarnation: str
    start_ms: int
    last_ms: int
    end_ms: int | None = None


@dataclass
class Journal:
    """``ended`` maps incarnations that a test killed to the time (ms) at which they were dead.

    ``before``: the runs that are over since before the test's group was at rest (``at_rest``).
    """

    path: Path
    ended: dict[str, int] = field(default_factory=dict)
    before: set[tuple[str, str, int, str]] = field(default_factory=set)

    def at_rest(self) -> None:
        """Count from now on: the member that joined first may have run all tasks before."""
        self.before = {_key(run) for run in self.runs() if not self._open(run)}

    def counted(self) -> list[Run]:
        """The runs that were not over when the group was at rest."""
        return [run for run in self.runs() if _key(run) not in self.before]

    def runs(self) -> list[Run]:
        open_runs: dict[tuple[str, str, str, int], Run] = {}
        runs: list[Run] = []
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for line in lines:
            event = json.loads(line)
            unit = f"{event['task'].rsplit('-', 1)[0]}/{event['unit']}"
            key = (unit, event["task"], event["incarnation"], event["attempt"])
            if event["event"] == "start":
                run = Run(
                    unit,
                    event["task"],
                    event["member"],
                    event["incarnation"],
                    event["at_ms"],
                    event["at_ms"],
                )
                open_runs[key] = run
                runs.append(run)
            elif event["event"] == "beat":
                open_runs[key].last_ms = event["at_ms"]
            else:
                open_runs.pop(key).end_ms = event["at_ms"]
        return runs

    def running(self) -> dict[str, str]:
        """Task to member, for what reports to run now."""
        return {run.task: run.member for run in self.runs() if self._open(run)}

    def running_at(self, member: str) -> set[str]:
        return {task for task, where in self.running().items() if where == member}

    def settled(self, tasks: Iterable[str], timeout_s: float) -> dict[str, str]:
        """Wait until the members report exactly these tasks as running; returns task to member."""
        wanted = set(tasks)

        def seen() -> dict[str, str]:
            running = self.running()
            assert set(running) == wanted, running
            return running

        return eventually(seen, timeout_s, f"{sorted(wanted)} run")

    def starts(self, *tasks: str) -> int:
        """Number of starts of these tasks (default: all tasks)."""
        return len({_key(run)[1:] for run in self.counted() if not tasks or run.task in tasks})

    def doubled(self) -> list[str]:
        """Units that ran in two places at once, as sentences; must always be empty."""
        found: list[str] = []
        by_unit: dict[str, list[Run]] = {}
        for run in self.runs():
            by_unit.setdefault(run.unit, []).append(run)
        for unit, runs in by_unit.items():
            runs.sort(key=lambda run: run.start_ms)
            for one, other in itertools.pairwise(runs):
                end = self._end(one)
                if end is None or end > other.start_ms:
                    found.append(
                        f"{unit} at {one.member} until {end} and at {other.member} from {other.start_ms}"
                    )
        return found

    def _open(self, run: Run) -> bool:
        return run.end_ms is None and run.incarnation not in self.ended

    def _end(self, run: Run) -> int | None:
        if run.end_ms is not None:
            return run.end_ms
        # A killed process writes no stop; its last report precedes its end.
        return self.ended.get(run.incarnation)


def _key(run: Run) -> tuple[str, str, int, str]:
    return run.unit, run.task, run.start_ms, run.incarnation
