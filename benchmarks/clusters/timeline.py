"""The history of a cluster: the journal of its tasks, the rounds in the broker's log, and figures from both.

Pure, but for reading the files."""

import bisect
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

_INSTANCE: Final = "-instance"


@dataclass(frozen=True, slots=True)
class Line:
    """A start or a stop of one task at one member. ``at_ms``: since the epoch."""

    at_ms: int
    task: str
    member: str
    run: tuple[str, str, int]
    starts: bool


@dataclass
class GrowingFile:
    """A file that other processes append lines to. It need not exist yet."""

    path: Path
    _offset: int = 0

    def new_lines(self) -> list[bytes]:
        """Returns the whole lines since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return whole.splitlines()


@dataclass
class Follower:
    """Reads a journal as it grows. ``lines``: the starts and stops so far, without those of instances."""

    path: Path
    lines: list[Line] = field(default_factory=list)
    running: dict[tuple[str, str, int], Line] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._file = GrowingFile(self.path)

    def poll(self) -> "Follower":
        for text in self._file.new_lines():
            if b'"beat"' not in text:
                self._add(json.loads(text))
        return self

    def ended(self, incarnation: str, at_ms: int) -> None:
        """A killed process writes no stops: its tasks stopped at ``at_ms``."""
        self.poll()
        for run in [run for run in self.running if run[1] == incarnation]:
            started = self.running.pop(run)
            self.lines.append(Line(at_ms, started.task, started.member, run, starts=False))

    def tasks(self, member: str | None = None) -> set[str]:
        """The tasks that run now; with ``member`` those of it."""
        return {line.task for line in self.running.values() if member in (None, line.member)}

    def _add(self, event: Mapping[str, object]) -> None:
        task, incarnation = str(event["task"]), str(event["incarnation"])
        if task.endswith(_INSTANCE):
            return
        run = (task, incarnation, int(str(event["attempt"])))
        starts = event["event"] == "start"
        line = Line(int(str(event["at_ms"])), task, str(event["member"]), run, starts)
        if starts:
            self.running[run] = line
        elif self.running.pop(run, None) is None:
            return
        self.lines.append(line)


@dataclass(frozen=True, slots=True)
class Round:
    """A rebalance by the broker's log: from its first request to the leader's assignment (ms since the
    epoch)."""

    begin_ms: float
    end_ms: float

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.begin_ms


_BEGINS: Final = "Preparing to rebalance group {} in state"
_ENDS: Final = re.compile(r"Assignment received from leader \S+ for group (\S+) for generation")


def rounds(log: Iterable[str], group: str) -> list[Round]:
    """The completed rebalances of ``group``. One that was superseded before its assignment is part of the
    next."""
    found: list[Round] = []
    begin_ms: float | None = None
    begins = _BEGINS.format(group)
    for line in log:
        if begins in line:
            begin_ms = _at_ms(line) if begin_ms is None else begin_ms
        elif begin_ms is not None and (ends := _ENDS.search(line)) and ends[1] == group:
            found.append(Round(begin_ms, _at_ms(line)))
            begin_ms = None
    return found


def _at_ms(line: str) -> float:
    # The broker's log has this machine's time.
    return datetime.fromisoformat(line[:23].replace(",", ".")).astimezone().timestamp() * 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """A rebalance, with the tasks that ran as it began, and those it stopped which start again later."""

    begin_ms: float
    duration_ms: float
    running: int
    stopped: int


def costs(found: Sequence[Round], lines: Sequence[Line]) -> list[Cost]:
    """The cost of each round. A stop counts for the last round that had begun by then."""
    in_order = sorted(lines, key=lambda line: line.at_ms)
    times = [line.at_ms for line in in_order]
    totals = [0, *itertools.accumulate(1 if line.starts else -1 for line in in_order)]
    last_start: dict[str, int] = {}
    for line in in_order:
        if line.starts:
            last_start[line.task] = line.at_ms
    stops = [
        line.at_ms for line in in_order if not line.starts and last_start.get(line.task, -1) >= line.at_ms
    ]
    costs_: list[Cost] = []
    for index, each in enumerate(found):
        until_ms = found[index + 1].begin_ms if index + 1 < len(found) else math.inf
        stopped = bisect.bisect_left(stops, until_ms) - bisect.bisect_left(stops, each.begin_ms)
        running = totals[bisect.bisect_left(times, each.begin_ms)]
        costs_.append(Cost(each.begin_ms, each.duration_ms, running, stopped))
    return costs_


def places_in_steps(begins_ms: Sequence[float], steps_ms: Sequence[float]) -> list[int]:
    """The place of each round within the step in which it began: 1, 2, and 3 for all later ones."""
    steps = [bisect.bisect_right(steps_ms, begin_ms) for begin_ms in begins_ms]
    return [min(3, 1 + steps[:index].count(step)) for index, step in enumerate(steps)]


@dataclass(frozen=True, slots=True)
class Slope:
    """The growth of y by x, with its 95 % interval; ``intercept`` is y at x = 0 with the mean of all
    covariates; ``count`` points."""

    intercept: float
    slope: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Point:
    """``kind`` and ``wait`` are covariates: each kind has a level and a growth by ``wait`` of its own."""

    x: float
    y: float
    kind: str = ""
    wait: float = 0.0


def slope(points: Sequence[Point]) -> Slope | None:
    """The common growth of y by x in an analysis of covariance (least squares).

    None without at least two more points than parameters, or if covariates explain x.
    """
    kinds = sorted({point.kind for point in points})
    columns = [[point.x for point in points]]
    for kind in kinds:
        columns.append([float(point.kind == kind) for point in points])
        columns.append([point.wait * (point.kind == kind) for point in points])
    matrix, y = np.array(columns).T, np.array([point.y for point in points])
    others = matrix[:, 1:]
    rank = int(np.linalg.matrix_rank(matrix)) if points else 0
    freedom = len(points) - rank
    if freedom < 2 or rank == np.linalg.matrix_rank(others):
        return None
    # The residuals of x and of y on the covariates have the same slope (Frisch, Waugh and Lovell).
    x = matrix[:, 0] - others @ np.linalg.lstsq(others, matrix[:, 0])[0]
    y_left = y - others @ np.linalg.lstsq(others, y)[0]
    spread = float(x @ x)
    found = float(x @ y_left) / spread
    residual = float(np.sum((y_left - found * x) ** 2)) / freedom
    half = student(freedom) * math.sqrt(residual / spread)
    intercept = float(np.mean(y) - found * np.mean(matrix[:, 0]))
    return Slope(intercept, found, found - half, found + half, len(points))


def points_of(rounds_: Sequence[Mapping[str, Any]], heartbeat_ms: float) -> list[Point]:
    """The duration of each told round (ms) by the number of tasks that ran.

    Members learn of a round by their next heartbeat, which they count from the end of the round before. So
    this wait is known beforehand; it has nothing to do with the tasks, and is a covariate. So is the place
    of the round within its step.
    """
    found = []
    for before, each in itertools.pairwise(rounds_):
        since_ms = 1000 * (each["at_s"] - before["at_s"]) - before["duration_ms"]
        kind = f"{each['phase']} {each.get('place', '')}"
        found.append(Point(each["running"], each["duration_ms"], kind, -since_ms % heartbeat_ms))
    return found


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution (Cornish and Fisher's expansion, within 4 % from 2
    degrees of freedom on, and within 0.1 % from 10 on)."""
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def doubled(lines: Sequence[Line]) -> list[str]:
    """Tasks that ran in two places at once; must be empty for members of ours."""
    running: dict[str, set[tuple[str, str, int]]] = {}
    found: set[str] = set()
    for line in sorted(lines, key=lambda line: (line.at_ms, line.starts)):
        runs = running.setdefault(line.task, set())
        if line.starts:
            runs.add(line.run)
            if len(runs) > 1:
                found.add(line.task)
        else:
            runs.discard(line.run)
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Tasks that ran nowhere between two times, and their moves.

    ``task_seconds``: the sum over all tasks; ``longest_s``: of one task; ``moves``: starts at another member
    than before; ``restarts``: starts at the same one.
    """

    task_seconds: float
    longest_s: float
    moves: int
    restarts: int


def gaps(lines: Sequence[Line], tasks: Iterable[str], begin_ms: float, end_ms: float) -> Gaps:
    """The gaps of ``tasks`` from ``begin_ms`` to ``end_ms``; the tasks run at the beginning."""
    wanted = set(tasks)
    where: dict[str, str] = {}
    since_ms: dict[str, float] = {}
    count: dict[str, int] = {}
    total_ms = longest_ms = 0.0
    moves = restarts = 0
    for line in sorted(lines, key=lambda line: (line.at_ms, line.starts)):
        if line.task not in wanted or line.at_ms > end_ms:
            continue
        task, before = line.task, count.get(line.task, 0)
        count[task] = before + (1 if line.starts else -1)
        if not line.starts:
            if count[task] == 0:
                since_ms[task] = max(line.at_ms, begin_ms)
            continue
        if line.at_ms > begin_ms and task in where:
            moves += where[task] != line.member
            restarts += where[task] == line.member
        where[task] = line.member
        if before == 0 and line.at_ms > begin_ms:
            gap_ms = line.at_ms - since_ms.pop(task, begin_ms)
            total_ms, longest_ms = total_ms + gap_ms, max(longest_ms, gap_ms)
        else:
            since_ms.pop(task, None)
    for task in wanted:
        if count.get(task, 0) == 0:
            gap_ms = end_ms - since_ms.get(task, begin_ms)
            total_ms, longest_ms = total_ms + gap_ms, max(longest_ms, gap_ms)
    return Gaps(total_ms / 1000, longest_ms / 1000, moves, restarts)
