"""The progress that a task reports: one small JSON object.

Of a task: ``rows_in``, ``rows_out`` (when known) since it was started here, ``rows_per_s`` over the last
interval, ``lag``: how many records its sources have that are not delivered (when known), ``units``: id to
``{"batch", "rows_in"}`` (at most 50; ``more_units`` counts the rest), ``trouble``: what it is waiting for,
and after failures on this member ``failures`` (a number) and ``last_error``: ``{"at_ms", "text"}``. Of one
that is paused: ``lag`` and the last two. Of an instance: ``units``, ``tasks`` (numbers), ``note``,
``trouble``.
"""

import json
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cooperator.runtime.connectors.base import UnitProgress

_SHOWN_UNITS = 50


class Troubles:
    """What the parts of a task are waiting for: each says it, or takes it back with an empty text."""

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
    trouble: str,
    lag: int | None = None,
    failed: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """``lag``: as measured at the source; else it is the sum of what Spark tells, if it does of all units."""
    outs = [unit.rows_out for unit in units.values() if unit.rows_out is not None]
    shown = dict(sorted(units.items())[:_SHOWN_UNITS])
    report: dict[str, Any] = {
        "rows_in": sum(unit.rows_in for unit in units.values()),
        "rows_per_s": round(rows_per_s, 1),
        "units": {name: {"batch": unit.batch, "rows_in": unit.rows_in} for name, unit in shown.items()},
    }
    if outs:
        report["rows_out"] = sum(outs)
    behind = [unit.behind for unit in units.values() if unit.behind is not None]
    if lag is None and behind and len(behind) == len(units):
        lag = sum(behind)
    if lag is not None:
        report["lag"] = lag
    if len(units) > len(shown):
        report["more_units"] = len(units) - len(shown)
    if trouble:
        report["trouble"] = trouble
    return json.dumps(report | dict(failed))


def paused_progress(lag: int | None, failed: Mapping[str, Any]) -> str:
    return json.dumps(({} if lag is None else {"lag": lag}) | dict(failed))


def instance_progress(units: int, tasks: int, tasks_max: int, trouble: str) -> str:
    report: dict[str, Any] = {"units": units, "tasks": tasks}
    if tasks_max > units:
        report["note"] = f"tasks.max is {tasks_max}, the units are {units}: {tasks} tasks run"
    if trouble:
        report["trouble"] = trouble
    return json.dumps(report)
