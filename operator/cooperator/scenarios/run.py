"""The command ``simulate``: scenarios from a file, results to a file or a table on the terminal."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from cooperator.model import PolicyName
from cooperator.scenarios.compare import compare, markdown
from cooperator.scenarios.driver import ScenarioRun, drive
from cooperator.scenarios.report import metrics, report
from cooperator.scenarios.scenario import read_scenarios
from cooperator.scenarios.story import story

_COLUMNS = (
    ("rebalances", "rebalances"),
    ("starts", "task_starts"),
    ("moves", "task_moves_by_pod"),
    ("unassigned s", "unassigned_task_ms"),
    ("longest s", "max_one_task_unassigned_ms"),
    ("twice s", "duplicate_task_ms"),
    ("spread", "final_task_spread"),
    ("skew", "final_worst_connector_skew"),
)


def run(
    path: Path, policy: PolicyName = PolicyName.DEFAULT, output: Path | None = None, informed: bool = True
) -> str:
    """Run every scenario of ``path`` under ``policy``; rounds and metrics go to ``output`` as JSON lines.

    ``informed``: under Default the operator knows the pods that it has ordered (see ``knowledge``). Returns a
    table of the main metrics. Raises ScenarioError for a bad line, OSError for files.
    """
    if output is None:
        return table(drive(scenario, policy, informed) for scenario in read_scenarios(path))
    with output.open("w", encoding="utf-8") as lines:
        return table(_written(drive(scenario, policy, informed), lines) for scenario in read_scenarios(path))


def run_story(path: Path, task: str, policy: PolicyName = PolicyName.DEFAULT, informed: bool = True) -> str:
    """Return what happened to one task, named like ``orders-0``, in each scenario of ``path`` that has it."""
    return story((drive(scenario, policy, informed) for scenario in read_scenarios(path)), task)


def run_comparison(path: Path) -> str:
    """Compare Kafka and Default on the scenarios of ``path``, as a Markdown document."""
    return markdown(compare(read_scenarios(path)))


def _written(finished: ScenarioRun, lines: TextIO) -> ScenarioRun:
    lines.write(json.dumps(report(finished), separators=(",", ":")) + "\n")
    return finished


def table(runs: Iterable[ScenarioRun]) -> str:
    """Return a table with one line per scenario."""
    rows = [["scenario", *(title for title, _ in _COLUMNS)]]
    for finished in runs:
        measured = metrics(finished)
        cells = [
            f"{measured[name] / 1000:g}" if name.endswith("_ms") else str(measured[name])
            for _, name in _COLUMNS
        ]
        rows.append([finished.scenario.name, *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
