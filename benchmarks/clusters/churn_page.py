"""The part of the article's page on throughput under churn, and its picture, from the figures of a run."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.clusters.churn import CONTENDERS, RATE, STEADY_S, TASKS
from benchmarks.clusters.pictures import COLORS, finish

Run = Mapping[str, Any]
Turn = Mapping[str, Any]
FIELDS: Final = ("total", "least", "most", "median")
ARTICLE: Final[Mapping[str, float]] = {"total": 2.13, "least": 1.83, "most": 9.32, "median": 2.0}
"""Incremental over eager, in the article's table 1."""
_PAIRS: Final = (("stock sessioned", "stock eager"), ("Default", "Eager"), ("Default", "Kip415"))
_PICTURE: Final = "article-churn.svg"


def turns_of(run: Run) -> dict[str, list[Turn]]:
    """The turns that did not fail, by contender, in the order of the page."""
    found = {
        name: [t for t in run["turns"] if t["contender"] == name and "failed" not in t] for name in CONTENDERS
    }
    return {name: turns for name, turns in found.items() if turns}


def text(run: Run) -> str:
    """The section. A ``note`` of the run explains its ratios."""
    found = turns_of(run)
    machine, load = run["machine"], run["load"]
    rows = [_row(name, turns) for name, turns in found.items()]
    ratios = [
        f"| {one} over {other} | {' | '.join(_ratio(found[one], found[other], field) for field in FIELDS)} |"
        for one, other in _PAIRS
        if one in found and other in found
    ]
    article = f"| the article, incremental over eager | {' | '.join(f'{ARTICLE[f]:.2f}' for f in FIELDS)} |"
    columns = ["all tasks", "least", "most", "median", "all, without events", "turns", "events", "rebalances"]
    table = "\n".join(
        [f"| records a second | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *rows]
    )
    compared = "\n".join(
        ["| ratio | all tasks | least | most | median |\n|---|---:|---:|---:|---:|", *ratios]
    )
    failed = "".join(f"\n{t['contender']} failed: {t['failed']}\n" for t in run["turns"] if "failed" in t)
    return f"""
## Table 1: throughput while workers and connectors come and go

By `{run["command"]}` ({run["begun"]}; {machine["processor"]}, {machine["cores"]} cores, load
{machine["load_before"]} before). {TASKS} tasks read a backlog of one partition each, {RATE} records a second
at most, which is below saturation: the rate of {STEADY_S:g} s without events shows it. Then the events of
`benchmarks/clusters/churn.py` happen: every 5 s another connector is created, changed or deleted, and
meanwhile a worker joins, one is killed and started again, one is restarted, and one leaves.
`scheduled.rebalance.max.delay.ms` is {load["delay_ms"] / 1000:g} s. Stock workers run a sink, whose committed
offsets count; ours run `kafka-to-kafka` on Spark, of which records of committed transactions count.

{table}

{compared}
{article}

![Records by time, of all tasks](pictures/{_PICTURE})
{failed}{run.get("note", "")}"""


def _row(name: str, turns: Sequence[Turn]) -> str:
    played = [len(turn["events"]) for turn in turns]
    events = f"{statistics.median(played):.0f} of {played[0] + turns[0]['late']}"
    cells = [f"{_median(turns, field):.1f}" for field in (*FIELDS, "steady")]
    counts = [turn["rebalances"] for turn in turns if "rebalances" in turn]
    rebalances = f"{statistics.median(counts):.0f}" if counts else "—"
    return f"| {' | '.join([name, *cells, str(len(turns)), events, rebalances])} |"


def _median(turns: Sequence[Turn], field: str) -> float:
    return float(statistics.median(turn[field] for turn in turns))


def _ratio(one: Sequence[Turn], other: Sequence[Turn], field: str) -> str:
    below = _median(other, field)
    return f"{_median(one, field) / below:.2f}" if below else "—"


def draw(run: Run, folder: Path) -> None:
    """The records of all tasks by time, of the first turn of each contender."""
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    for color, (contender, turns) in zip(COLORS, turns_of(run).items(), strict=False):
        axes.plot(*zip(*turns[0]["progress"], strict=True), label=contender, color=color, linewidth=1)
    axes.set_xlabel("seconds")
    axes.set_ylabel("records")
    finish(figure, folder / _PICTURE)
