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
    ("unassigned s", "down_task_ms"),
    ("longest s", "max_one_task_down_ms"),
    ("twice s", "duplicate_task_ms"),
    ("spread", "final_task_spread"),
    ("skew", "final_worst_connector_skew"),
)
_OF_STATE = (
    ("cold starts", "task_cold_starts"),
    ("restoring s", "restoring_task_ms"),
    ("last change s", "last_change_ms"),
)
"""Shown if a scenario has tasks with state."""


def run(
    path: Path,
    policy: PolicyName = PolicyName.DEFAULT,
    output: Path | None = None,
    informed: bool = True,
    probing: bool = False,
) -> str:
    """Run every scenario of ``path`` under ``policy``; rounds and metrics go to ``output`` as JSON lines.

    ``informed``, ``probing``: as of ``drive``. Returns a table of the main metrics. Raises ScenarioError for
    a bad line, OSError for files.
    """
    runs = (drive(scenario, policy, informed, probing) for scenario in read_scenarios(path))
    if output is None:
        return table(runs)
    with output.open("w", encoding="utf-8") as lines:
        return table(_written(finished, lines) for finished in runs)


def run_story(
    path: Path,
    task: str,
    policy: PolicyName = PolicyName.DEFAULT,
    informed: bool = True,
    probing: bool = False,
) -> str:
    """Return what happened to one task, named like ``orders-0``, in each scenario of ``path`` that has it."""
    return story((drive(scenario, policy, informed, probing) for scenario in read_scenarios(path)), task)


def run_comparison(path: Path) -> str:
    """Compare Kafka and Default on the scenarios of ``path``, as a Markdown document."""
    return markdown(compare(read_scenarios(path)))


def _written(finished: ScenarioRun, lines: TextIO) -> ScenarioRun:
    lines.write(json.dumps(report(finished), separators=(",", ":")) + "\n")
    return finished


def table(runs: Iterable[ScenarioRun]) -> str:
    """Return a table with one line per scenario."""
    measured = [(finished.scenario.name, metrics(finished)) for finished in runs]
    has_state = any("task_cold_starts" in found for _, found in measured)
    columns = (*_COLUMNS, *(_OF_STATE if has_state else ()))
    rows = [["scenario", *(title for title, _ in columns)]]
    for name, found in measured:
        cells = [
            f"{found.get(key, 0) / 1000:g}" if key.endswith("_ms") else str(found.get(key, 0))
            for _, key in columns
        ]
        rows.append([name, *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
