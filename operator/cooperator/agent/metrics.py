"""Prometheus metrics of a member: of each task it owns, and of itself.

A task is labelled with its connector and its number (``instance`` for the connector's own), so there are as
many series as owned tasks; a task's series end when it leaves the member. Error texts are in the statuses,
not here.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.leader.endpoint import MetricsPage
from cooperator.model import TaskId
from cooperator.model.status import RATE_VALID_MS
from cooperator.model.waits import read
from cooperator.runtime import RuntimeListener

_LABELS = ("connector", "task")
_OF_NOW: Final = ("rows_per_s", "lag", "waits", "state_rows", "state_bytes", "state_commit_ms")
"""Report fields that describe the moment; the others are counts, which stay true."""


class MetricsListener:
    """A runtime listener that forwards every call and keeps the newest values of each task.

    Rate and lag are dropped when the attempt that reported them ends; a rate that is not renewed expires.
    """

    def __init__(self, listener: RuntimeListener, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: returns seconds."""
        self._listener = listener
        self._clock = clock
        self._lock = threading.Lock()
        self._progress: dict[TaskId, dict[str, Any]] = {}
        self._reported_s: dict[TaskId, float] = {}
        self._starts: dict[TaskId, int] = {}
        self._failures: dict[TaskId, int] = {}
        self._failed_s: dict[TaskId, float] = {}

    def of(self, task: TaskId) -> dict[str, Any]:
        """``starts``, ``failures``, ``failed_s`` and ``waiting_s`` (Unix times of the last failure and of the
        beginning of its wait; 0: none), and the task's progress.
        """
        with self._lock:
            progress = self._progress.get(task, {})
            if progress.get("rows_per_s") and self._clock() > self._reported_s[task] + RATE_VALID_MS / 1000:
                progress = {name: value for name, value in progress.items() if name != "rows_per_s"}
            if "state_commit_ms" in progress:
                progress = {**progress, "state_commit_s": progress["state_commit_ms"] / 1000}
            return {
                **progress,
                "starts": self._starts.get(task, 0),
                "failures": self._failures.get(task, 0),
                "failed_s": self._failed_s.get(task, 0.0),
                "waiting_s": min((wait.since_ms / 1000 for wait in read(progress)), default=0.0),
            }

    def keep(self, tasks: Iterable[TaskId]) -> None:
        """Forget all other tasks."""
        wanted = set(tasks)
        with self._lock:
            for reports in (self._progress, self._reported_s, self._starts, self._failures, self._failed_s):
                for task in reports.keys() - wanted:
                    del reports[task]

    def started(self, task: TaskId, attempt: int) -> None:
        with self._lock:
            self._starts[task] = self._starts.get(task, 0) + 1
        self._listener.started(task, attempt)

    def paused(self, task: TaskId, attempt: int) -> None:
        self._forget_moment(task)
        self._listener.paused(task, attempt)

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._forget_moment(task)
        self._listener.stopped(task, attempt)

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self._forget_moment(task)
        with self._lock:
            self._failures[task] = self._failures.get(task, 0) + 1
            self._failed_s[task] = time.time()
        self._listener.failed(task, attempt, trace, reason)

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        with self._lock:
            self._progress[task] = json.loads(text)
            self._reported_s[task] = self._clock()
        self._listener.progress(task, attempt, text)

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        self._listener.units_changed(connector, task_configs)

    def warmed_up(self) -> None:
        self._listener.warmed_up()

    def warm_up_failed(self) -> None:
        self._listener.warm_up_failed()

    def _forget_moment(self, task: TaskId) -> None:
        with self._lock:
            for name in _OF_NOW:
                self._progress.get(task, {}).pop(name, None)


class MemberMetrics(MetricsPage):
    def __init__(self, supervisor: SynchronizedSupervisor, tally: MetricsListener) -> None:
        self._supervisor = supervisor
        self._tally = tally
        super().__init__()

    def collect(self) -> Iterable[Metric]:
        owned = self._supervisor.phases()
        self._tally.keep(owned)
        yield from _of_tasks({task: (phase, self._tally.of(task)) for task, phase in owned.items()})
        yield from self._of_member(len(owned))

    def _of_member(self, tasks: int) -> Iterable[Metric]:
        report = self._supervisor.report()
        yield _gauge("cooperator_member_tasks", "Tasks and connector instances owned by the member", tasks)
        yield _gauge("cooperator_member_draining", "1 while the member drains", report.draining)
        yield _gauge("cooperator_member_leads", "1 while the member leads its group", self._supervisor.leads)
        memory = "Resident memory of the member's processes, including its JVM"
        yield _gauge("cooperator_member_resident_memory_bytes", memory, _resident_bytes())


def _of_tasks(reports: dict[TaskId, tuple[str, dict[str, Any]]]) -> Iterable[Metric]:
    state = GaugeMetricFamily(
        "cooperator_task_state", "1 for the present state of the task", labels=(*_LABELS, "state")
    )
    gauges = {
        "lag": GaugeMetricFamily(
            "cooperator_task_lag_records", "Source records that the task has not delivered", labels=_LABELS
        ),
        "rows_per_s": GaugeMetricFamily(
            "cooperator_task_rows_in_per_second",
            "Rows read per second, over the last seconds",
            labels=_LABELS,
        ),
        "waiting_s": GaugeMetricFamily(
            "cooperator_task_waiting_since_timestamp_seconds",
            "Unix time since which the task waits for something; 0: it waits for nothing",
            labels=_LABELS,
        ),
        "state_rows": GaugeMetricFamily(
            "cooperator_task_state_rows", "Rows in the state of the task's queries", labels=_LABELS
        ),
        "state_bytes": GaugeMetricFamily(
            "cooperator_task_state_bytes",
            "Size of the state of the task's queries on this member",
            labels=_LABELS,
        ),
        "state_commit_s": GaugeMetricFamily(
            "cooperator_task_state_commit_seconds",
            "Time of the state's newest commit, the longest of the task's queries",
            labels=_LABELS,
        ),
        "failed_s": GaugeMetricFamily(
            "cooperator_task_last_failure_timestamp_seconds",
            "Unix time of the task's last failure; 0: never",
            labels=_LABELS,
        ),
    }
    counters = {
        "rows_in": CounterMetricFamily(
            "cooperator_task_rows_in", "Rows read since the task was started here", labels=_LABELS
        ),
        "rows_out": CounterMetricFamily(
            "cooperator_task_rows_out", "Rows delivered since the task was started here", labels=_LABELS
        ),
        "starts": CounterMetricFamily("cooperator_task_starts", "Starts of the task", labels=_LABELS),
        "failures": CounterMetricFamily("cooperator_task_failures", "Failures of the task", labels=_LABELS),
    }
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {**gauges, **counters}
    for task, (phase, values) in reports.items():
        labels = (task.connector, "instance" if task.is_instance else str(task.task))
        state.add_metric((*labels, phase), 1)
        for name in families.keys() & values.keys():
            families[name].add_metric(labels, values[name])
    return (state, *gauges.values(), *counters.values())


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=float(value))


def _resident_bytes() -> int:
    total = 0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue  # The process has just ended.
    return total
