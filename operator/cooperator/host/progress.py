"""The progress reports of tasks (``runtime/progress.py``), for statuses and tables. Pure."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cooperator.model import LEARNERS_VALID_MS, TaskState
from cooperator.model.status import RATE_VALID_MS
from cooperator.model.trace import error_of
from cooperator.model.waits import Wait, read

_SHORT: Final = 2_000
_MOST: Final = 2**53
"""Larger numbers are no figures: JSON's readers, and the API server, do not keep them."""
_TEXTS: Final = ("note",)
_STATE: Final = ("state_rows", "state_bytes", "state_commit_ms")
_NUMBERS: Final = ("lag", "rows_in", "rows_out", "rows_per_s", "tasks", "failures", "more_units", *_STATE)


@dataclass(frozen=True, slots=True)
class Reported:
    """A task's report.

    * ``lag`` in records, ``rows_per_second``: None if not known.
    * ``state_rows``, ``state_bytes``, ``state_commit_ms``: of the newest commit of the task's queries; None
      without state, and until the first batch of an attempt has told them.
    * ``last_error``: empty if none.
    * ``short``: the report as JSON, without its units if it is too long for a status.
    * ``is_expired``: its rate is too old to be shown.
    * ``waits``: what it waits for, the longest wait first.
    """

    lag: int | None = None
    rows_per_second: int | None = None
    last_error: str = ""
    short: str = ""
    is_expired: bool = False
    waits: tuple[Wait, ...] = ()
    state_rows: int | None = None
    state_bytes: int | None = None
    state_commit_ms: int | None = None


def reported(task: Mapping[str, Any], now_ms: int) -> Reported:
    """The report of a task in its leader's projection. An invalid report yields no values.

    ``now_ms``: since the epoch, like the task's ``at_ms``. The rate is unknown if it has expired or the task
    does not run.
    """
    report = report_of(task)
    lag, rows_per_s = report.get("lag"), report.get("rows_per_s")
    if task.get("state") != TaskState.RUNNING.value:
        rows_per_s = None
    is_expired = bool(rows_per_s) and now_ms > (task.get("at_ms") or 0) + RATE_VALID_MS
    last = report.get("last_error")
    error = error_of(task.get("trace", ""))
    short = task.get("progress", "")
    if len(short) > _SHORT:
        names = (*_NUMBERS, *_TEXTS, "waits", "last_error")
        short = json.dumps({name: value for name, value in report.items() if name in names})
    return Reported(
        lag=_count(lag),
        rows_per_second=None if rows_per_s is None or is_expired else round(rows_per_s),
        last_error=error or (str(last.get("text", "")) if isinstance(last, Mapping) else ""),
        short=short,
        is_expired=is_expired,
        waits=read(report),
        **{name: _count(report.get(name)) for name in _STATE},
    )


def _count(value: float | None) -> int | None:
    return None if value is None else max(0, int(value))


def report_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """The progress of a task, empty if it reports none; without figures and texts that are none."""
    try:
        report = json.loads(task.get("progress") or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(report, dict):
        return {}
    return {name: value for name, value in report.items() if _is_readable(name, value)}


def _is_readable(name: str, value: Any) -> bool:
    if name in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and math.isfinite(value) and abs(value) < _MOST
    if name == "units":
        return isinstance(value, Mapping) or (isinstance(value, int) and abs(value) < _MOST)
    return name not in _TEXTS or isinstance(value, str)


def learning(task: Mapping[str, Any], now_ms: int) -> str:
    """The members that learn the task's state: ``warming on lake-4, 12 MB behind``; empty if none does.

    A figure of a member that has not reported for ``LEARNERS_VALID_MS`` is not shown.
    """
    words = {"warmup": "warming", "standby": "standby"}
    said = []
    for each in task.get("learners", ()):
        what = f"{words.get(each['role'], each['role'])} on {each['member']}"
        behind = each["behind_bytes"] if now_ms < each["heard_ms"] + LEARNERS_VALID_MS else None
        if each["problem"]:
            what += f": {each['problem']}"
        elif each["caught_up"] and behind is not None:
            what += ", caught up"
        elif behind is not None:
            size = f"{behind / 1_000_000:,.0f}" if behind >= 1_000_000 else "less than 1"
            what += f", {size} MB behind"
        said.append(what)
    return "; ".join(said)


def warming_summary(tasks: Iterable[Mapping[str, Any]], now_ms: int) -> str:
    """The first of a connector's tasks that moves warm, with ``learning``, and how many others there are."""
    warming = []
    for task in tasks:
        learners = [each for each in task.get("learners", ()) if each["role"] == "warmup"]
        if learners:
            said = learning({"learners": learners}, now_ms)
            warming.append(f"{task['name']} {said.removeprefix('warming ')}")
    more = f", {len(warming) - 1} more" if len(warming) > 1 else ""
    return f"{warming[0]}{more}" if warming else ""


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
