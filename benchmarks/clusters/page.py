"""The page of the documentation on the article's results, and its pictures, from the figures of a run."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.clusters import churn_page, reaction_page, sink_page
from benchmarks.clusters.contenders import CONTENDERS
from benchmarks.clusters.events import CASES
from benchmarks.clusters.pictures import COLORS, finish
from benchmarks.clusters.timeline import Slope, points_of, slope

OWN: Final = ("Eager", "Kip415", "Default", "without rounds")
_MOST_ROUND: Final = 1.1
"""A round with all tasks must take at most this times one without any."""
_WITHIN_S: Final = 60.0
_VERDICTS: Final = {True: "met", False: "**missed**", None: "too few rebalances"}

Run = Mapping[str, Any]
Turn = Mapping[str, Any]


def write(runs: Mapping[str, Run], target: Path) -> None:
    """Write the page and, beside it, ``pictures/article-*.svg``.

    ``runs``: by name, as ``article`` wrote them. Those of other sizes have names such as ``figures-200``. A
    ``note`` of a run says what is peculiar to it.
    """
    pictures = target.parent / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    figures = sorted(name for name in runs if name.startswith("figures"))
    of_clusters = {name: runs[name] for name in (*figures, "use-cases") if name in runs}
    parts = [_head(of_clusters)] if of_clusters else ["# The article's results\n"]
    for name in figures:
        draw_figures(runs[name], pictures, name)
        parts.append(_figures(runs[name], name))
    if "churn" in runs:
        churn_page.draw(runs["churn"], pictures)
        parts.append(churn_page.text(runs["churn"]))
    if "use-cases" in runs:
        draw_cases(runs["use-cases"], pictures)
        parts.append(_cases(runs["use-cases"]))
    if "sinks" in runs:
        sink_page.draw(runs["sinks"], pictures)
        parts.append(sink_page.text(runs["sinks"]))
    if "reaction" in runs:
        reaction_page.draw(runs["reaction"], pictures)
        parts.append(reaction_page.text(runs["reaction"]))
    target.write_text("\n".join(parts))


def turns_of(run: Run) -> dict[str, list[Turn]]:
    """The turns that did not fail, by contender, in the order of the page."""
    found = {
        name: [t for t in run["turns"] if t["contender"] == name and "failed" not in t] for name in CONTENDERS
    }
    return {name: turns for name, turns in found.items() if turns}


def slope_of(turns: Iterable[Turn], heartbeat_ms: float) -> Slope | None:
    """The duration of a round (ms) by the number of tasks that run, over all turns of a contender."""
    return slope([point for turn in turns for point in points_of(turn["rounds"], heartbeat_ms)])


def added(found: Slope | None, tasks: int) -> float | None:
    """The part of a round without tasks that ``tasks`` add to it, by the end of the slope's interval."""
    return None if found is None or found.intercept <= 0 else max(0.0, found.high) * tasks / found.intercept


def _head(runs: Mapping[str, Run]) -> str:
    run = next(iter(runs.values()))
    machine, versions, sizes, load = run["machine"], run["versions"], run["sizes"], run["load"]
    commands = ", ".join(f"`{each['command']}`" for each in runs.values())
    text = [
        f"Written by `python -m benchmarks.article document` from a run of {commands} ({run['begun']}; ",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load ",
        f"{machine['load_before']} before; Kafka {versions['kafka']}, Java {versions['java']}, Python ",
        f'{versions["python"]}, cooperator {versions["cooperator"]}). The article is "Incremental ',
        'Cooperative Rebalancing in Apache Kafka: Why Stop the World When You Can Change It?"\n\n',
        f"Connectors of {sizes['tasks']} light tasks run on ",
        f"{load['workers']} workers; heartbeats of {load['heartbeat_ms']} ms. Contenders take turns on one ",
        f"broker, in an order drawn from seed {sizes['seed']}; each section names its sizes. `stock` are ",
        "workers of Kafka Connect, which run source tasks without records: led by one of them with ",
        "`connect.protocol` `eager` or `sessioned`, or by this project (`led`). The others are this ",
        f"project's members under its policies, whose tasks wait {load['start_ms']} ms as they start and ",
        f"{load['stop_ms']} ms as they stop; `Eager` is for this comparison only. Connectors are created ",
        "through Kafka Connect's REST API. Where tasks run is read from the journal that they write, and ",
        "rebalances from the broker's log. Values are medians; ratios inside one run are the results.\n",
    ]
    return f"# The article's results\n\n{''.join(text)}"


def _median(turns: Sequence[Turn], field: str) -> float:
    return float(statistics.median(turn[field] for turn in turns))


def _size(run: Run) -> str:
    sizes = run["sizes"]
    times = "once" if sizes["repetitions"] == 1 else f"{sizes['repetitions']} times"
    return f"{sizes['connectors']} connectors, {sizes['connectors'] * sizes['tasks']} tasks, {times}"


def _figures(run: Run, name: str) -> str:
    """``name``: of the run, which its pictures have, too."""
    sizes, pictures = run["sizes"], f"pictures/article-{name}"
    tasks = sizes["connectors"] * sizes["tasks"]
    rows = []
    for contender, turns in turns_of(run).items():
        run_s, gone_s = _median(turns, "all_run_s"), _median(turns, "all_gone_s")
        found = slope_of(turns, run["load"]["heartbeat_ms"])
        more = added(found, tasks)
        durations = [r["duration_ms"] for turn in turns for r in turn["rounds"]] or [0]
        line = "—" if found is None else f"{found.slope:.2f} [{found.low:.2f}, {found.high:.2f}]"
        cells = [
            contender,
            f"{run_s:.1f}",
            f"{gone_s:.1f}",
            f"{_median(turns, 'rebalances_starting'):.0f}",
            f"{_median(turns, 'rebalances_stopping'):.0f}",
            f"{statistics.median(durations):.0f}",
            line,
            "—" if more is None else f"{more:.0%}",
            f"{_median(turns, 'stopped_without_need'):.0f}",
            f"{statistics.mean([r['stopped'] for turn in turns for r in turn['rounds']] or [0]):.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    table = "\n".join(rows)
    columns = ["all run s", "all gone s", "rebalances (start)", "(removal)", "a rebalance ms"]
    columns += ["ms per running task [95 %]", f"its upper end adds, {tasks} tasks", "stopped without need"]
    columns.append("stopped per rebalance in steps")
    head = f"| contender | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}"
    return f"""
## Figures 4 to 6: connectors created and deleted one after the other ({_size(run)})

{head}
{table}

Requests follow each other at once, and what a leader has accepted by the time of a rebalance shares it.
The duration of a rebalance, and its slope, are from a second part, in which each request waits for the tasks
of the one before. Members learn of a rebalance by their next heartbeat, and count heartbeats from the end of
the rebalance before. So the wait for it is known beforehand, and has nothing to do with the number of tasks:
it is a covariate of the slope, as is the place of a rebalance within its step (analysis of covariance).

![Tasks that run, by time]({pictures}-tasks.svg)

![Rebalances, by time]({pictures}-rebalances.svg)

![How long the start and the removal of all connectors take]({pictures}-times.svg)

{_judged(run, tasks)}{_failures(run)}{run.get("note", "")}"""


def _judged(run: Run, tasks: int) -> str:
    found = turns_of(run)
    if "Default" not in found:
        return ""
    ours = found["Default"]
    run_s, gone_s, more = (
        _median(ours, "all_run_s"),
        _median(ours, "all_gone_s"),
        added(slope_of(ours, run["load"]["heartbeat_ms"]), tasks),
    )
    lines: list[tuple[str, bool | None]] = [
        (f"all tasks run within {_WITHIN_S:g} s", run_s <= _WITHIN_S),
        (f"all are gone within {_WITHIN_S:g} s", gone_s <= _WITHIN_S),
        (
            "a round with all tasks takes at most 10 % longer",
            None if more is None else 1 + more <= _MOST_ROUND,
        ),
    ]
    if "stock sessioned" in found:
        stock_s = _median(found["stock sessioned"], "all_run_s")
        lines.append(
            (f"not slower than stock sessioned ({run_s / stock_s:.2f} of its time)", run_s <= stock_s)
        )
    told = "\n".join(f"| {what} | {_VERDICTS[met]} |" for what, met in lines)
    return f"| `Default` must | |\n|---|---|\n{told}\n"


def _failures(run: Run) -> str:
    failed = [turn for turn in run["turns"] if "failed" in turn]
    return "".join(f"\n{turn['contender']} failed: {turn['failed']}\n" for turn in failed)


def _cases(run: Run) -> str:
    delay_s, away_s = run["load"]["delay_ms"] / 1000, run["sizes"]["away_s"]
    parts = [
        f"\n## Use cases ({_size(run)})\n",
        f"`scheduled.rebalance.max.delay.ms` is {delay_s:g} s, and an absence lasts {away_s:g} s.\n",
    ]
    found = turns_of(run)
    for case in CASES:
        rows = []
        for name, turns in found.items():
            played = [turn["cases"][case.name] for turn in turns if case.name in turn["cases"]]
            if not played:
                continue
            limit = played[0]["limit_task_seconds"]
            cells = [
                name,
                f"{_median(played, 'task_seconds'):.0f}",
                "—" if limit is None else f"{limit:.0f}",
                f"{_median(played, 'longest_s'):.1f}",
                f"{_median(played, 'moves'):.0f}",
                f"{_median(played, 'restarts'):.0f}",
                f"{_median(played, 'rebalances'):.0f}",
            ]
            rows.append(f"| {' | '.join(cells)} |")
        if rows:
            columns = ["unassigned task-seconds", "limit", "longest gap s", "moves", "restarts", "rebalances"]
            head = f"| contender | {' | '.join(columns)} |"
            table = "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *rows])
            picture = f"![{case.title}](pictures/article-{case.name}.svg)"
            parts.append(f"### {case.title[0].upper()}{case.title[1:]}\n\n{table}\n\n{picture}\n")
    return "\n".join([*parts, _failures(run), run.get("note", "")])


# --- pictures ---


def draw_figures(run: Run, folder: Path, name: str) -> None:
    found = turns_of(run)
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    for color, (contender, turns) in zip(COLORS, found.items(), strict=False):
        points = zip(*turns[0]["running"], strict=True)
        axes.step(*points, where="post", label=contender, color=color, linewidth=1)
    axes.set_xlabel("seconds")
    axes.set_ylabel("tasks that run")
    finish(figure, folder / f"article-{name}-tasks.svg")

    figure = Figure(figsize=(9, 6))
    above, below = figure.subplots(2, 1)
    for color, (contender, turns) in zip(COLORS, found.items(), strict=False):
        rounds, at_once = turns[0]["rounds"], turns[0]["rounds_at_once"]
        above.plot([r["at_s"] for r in at_once], range(1, len(at_once) + 1), label=contender, color=color)
        below.plot(
            [r["running"] for r in rounds],
            [r["duration_ms"] for r in rounds],
            ".",
            color=color,
            label=contender,
        )
    above.set_xlabel("seconds")
    above.set_ylabel("rebalances so far")
    below.set_xlabel("tasks that run as it begins")
    below.set_ylabel("duration of a rebalance, ms")
    finish(figure, folder / f"article-{name}-rebalances.svg")

    figure = Figure(figsize=(9, 3))
    axes = figure.subplots()
    places = range(len(found))
    for offset, (field, label) in enumerate(
        (("all_run_s", "until all run"), ("all_gone_s", "until all are gone"))
    ):
        values = [_median(turns, field) for turns in found.values()]
        axes.bar([p + 0.4 * offset for p in places], values, width=0.38, label=label, color=COLORS[offset])
    axes.set_xticks([p + 0.2 for p in places], list(found))
    axes.set_ylabel("seconds")
    finish(figure, folder / f"article-{name}-times.svg")


def draw_cases(run: Run, folder: Path) -> None:
    """Tasks by time, coloured by member, of the first turn of each contender side by side."""
    found = turns_of(run)
    for case in CASES:
        shown = {
            n: turns[0]["cases"][case.name] for n, turns in found.items() if case.name in turns[0]["cases"]
        }
        if not shown:
            continue
        figure = Figure(figsize=(3 * len(shown), 4), dpi=150)
        parts = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        members = sorted({s[1] for played in shown.values() for s in played["stretches"]})
        for part, (name, played) in zip(parts, shown.items(), strict=True):
            tasks = {task: row for row, task in enumerate(sorted({s[0] for s in played["stretches"]}))}
            for member, color in zip(members, COLORS, strict=False):
                of_member = [s for s in played["stretches"] if s[1] == member]
                part.hlines(
                    [tasks[s[0]] for s in of_member],
                    [s[2] for s in of_member],
                    [s[3] for s in of_member],
                    colors=color,
                    linewidth=max(0.3, 250 / max(len(tasks), 1) * 0.8),
                    label=member,
                    # Thousands of lines are a megabyte as vectors.
                    rasterized=True,
                )
            part.set_title(name, fontsize=9)
            part.set_xlabel("seconds")
            part.set_xlim(left=0)
        parts[0].set_ylabel("tasks")
        finish(figure, folder / f"article-{case.name}.svg")
