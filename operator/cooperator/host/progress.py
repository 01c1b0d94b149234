"""The progress reports of tasks (``runtime/progress.py``), for statuses and tables. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cooperator.model import TaskState
from cooperator.model.status import RATE_VALID_MS
from cooperator.model.trace import error_of

_SHORT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Reported:
    """A task's report.

    * ``lag`` in records, ``rows_per_second``: None if not known.
    * ``last_error``: empty if none.
    * ``short``: the report as JSON, without its units if it is too long for a status.
    * ``is_expired``: its rate is too old to be shown.
    * ``waits_for``: empty for nothing.
    """

    lag: int | None = None
    rows_per_second: int | None = None
    last_error: str = ""
    short: str = ""
    is_expired: bool = False
    waits_for: str = ""


def reported(task: Mapping[str, Any], now_ms: int) -> Reported:
    """The report of a task in its leader's projection. An invalid report yields no values.

    ``now_ms``: since the epoch, like the task's ``at_ms``. The rate is unknown if it has expired or the task
    does not run.
    """
    report = report_of(task)
    lag, rows_per_s = report.get("lag"), report.get("rows_per_s")
    if task.get("state") != TaskState.RUNNING.value or not isinstance(rows_per_s, int | float):
        rows_per_s = None
    is_expired = bool(rows_per_s) and now_ms > (task.get("at_ms") or 0) + RATE_VALID_MS
    last = report.get("last_error")
    error = error_of(task.get("trace", ""))
    short = task.get("progress", "")
    if len(short) > _SHORT:
        short = json.dumps({name: value for name, value in report.items() if name != "units"})
    return Reported(
        lag=max(0, int(lag)) if isinstance(lag, int) else None,
        rows_per_second=None if rows_per_s is None or is_expired else round(rows_per_s),
        last_error=error or (str(last.get("text", "")) if isinstance(last, Mapping) else ""),
        short=short,
        is_expired=is_expired,
        waits_for=str(report.get("trouble") or ""),
    )


def report_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """The progress of a task, empty if it reports none."""
    try:
        report = json.loads(task.get("progress") or "{}")
    except (ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
