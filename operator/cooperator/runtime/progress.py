"""The progress that a task reports: one small JSON object.

A task reports ``rows_in`` and ``rows_out`` (when known) since it was started here, ``rows_per_s`` over the
last interval, ``lag``: how many records its sources have that are not delivered (when known), ``units``: id
to ``{"batch", "rows_in"}`` (at most 50; ``more_units`` counts the rest), ``trouble``: what it is waiting for,
``note``: which units are being opened, and after failures on this member ``failures`` (a number) and
``last_error``: ``{"at_ms", "text"}``. A task with state reports ``state_rows``, ``state_bytes``, and
``state_commit_ms``, the longest time of a query's newest commit. A paused task reports ``lag`` and the two
about failures. An instance reports ``units``, ``tasks`` (numbers), ``note``, ``trouble``.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cooperator.connectors.base import UnitProgress

_SHOWN_UNITS = 50
_NAMED_UNITS = 3


class WaitReasons:
    """The reasons why parts of a task wait: each part sets its text, or clears it with an empty one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}

    def of(self, part: str) -> Callable[[str], None]:
        def say(text: str) -> None:
            with self._lock:
                self._texts[part] = text

        return say

    def text(self) -> str:
        with self._lock:
            return "; ".join(sorted({text for text in self._texts.values() if text}))


def task_progress(
    units: Mapping[str, UnitProgress],
    rows_per_s: float,
    waits_for: str,
    lag: int | None = None,
    failed: Mapping[str, Any] = MappingProxyType({}),
    opening: Sequence[str] = (),
    rows_out: int | None = None,
) -> str:
    """Returns the progress of a running task.

    ``lag`` is measured at the source; without it the lag is the sum of the units' numbers, if there is one
    for each unit. ``rows_out`` counts the rows of a task whose units do not count theirs. ``opening`` holds
    the units that do not run yet.
    """
    outs = [unit.rows_out for unit in units.values() if unit.rows_out is not None]
    shown = dict(sorted(units.items())[:_SHOWN_UNITS])
    report: dict[str, Any] = {
        "rows_in": sum(unit.rows_in for unit in units.values()),
        "rows_per_s": round(rows_per_s, 1),
        "units": {name: {"batch": unit.batch, "rows_in": unit.rows_in} for name, unit in shown.items()},
    }
    if outs or rows_out is not None:
        report["rows_out"] = sum(outs) + (rows_out or 0)
    behind = [unit.behind for unit in units.values() if unit.behind is not None]
    if lag is None and behind and len(behind) == len(units):
        lag = sum(behind)
    if lag is not None:
        report["lag"] = lag
    if states := [unit.state for unit in units.values() if unit.state is not None]:
        report["state_rows"] = sum(state.rows for state in states)
        report["state_bytes"] = sum(state.bytes for state in states)
        report["state_commit_ms"] = max(state.commit_ms for state in states)
    if len(units) > len(shown):
        report["more_units"] = len(units) - len(shown)
    if waits_for:
        report["trouble"] = waits_for
    if opening:
        more = f" and {len(opening) - _NAMED_UNITS} more" if len(opening) > _NAMED_UNITS else ""
        report["note"] = f"opening {', '.join(sorted(opening)[:_NAMED_UNITS])}{more}"
    return json.dumps(report | dict(failed))


def waiting_progress(text: str) -> str:
    """Returns the progress of an attempt that has not begun."""
    return json.dumps({"trouble": text})


def paused_progress(lag: int | None, failed: Mapping[str, Any]) -> str:
    return json.dumps(({} if lag is None else {"lag": lag}) | dict(failed))


def instance_progress(units: int, tasks: int, tasks_max: int, waits_for: str) -> str:
    report: dict[str, Any] = {"units": units, "tasks": tasks}
    if tasks_max > units:
        report["note"] = f"tasks.max is {tasks_max}, but there are only {units} units: {tasks} tasks run"
    if waits_for:
        report["trouble"] = waits_for
    return json.dumps(report)
