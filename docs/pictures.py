#!/usr/bin/env python3
"""The pictures of ``docs/planner.md``, drawn from simulated scenarios: ``python docs/pictures.py [FOLDER]``.

Scenarios are those of Kafka's vectors, of which they need nothing but the events. A test draws the pictures
again and compares. Needs the project's test extra.
"""

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cooperator.model import PolicyName, TaskId
from cooperator.scenarios.compare import MEASURES, compare, sums
from cooperator.scenarios.driver import ScenarioRun, drive
from cooperator.scenarios.scenario import Scenario, parse_scenarios

ROOT: Final = Path(__file__).resolve().parents[1]
VECTORS: Final = ROOT / "tests" / "planner" / "vectors" / "named.jsonl.gz"
COLORS: Final = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
POLICIES: Final = ((PolicyName.KIP415, "Kafka (Kip415)"), (PolicyName.DEFAULT, "Default"))
STORIES: Final = {
    "returns": ("figure2_worker_bounces_within_delay", "w01 leaves at 60 s and is back at 120 s"),
    "joins": ("workers_join_after_revocations", "workers join one after another"),
    "departs": ("two_workers_leave_staggered", "two workers are scaled down, one after the other"),
}


def stretches(run: ScenarioRun, end_ms: int) -> Iterator[tuple[TaskId, str, float, float]]:
    """Yields which task ran on which worker, from when to when (at most ``end_ms``), in seconds."""
    running: dict[TaskId, tuple[str, int]] = {}

    def stop(task: TaskId, at_ms: int) -> tuple[TaskId, str, float, float]:
        worker, since_ms = running.pop(task)
        return task, worker, since_ms / 1000, at_ms / 1000

    for round_ in run.rounds:
        for event in round_.events:
            if event.type == "leave":
                gone = [task for task, (worker, _) in running.items() if worker == event.subject]
                yield from (stop(task, event.time_ms) for task in gone)
        for member in round_.members:
            assignment = round_.outcome.assignment(member.member_id)
            revoked = [task for task in assignment.revoked if task in running]
            yield from (stop(task, round_.time_ms) for task in revoked)
        for member in round_.members:
            for task in round_.outcome.assignment(member.member_id).assigned:
                if not task.is_instance:
                    running[task] = (member.process.name, round_.time_ms)
    yield from [stop(task, end_ms) for task in list(running)]


def draw_story(scenario: Scenario, title: str, file: Path) -> None:
    """Tasks by time, coloured by worker, under both policies; a gap is a task that nobody runs."""
    figure = Figure(figsize=(9, 4.2))
    axes: Sequence[Axes] = figure.subplots(2, 1, sharex=True)
    workers: dict[str, str] = {}
    runs = [drive(scenario, policy) for policy, _ in POLICIES]
    end_ms = max(round_.time_ms for run in runs for round_ in run.rounds) + 20_000
    for part, run, (_, name) in zip(axes, runs, POLICIES, strict=True):
        found = list(stretches(run, end_ms))
        tasks = sorted({task for task, *_ in found}, reverse=True)
        for _, worker, *_ in sorted(found, key=lambda stretch: stretch[1]):
            workers.setdefault(worker, COLORS[len(workers) % len(COLORS)])
        for task, worker, since, until in found:
            part.barh(tasks.index(task), until - since, left=since, height=0.7, color=workers[worker])
        part.set_yticks(range(len(tasks)), [str(task) for task in tasks], fontsize=6)
        part.set_title(name, fontsize=9, loc="left")
        part.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("seconds")
    for worker in sorted(workers):
        axes[0].barh(0, 0, color=workers[worker], label=worker)
    axes[0].legend(ncols=len(workers), fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    figure.suptitle(title, fontsize=10)
    save(figure, file)


def draw_sums(scenarios: Sequence[Scenario], file: Path) -> None:
    """Every measure over all scenarios, as a part of Kafka's."""
    compared = compare(scenarios)
    names = [(title, measure) for title, measure in MEASURES if sums(compared, measure)[0]]
    figure = Figure(figsize=(9, 3.6))
    axes = figure.subplots()
    for offset, label in enumerate(("Default", "Default without host facts")):
        parts = [sums(compared, measure)[offset + 1] / sums(compared, measure)[0] for _, measure in names]
        places = [place + 0.38 * offset for place in range(len(names))]
        axes.bar(places, parts, width=0.36, label=label, color=COLORS[offset])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.text(len(names) - 0.3, 1.01, "Kafka", ha="right", va="bottom", fontsize=8)
    axes.set_xticks(
        [place + 0.19 for place in range(len(names))],
        [title for title, _ in names],
        rotation=25,
        ha="right",
        fontsize=8,
    )
    axes.set_ylabel("sum, by Kafka's")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, file)


def save(figure: Figure, file: Path) -> None:
    """As SVG whose bytes depend on nothing but what is drawn."""
    with mpl.rc_context({"svg.hashsalt": "cooperator", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        scenarios = list(parse_scenarios(lines, str(VECTORS)))
    by_name = {scenario.name: scenario for scenario in scenarios}
    for name, (scenario, title) in STORIES.items():
        draw_story(by_name[scenario], title, folder / f"{name}.svg")
    draw_sums(scenarios, folder / "sums.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
