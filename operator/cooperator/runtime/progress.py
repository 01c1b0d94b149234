"""The progress that a task reports: one small JSON object.

A task reports ``rows_in`` and ``rows_out`` (when known) since it was started here, ``rows_per_s`` over the
last interval, ``lag``: how many records its sources have that are not delivered (when known), ``units``: id
to ``{"batch", "rows_in"}`` (at most 50; ``more_units`` counts the rest), ``waits``: what it waits for
(``model/waits.py``), ``note``: which units are being opened, and after failures on this member ``failures``
(a number) and ``last_error``: ``{"at_ms", "text"}``. A task with state reports ``state_rows``,
``state_bytes``, and ``state_commit_ms``, the longest time of a query's newest commit. A paused task reports
``lag`` and the two about failures. An instance reports ``units``, ``tasks`` (numbers), ``note``, ``waits``.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from cooperator.connectors.base import UnitProgress
from cooperator.model.text import counted, listed
from cooperator.model.waits import Wait, grouped, written

_SHOWN_UNITS = 50
_NAMED_UNITS = 3
SHOWN_AFTER_S = 3.0
OVER_AFTER_S = 3.0


class WaitReasons:
    """The reasons why parts of a task wait: each part sets its text, or clears it with an empty one.

    A pause that is over after ``SHOWN_AFTER_S`` is no wait: batches are repeated, and clients connect anew,
    all the time. A wait that begins again within ``OVER_AFTER_S`` has not ended.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._reasons: dict[tuple[str, str], _Reason] = {}

    def of(self, part: str = "", about: str = "") -> Callable[[str], None]:
        """Returns the function by which a part says what it waits for; an empty ``part``: all of the task.

        A part that may wait for several things at a time has a function ``about`` each.
        """

        def say(text: str) -> None:
            with self._lock:
                before, now_s = self._reasons.get((part, about)), self._clock_s()
                if text and (before is None or before.is_over(now_s)):
                    self._reasons[part, about] = _Reason(text, now_s, int(time.time() * 1000))
                elif text and before is not None:
                    self._reasons[part, about] = replace(before, text=text, until_s=None)
                elif before is not None and before.until_s is None:
                    self._reasons[part, about] = replace(before, until_s=now_s)

        return say

    def shown(self) -> tuple[Wait, ...]:
        """Returns what is waited for now, the longest wait first."""
        now_s = self._clock_s()
        with self._lock:
            reasons = sorted(self._reasons.items())
        return grouped(
            Wait(each.text, each.since_ms, (part,) if part else ())
            for (part, _), each in reasons
            if each.is_shown(now_s)
        )


@dataclass(frozen=True, slots=True)
class _Reason:
    """``since_ms``: since the epoch. ``until_s``: when the text was cleared; None while it is true."""

    text: str
    since_s: float
    since_ms: int
    until_s: float | None = None

    def is_over(self, now_s: float) -> bool:
        return self.until_s is not None and now_s >= self.until_s + OVER_AFTER_S

    def is_shown(self, now_s: float) -> bool:
        until_s = now_s if self.until_s is None else self.until_s
        return not self.is_over(now_s) and until_s >= self.since_s + SHOWN_AFTER_S


def task_progress(
    units: Mapping[str, UnitProgress],
    rows_per_s: float,
    waits: Sequence[Wait] = (),
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
    if waits:
        report["waits"] = written(waits)
    if opening:
        report["note"] = f"opening {listed(sorted(opening), _NAMED_UNITS)}"
    return json.dumps(report | dict(failed))


def waiting_progress(wait: Wait) -> str:
    """Returns the progress of an attempt that has not begun."""
    return json.dumps({"waits": written([wait])})


def paused_progress(lag: int | None, failed: Mapping[str, Any]) -> str:
    return json.dumps(({} if lag is None else {"lag": lag}) | dict(failed))


def instance_progress(units: int, tasks: int, tasks_max: int, waits: Sequence[Wait]) -> str:
    report: dict[str, Any] = {"units": units, "tasks": tasks}
    if tasks_max > units:
        verbs = "is" if units == 1 else "are", "runs" if tasks == 1 else "run"
        report["note"] = (
            f"tasks.max is {tasks_max}, but there {verbs[0]} only {counted(units, 'unit')}: "
            f"{counted(tasks, 'task')} {verbs[1]}"
        )
    if waits:
        report["waits"] = written(waits)
    return json.dumps(report)
