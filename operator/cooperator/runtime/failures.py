"""What tasks failed with on this member: told with their progress when they run again."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import TaskId

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """``text``: the essence of the last error, without secrets. ``at_ms``: since the epoch. ``count``: how
    many attempts have failed in this process."""

    text: str
    at_ms: int
    count: int


class Failures:
    """Of all tasks of a process, by task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[TaskId, Failure] = {}

    def add(self, task: TaskId, trace: str, at_ms: int) -> None:
        with self._lock:
            before = self._last.get(task)
            count = before.count + 1 if before else 1
            self._last[task] = Failure(essence(trace), at_ms, count)

    def of(self, task: TaskId) -> Mapping[str, object]:
        """As it is reported: ``failures`` and ``last_error``; nothing if there was none."""
        with self._lock:
            last = self._last.get(task)
        if last is None:
            return {}
        return {"failures": last.count, "last_error": {"at_ms": last.at_ms, "text": last.text}}


def essence(trace: str) -> str:
    """The line of a traceback that names the error; the first line of any other text."""
    lines = [line for line in trace.splitlines() if line.strip()]
    heads = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call")]
    after = lines[heads[-1] + 1 :] if heads else lines
    named = next((line for line in after if not line[0].isspace()), "")
    return named if len(named) <= _SHOWN else f"{named[: _SHOWN - 1]}…"
