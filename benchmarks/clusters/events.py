"""The use cases: events in a cluster that runs all its tasks, and the least that each must cost."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.clusters.contenders import Cluster, Led, Load, Own
from benchmarks.clusters.timeline import Line


@dataclass(frozen=True)
class Case:
    """``limit_task_s``: the least unassigned task-seconds, from the number of tasks, the load and the length
    of the absence (s); None: it depends on how long processes take to start. ``concerns``: whether the
    contender has what the case needs. ``before``, ``after``: what is not measured, around it."""

    name: str
    title: str
    play: Callable[[Cluster, float], None]
    limit_task_s: Callable[[int, Load, float], float | None]
    concerns: Callable[[Cluster], bool] = lambda cluster: True
    before: Callable[[Cluster], None] = lambda cluster: None
    after: Callable[[Cluster], None] = lambda cluster: None


def calm(cluster: Cluster, tasks: set[str], calm_s: float) -> None:
    """Wait until ``tasks`` run and none of them has started or stopped for ``calm_s``.

    Raises RuntimeError if that does not happen within the load's limit.
    """
    deadline = time.monotonic() + cluster.load.limit_s
    while True:
        cluster.runs(tasks)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{cluster.name}: tasks still move after {cluster.load.limit_s:g} s")
        before = len(cluster.journal.lines)
        time.sleep(calm_s)
        if len(cluster.journal.poll().lines) == before and cluster.journal.tasks() == tasks:
            return


def stretches(lines: Sequence[Line], begin_ms: float, end_ms: float) -> list[tuple[str, str, float, float]]:
    """The runs between the two times: task, member, begin and end (s since ``begin_ms``)."""
    found: list[tuple[str, str, float, float]] = []
    running: dict[tuple[str, str, int], Line] = {}

    def add(line: Line, until_ms: float) -> None:
        if until_ms > begin_ms and line.at_ms < end_ms:
            since_s = (max(line.at_ms, begin_ms) - begin_ms) / 1000
            until_s = (min(until_ms, end_ms) - begin_ms) / 1000
            found.append((line.task, line.member, round(since_s, 2), round(until_s, 2)))

    for line in sorted(lines, key=lambda line: (line.at_ms, line.starts)):
        if line.starts:
            running[line.run] = line
        elif line.run in running:
            add(running.pop(line.run), line.at_ms)
    for line in running.values():
        add(line, end_ms)
    return found


def _away(cluster: Cluster, away_s: float) -> None:
    cluster.kill("lake-1")
    time.sleep(away_s)
    cluster.add("lake-1")


def _roll(cluster: Cluster, workers: int) -> None:
    for number in range(workers):
        running = cluster.journal.poll().tasks()
        cluster.bounce(f"lake-{number}")
        cluster.add(f"lake-{number}")
        # A host waits until the member is back before it goes on.
        cluster.runs(running)


def _double(cluster: Cluster) -> None:
    workers = cluster.load.workers
    for number in range(workers, 2 * workers):
        cluster.add(f"lake-{number}")
    cluster.gathered(2 * workers)


def _halve(cluster: Cluster) -> None:
    workers = cluster.load.workers
    cluster.depart(*(f"lake-{number}" for number in reversed(range(workers, 2 * workers))))


def _scale(cluster: Cluster, away_s: float) -> None:
    running = cluster.journal.poll().tasks()
    _double(cluster)
    calm(cluster, running, away_s / 6)
    _halve(cluster)


def _drain(cluster: Cluster, away_s: float) -> None:
    running = cluster.journal.poll().tasks()
    cluster.add(f"lake-{cluster.load.workers}")
    cluster.gathered(cluster.load.workers + 1)
    calm(cluster, running, away_s / 6)
    cluster.depart(f"lake-{cluster.load.workers}")


def _leader(cluster: Cluster, away_s: float) -> None:
    assert isinstance(cluster, Own | Led)
    cluster.front.kill()
    time.sleep(away_s)
    cluster.front.start()


def _hand_over_s(load: Load) -> float:
    return (load.start_ms + load.stop_ms) / 1000


CASES: Final = (
    Case(
        "away",
        "a worker is killed, and is back after a while",
        _away,
        lambda tasks, load, away_s: tasks / load.workers * away_s,
    ),
    Case(
        "roll",
        "all workers are restarted, one after the other",
        lambda cluster, _: _roll(cluster, cluster.load.workers),
        lambda *_: None,
    ),
    Case(
        "roll6",
        "twice as many workers are restarted, one after the other",
        lambda cluster, _: _roll(cluster, 2 * cluster.load.workers),
        lambda *_: None,
        before=_double,
        after=_halve,
    ),
    Case(
        "scale",
        "from 3 workers to 6, and back to 3",
        _scale,
        lambda tasks, load, _: tasks * _hand_over_s(load),
    ),
    Case(
        "drain",
        "one worker joins, and departs in order",
        _drain,
        lambda tasks, load, _: 2 * tasks / (load.workers + 1) * _hand_over_s(load),
    ),
    Case(
        "leader",
        "the leader is killed, and is back after a while",
        _leader,
        lambda tasks, load, _: 0.0,
        lambda cluster: isinstance(cluster, Own | Led),
    ),
)
