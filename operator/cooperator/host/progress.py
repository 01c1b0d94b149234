"""What a task reports about itself (``runtime/progress.py``), for statuses and tables. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cooperator.model.trace import error_of

_SHORT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Reported:
    """``lag`` in records, ``rows_per_second``: None where it is not known. ``last_error``: empty for none.
    ``short``: the report as JSON, without its units where it is too long for a status."""

    lag: int | None = None
    rows_per_second: int | None = None
    last_error: str = ""
    short: str = ""


def reported(task: Mapping[str, Any]) -> Reported:
    """Of a task as its leader tells of it. What is no report tells nothing."""
    report = report_of(task)
    lag, rows_per_s = report.get("lag"), report.get("rows_per_s")
    last = report.get("last_error")
    error = error_of(task.get("trace", ""))
    short = task.get("progress", "")
    if len(short) > _SHORT:
        short = json.dumps({name: value for name, value in report.items() if name != "units"})
    return Reported(
        lag=max(0, int(lag)) if isinstance(lag, int) else None,
        rows_per_second=round(rows_per_s) if isinstance(rows_per_s, int | float) else None,
        last_error=error or (str(last.get("text", "")) if isinstance(last, Mapping) else ""),
        short=short,
    )


def report_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """The progress of a task, empty when it tells none."""
    try:
        report = json.loads(task.get("progress") or "{}")
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
