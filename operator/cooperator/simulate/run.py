"""The command ``simulate``: scenarios from a file, results to a file or a table on the terminal."""

import json
from collections.abc import Iterable
from pathlib import Path

from cooperator.model import PolicyName
from cooperator.simulate.driver import Run, drive
from cooperator.simulate.report import metrics, report
from cooperator.simulate.scenario import read_scenarios

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


def run(path: Path, policy: PolicyName = PolicyName.DEFAULT, output: Path | None = None) -> str:
    """Run every scenario of ``path`` under ``policy``; rounds and metrics go to ``output`` as JSON lines.

    Returns a table of the main metrics. Raises ScenarioError for a bad line, OSError for files.
    """
    runs: list[Run] = []
    if output is None:
        runs.extend(drive(scenario, policy) for scenario in read_scenarios(path))
    else:
        with output.open("w", encoding="utf-8") as lines:
            for scenario in read_scenarios(path):
                runs.append(drive(scenario, policy))
                lines.write(json.dumps(report(runs[-1]), separators=(",", ":")) + "\n")
    return table(runs)


def table(runs: Iterable[Run]) -> str:
    """One line a scenario."""
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
