"""The part of the article's page on reactions, and its picture, from the figures of a run."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.clusters.pictures import COLORS, finish
from benchmarks.clusters.reaction import PROCESSES, TAKEOVER
from benchmarks.departures import STAGES

Run = Mapping[str, Any]
_PICTURE: Final = "article-reaction.svg"
_COLUMNS: Final = (
    "| members | heartbeats | stage | median ms | 95 % | 99 % | worst |\n|---:|---:|---|---:|---:|---:|---:|"
)


Size = tuple[int, int]
"""The number of members, and their heartbeats' interval (ms)."""


def of_size(run: Run, field: str) -> dict[Size, list[list[float]]]:
    """The stages (ms) of each death or take-over, by size."""
    found: dict[Size, list[list[float]]] = {}
    for turn in run["turns"]:
        found.setdefault((turn["members"], turn["heartbeat_ms"]), []).extend(turn[field])
    return dict(sorted(found.items(), key=lambda item: (item[0][0], -item[0][1])))


def text(run: Run) -> str:
    machine, versions = run["machine"], run["versions"]
    deaths, taken = of_size(run, "deaths_ms"), of_size(run, "takeovers_ms")
    head = (
        f"By `{run['command']}` ({run['begun']}; {machine['processor']}, {machine['cores']} cores, load "
        f"{machine['load_before']} before; Kafka {versions['kafka']}), without a hold, against a real API "
        f"server and the real operator. {PROCESSES} members are processes under a kubelet of the tests; more "
        "are light ones, which speak the real protocols and run nothing, and whose end is reported at once."
    )
    grows = _growth(deaths)
    return f"""
## Reaction: from a death until its tasks run again

{head}

{_COLUMNS}
{_rows(deaths, STAGES)}

![Part of deaths that were made good, by time](pictures/{_PICTURE})

{grows} Use of the processor, in cores: {_cores(run)}.
{run.get("note", "")}
## Reaction: a new operator takes the lead

The operator ends in order, and a new process of it starts; the tasks run on meanwhile. The first stage is the
start of the process, the second takes the group's lead, and in the third all members have joined its first
round.

{_COLUMNS}
{_rows(taken, TAKEOVER)}
"""


def _rows(found: Mapping[Size, Sequence[Sequence[float]]], names: Sequence[str]) -> str:
    rows = []
    for (members, heartbeat_ms), each in found.items():
        if not each:
            continue
        columns = [*zip(*each, strict=True), [sum(stages) for stages in each]]
        for name, values in zip((*names, f"all, of {len(each)}"), columns, strict=True):
            cells = " | ".join(f"{value:.0f}" for value in _spread(values))
            rows.append(f"| {members} | {heartbeat_ms} ms | {name} | {cells} |")
    return "\n".join(rows)


def _spread(values: Sequence[float]) -> tuple[float, float, float, float]:
    if len(values) == 1:
        return (values[0],) * 4
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98], max(values)


def _growth(deaths: Mapping[Size, Sequence[Sequence[float]]]) -> str:
    """A sentence on the growth of the whole's median from the smallest light group to the largest."""
    medians = {
        size: statistics.median(sum(each) for each in found) for size, found in deaths.items() if found
    }
    light = [size for size in medians if size[0] != PROCESSES]
    # Only groups with the same heartbeats can be compared.
    alike = [size for size in light if size[1] == light[-1][1]]
    if len(alike) < 2:
        return ""
    few, many = alike[0], alike[-1]
    more_ms = medians[many] - medians[few]
    return f"From {few[0]} to {many[0]} members the median grows by {more_ms:.0f} ms."


def _cores(run: Run) -> str:
    def middle(members: int, field: str) -> float:
        turns = [turn for turn in run["turns"] if turn["members"] == members and "cores" in turn]
        found = [float(turn["cores"][field]) for turn in turns]
        return statistics.median(found)

    sizes: Iterable[int] = sorted({turn["members"] for turn in run["turns"]})
    return "; ".join(
        f"{members} members: operator {middle(members, 'operator'):.2f}, harness "
        f"{middle(members, 'harness'):.2f}"
        for members in sizes
    )


def draw(run: Run, folder: Path) -> None:
    """The distribution of the whole time, by the number of members."""
    figure = Figure(figsize=(9, 3.5))
    axes = figure.subplots()
    for color, ((members, heartbeat_ms), found) in zip(
        COLORS, of_size(run, "deaths_ms").items(), strict=False
    ):
        times = sorted(sum(each) for each in found)
        parts = [(number + 1) / len(times) for number in range(len(times))]
        axes.step(times, parts, where="post", color=color, label=f"{members} members, {heartbeat_ms} ms")
    axes.set_xlabel("ms from the end of a member until all of its tasks run again")
    axes.set_ylabel("part of deaths")
    axes.set_xlim(left=0)
    finish(figure, folder / _PICTURE)
