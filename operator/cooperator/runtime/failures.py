"""Failures of tasks on this member: they are reported with the progress of later attempts."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import TaskId
from cooperator.model.trace import error_of, trimmed

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """``text`` is the last error in one line, without secrets; ``at_ms`` its time since the epoch.

    ``count`` is how many attempts have failed in this process.
    """

    text: str
    at_ms: int
    count: int


class Failures:
    """The failures of all tasks of a process, by task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[TaskId, Failure] = {}

    def add(self, task: TaskId, trace: str, at_ms: int) -> None:
        with self._lock:
            before = self._last.get(task)
            count = before.count + 1 if before else 1
            self._last[task] = Failure(trimmed(error_of(trace), _SHOWN), at_ms, count)

    def of(self, task: TaskId) -> Mapping[str, object]:
        """Returns the report: ``failures`` and ``last_error``; empty if there was no failure."""
        with self._lock:
            last = self._last.get(task)
        if last is None:
            return {}
        return {"failures": last.count, "last_error": {"at_ms": last.at_ms, "text": last.text}}
