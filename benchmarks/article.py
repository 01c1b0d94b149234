"""The results of the article on incremental cooperative rebalancing, measured on stock Connect and on ours.

    python -m benchmarks.article figures      figures 4 to 6: connectors are created and deleted one by one
    python -m benchmarks.article churn        table 1: throughput while workers and connectors come and go
    python -m benchmarks.article use-cases    a worker away, a rolling restart, scaling, the leader killed
    python -m benchmarks.article sinks        how long records of a stock sink wait over figures 1 to 3
    python -m benchmarks.article reaction     how soon a death is made good, and a lead taken over
    python -m benchmarks.article all          figures and use-cases, and the page
    python -m benchmarks.article document     the page and its pictures, from the figures of the last run

Contenders take turns on one broker, each in fresh processes, in an order that the seed decides. The
tasks write a journal of where they run, and the broker's log has the rebalances; no status counts.
``--short`` is for a look: a minute or two for each contender. Run the full form on an idle machine. On two
cores a turn takes 2 to 5 minutes in ``figures`` (``stock eager``: half an hour) and 4.5 in ``churn``; a
death in ``reaction`` takes 12 s. ``--merge`` adds turns to those of an earlier run.

Needs the project's test extra.
"""

import itertools
import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from benchmarks.clusters import churn as churns
from benchmarks.clusters import events, page
from benchmarks.clusters import reaction as reactions
from benchmarks.clusters import sinks as stock_sinks
from benchmarks.clusters.contenders import CONTENDERS, Cluster, Load
from benchmarks.clusters.timeline import Cost, Line, gaps, places_in_steps
from benchmarks.clusters.turns import Sizes, costs_of, head, measure
from benchmarks.pipelines.job import ROOT

RESULTS: Final = ROOT / "build" / "article"
PAGE: Final = ROOT / "docs" / "evidence" / "article.md"
LOAD: Final = Load()
_POINTS: Final = 400

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


SHORT: Final = Sizes(connectors=9, tasks=3, repetitions=1, away_s=5.0, calm_s=3.0)

ShortOption = Annotated[bool, typer.Option("--short", help="9 connectors of 3 tasks, one repetition.")]
NumberOption = Annotated[int | None, typer.Option(min=1)]
ContendersOption = Annotated[
    str | None, typer.Option(help=f"Names separated by commas; of: {', '.join(CONTENDERS)}.")
]
MergeOption = Annotated[bool, typer.Option("--merge", help="Add the turns to those of an earlier run.")]
ResultsOption = Annotated[Path, typer.Option(help="Directory of the figures.", file_okay=False)]


def sizes_of(
    short: bool, contenders: str | None, known: Collection[str] = tuple(CONTENDERS), /, **given: float | None
) -> Sizes:
    """The sizes of a run. Raises typer.BadParameter for an unknown contender."""
    base = SHORT if short else Sizes()
    names = tuple(known) if contenders is None else tuple(contenders.split(","))
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--contenders: unknown {name!r}; use some of {', '.join(known)}")
    chosen = {field: value for field, value in given.items() if value is not None}
    return Sizes(**{**asdict(base), **chosen, "contenders": names})


@app.command()
def figures(
    short: ShortOption = False,
    connectors: NumberOption = None,
    tasks: NumberOption = None,
    repetitions: NumberOption = None,
    seed: NumberOption = None,
    contenders: ContendersOption = None,
    merge: MergeOption = False,
    results: ResultsOption = RESULTS,
) -> None:
    """Figures 4 to 6: the cost of creating and deleting connectors one after the other."""
    numbers = {"connectors": connectors, "tasks": tasks, "repetitions": repetitions, "seed": seed}
    measure("figures", create_and_delete, sizes_of(short, contenders, **numbers), results, LOAD, merge=merge)


@app.command()
def churn(
    short: ShortOption = False,
    repetitions: NumberOption = None,
    seed: NumberOption = None,
    contenders: ContendersOption = None,
    merge: MergeOption = False,
    results: ResultsOption = RESULTS,
) -> None:
    """Table 1: what each task gets done while workers and connectors come and go."""
    plan = churns.SHORT if short else churns.PLAN

    def play(cluster: Cluster, sizes: Sizes) -> dict[str, Any]:
        return churns.play_churn(cluster, plan)

    sizes = sizes_of(short, contenders, churns.CONTENDERS, repetitions=repetitions, seed=seed)
    measure("churn", play, sizes, results, churns.LOAD, churns.CONTENDERS, merge)


@app.command()
def use_cases(
    short: ShortOption = False,
    connectors: NumberOption = None,
    tasks: NumberOption = None,
    repetitions: NumberOption = None,
    seed: NumberOption = None,
    contenders: ContendersOption = None,
    away_s: Annotated[float | None, typer.Option(min=1, help="The length of an absence.")] = None,
    delay_ms: Annotated[int, typer.Option(min=1, help="scheduled.rebalance.max.delay.ms.")] = LOAD.delay_ms,
    merge: MergeOption = False,
    results: ResultsOption = RESULTS,
) -> None:
    """A worker away, a rolling restart, scaling out and in, and the leader killed."""
    numbers = {"connectors": connectors, "tasks": tasks, "repetitions": repetitions, "seed": seed}
    sizes = sizes_of(short, contenders, away_s=away_s, **numbers)
    measure("use-cases", play_use_cases, sizes, results, replace(LOAD, delay_ms=delay_ms), merge=merge)


@app.command()
def sinks(
    short: ShortOption = False,
    repetitions: NumberOption = None,
    seed: NumberOption = None,
    contenders: ContendersOption = "stock led",
    results: ResultsOption = RESULTS,
) -> None:
    """Measure the waits of a stock sink's records as workers join, restart, bounce and leave, by the way in
    which its consumers share partitions."""
    chosen = stock_sinks.SHORT if short else tuple(stock_sinks.EVENTS)

    def play(cluster: Cluster, sizes: Sizes) -> dict[str, Any]:
        return stock_sinks.play_sinks(cluster, sizes.seed, sizes.calm_s, chosen)

    sizes = sizes_of(short, contenders, repetitions=repetitions, seed=seed)
    measure("sinks", play, sizes, results, stock_sinks.LOAD)


@app.command()
def reaction(
    short: ShortOption = False,
    members: Annotated[
        str, typer.Option(help="Sizes of groups; 3 are processes, others light.")
    ] = "3,50,200",
    deaths: Annotated[int, typer.Option(min=2, help="Deaths in each size.")] = 100,
    takeovers: Annotated[int, typer.Option(min=0, help="Changes of the operator in each size.")] = 10,
    heartbeat_ms: Annotated[int, typer.Option(min=50, help="heartbeatIntervalMs.")] = reactions.HEARTBEAT_MS,
    blocks: Annotated[int, typer.Option(min=1, help="Turns of each size.")] = 2,
    merge: MergeOption = False,
    results: ResultsOption = RESULTS,
) -> None:
    """Measure the times until a death is known, planned for and made good, and until a new operator leads."""
    extent = reactions.Extent(
        tuple(map(int, members.split(","))), deaths // blocks, takeovers // blocks, blocks, heartbeat_ms
    )
    if short:
        extent = reactions.Extent((3, 10), deaths=2, takeovers=2, blocks=1, heartbeat_ms=heartbeat_ms)
    results.mkdir(parents=True, exist_ok=True)
    file = results / "reaction.json"
    run = json.loads(file.read_text()) if merge and file.exists() else head()
    for said in reactions.measure(extent, run, file):
        typer.echo(said)


@app.command(name="all")
def everything(
    short: ShortOption = False,
    contenders: ContendersOption = None,
    results: ResultsOption = RESULTS,
    target: Annotated[Path, typer.Option("--page", help="The page to write.")] = PAGE,
) -> None:
    """Everything, and the page."""
    sizes = sizes_of(short, contenders)
    measure("figures", create_and_delete, sizes, results, LOAD)
    measure("use-cases", play_use_cases, sizes, results, LOAD)
    document(results, target)


@app.command()
def document(
    results: ResultsOption = RESULTS,
    target: Annotated[Path, typer.Option("--page", help="The page to write.")] = PAGE,
) -> None:
    """Write the page and its pictures from the figures of the last run."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    if not found:
        raise typer.BadParameter(f"--results: {results} has no figures; run `figures` first")
    page.write(found, target)
    typer.echo(f"wrote {target}")


# --- figures 4 to 6 ---


def create_and_delete(cluster: Cluster, sizes: Sizes) -> dict[str, Any]:
    """Create all connectors, one request after the other, until all tasks run; then delete them.

    A leader of ours accepts requests faster than rounds are, so that many share a round. The cost of a round
    by the number of tasks that run is measured in a second part, in steps: each request waits until the
    tasks of the one before run, or are gone.
    """
    cluster.create("warm-up", sizes.tasks)
    cluster.runs(_tasks(["warm-up"], sizes))
    cluster.delete("warm-up")
    cluster.runs(set())
    names = [f"c{number:03}" for number in range(sizes.connectors)]
    return {**_at_once(cluster, sizes, names), "rounds": _in_steps(cluster, sizes, names)}


def _at_once(cluster: Cluster, sizes: Sizes, names: Sequence[str]) -> dict[str, Any]:
    begin_ms = _now_ms()
    for name in names:
        cluster.create(name, sizes.tasks)
    created_ms = _now_ms()
    cluster.runs(_tasks(names, sizes))
    lines = cluster.journal.lines
    running_ms = max(line.at_ms for line in lines if line.starts)
    # Rounds that follow the last start belong to the start, too.
    time.sleep(sizes.calm_s)
    delete_ms = _now_ms()
    for name in names:
        cluster.delete(name)
    deleted_ms = _now_ms()
    cluster.runs(set())
    gone_ms = max(line.at_ms for line in lines if not line.starts)
    time.sleep(sizes.calm_s)
    found = costs_of(cluster, begin_ms)
    starting = [cost for cost in found if cost.begin_ms < delete_ms]
    return {
        "created_s": _seconds(created_ms - begin_ms),
        "all_run_s": _seconds(running_ms - begin_ms),
        "deleted_s": _seconds(deleted_ms - delete_ms),
        "all_gone_s": _seconds(gone_ms - delete_ms),
        "rebalances_starting": len(starting),
        "rebalances_stopping": len(found) - len(starting),
        "stopped_without_need": sum(cost.stopped for cost in found),
        "rounds_at_once": _told(found, begin_ms, delete_ms),
        "running": _curve(lines, begin_ms),
    }


def _in_steps(cluster: Cluster, sizes: Sizes, names: Sequence[str]) -> list[dict[str, Any]]:
    begin_ms = _now_ms()
    steps_ms = []
    for count, name in enumerate(names, 1):
        steps_ms.append(_now_ms())
        cluster.create(name, sizes.tasks)
        cluster.runs(_tasks(names[:count], sizes))
    delete_ms = _now_ms()
    for count, name in enumerate(names, 1):
        steps_ms.append(_now_ms())
        cluster.delete(name)
        cluster.runs(_tasks(names[count:], sizes))
    time.sleep(sizes.calm_s)
    found = costs_of(cluster, begin_ms)
    told = _told(found, begin_ms, delete_ms)
    places = places_in_steps([cost.begin_ms for cost in found], steps_ms)
    return [{**each, "place": place} for each, place in zip(told, places, strict=True)]


def _tasks(names: Iterable[str], sizes: Sizes) -> set[str]:
    return {f"{name}-{number}" for name in names for number in range(sizes.tasks)}


def _told(found: Iterable[Cost], begin_ms: float, delete_ms: float) -> list[dict[str, Any]]:
    return [
        {
            "at_s": _seconds(cost.begin_ms - begin_ms),
            "phase": "start" if cost.begin_ms < delete_ms else "stop",
            "duration_ms": round(cost.duration_ms),
            "running": cost.running,
            "stopped": cost.stopped,
        }
        for cost in found
    ]


def _curve(lines: Sequence[Line], begin_ms: float) -> list[tuple[float, int]]:
    """The number of tasks that ran, at at most ``_POINTS`` times (s)."""
    since = sorted(lines, key=lambda line: line.at_ms)
    counts = list(itertools.accumulate(1 if line.starts else -1 for line in since))
    points = [
        (_seconds(line.at_ms - begin_ms), count)
        for line, count in zip(since, counts, strict=True)
        if line.at_ms >= begin_ms
    ]
    step = max(1, len(points) // _POINTS)
    return points[::step] + points[-1:]


# --- use cases ---


def play_use_cases(cluster: Cluster, sizes: Sizes) -> dict[str, Any]:
    """Play each use case on a cluster that runs everything, one after the other."""
    names = [f"c{number:03}" for number in range(sizes.connectors)]
    tasks = _tasks(names, sizes)
    for name in names:
        cluster.create(name, sizes.tasks)
    cluster.runs(tasks)
    found: dict[str, Any] = {}
    for case in events.CASES:
        if not case.concerns(cluster):
            continue
        case.before(cluster)
        events.calm(cluster, tasks, sizes.calm_s)
        begin_ms = _now_ms()
        case.play(cluster, sizes.away_s)
        events.calm(cluster, tasks, sizes.calm_s)
        end_ms = _now_ms()
        lines = cluster.journal.lines
        found[case.name] = {
            **asdict(gaps(lines, tasks, begin_ms, end_ms)),
            "limit_task_seconds": case.limit_task_s(len(tasks), cluster.load, sizes.away_s),
            "lasted_s": _seconds(end_ms - begin_ms),
            "rebalances": len([cost for cost in costs_of(cluster, begin_ms) if cost.begin_ms < end_ms]),
            "stretches": events.stretches(lines, begin_ms, end_ms),
        }
        case.after(cluster)
    return {"cases": found}


def _seconds(milliseconds: float) -> float:
    return round(milliseconds / 1000, 3)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    app()
