"""A listener that records the events of a runtime."""

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from cooperator.model import TaskId
from tests.harness.support import eventually


def texts_of(report: dict[str, Any]) -> str:
    """What a report says that is waited for."""
    return "; ".join(wait["for"] for wait in report.get("waits", ()))


@dataclass
class Heard:
    """Records every event in order: ``("started", task, attempt)``, …"""

    events: list[tuple[str, TaskId, int]] = field(default_factory=list)
    traces: dict[tuple[TaskId, int], str] = field(default_factory=dict)
    reasons: dict[tuple[TaskId, int], str] = field(default_factory=dict)
    texts: dict[TaskId, str] = field(default_factory=dict)
    configs: dict[str, list[list[dict[str, str]]]] = field(default_factory=dict)
    warmth: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def _hear(self, event: str, task: TaskId, attempt: int) -> None:
        with self.lock:
            self.events.append((event, task, attempt))

    def started(self, task: TaskId, attempt: int) -> None:
        self._hear("started", task, attempt)

    def paused(self, task: TaskId, attempt: int) -> None:
        self._hear("paused", task, attempt)

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._hear("stopped", task, attempt)

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self.traces[task, attempt] = trace
        self.reasons[task, attempt] = reason
        self._hear("failed", task, attempt)

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        self.texts[task] = text

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        self.configs.setdefault(connector, []).append(task_configs)

    def warmed_up(self) -> None:
        with self.lock:
            self.warmth.append("warm")

    def warm_up_failed(self) -> None:
        with self.lock:
            self.warmth.append("failed")

    def of(self, task: TaskId) -> list[tuple[str, int]]:
        """The events of one task: ``[("started", 1), ("stopped", 1)]``."""
        with self.lock:
            return [(event, attempt) for event, other, attempt in self.events if other == task]

    def wait(self, task: TaskId, *expected: tuple[str, int], timeout_s: float = 30) -> None:
        """Waits until the events of the task are exactly these."""

        def is_reported() -> bool:
            heard = self.of(task)
            assert heard == list(expected), f"told of {task}: {heard} {self.traces} {self.texts.get(task)}"
            return True

        eventually(is_reported, timeout_s, f"{task}: {expected}")

    def progress_of(self, task: TaskId) -> dict[str, Any]:
        text = self.texts.get(task)
        return dict(json.loads(text)) if text else {}

    def waits_of(self, task: TaskId) -> str:
        """What the task said last that it waits for; empty for nothing."""
        return texts_of(self.progress_of(task))
