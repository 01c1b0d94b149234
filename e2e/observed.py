"""All records that the members of a Worker write about their tasks."""

import threading
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from cooperator.logs import LogsConfig, open_logs
from cooperator.model import TaskId, TaskState, TaskStatus
from e2e.measured import spans


class Observed:
    """Records of ``group_id``'s status log, in order, without those of connectors' instances."""

    def __init__(self, servers: str, group_id: str) -> None:
        self._lock = threading.Lock()
        self._records: list[TaskStatus] = []
        self._logs = open_logs(LogsConfig(servers, group_id))
        self._logs.status.on_change(self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._logs.close()

    @property
    def records(self) -> Sequence[TaskStatus]:
        with self._lock:
            return tuple(self._records)

    def starts(self) -> Counter[TaskId]:
        """Number of starts of each task."""
        return Counter({task: len(incarnations) for task, incarnations in spans(self.records).items()})

    def states(self) -> dict[TaskId, TaskState]:
        """The last reported state of each task."""
        return {record.task: record.state for record in self.records}

    def _take(self, record: TaskStatus) -> None:
        if not record.task.is_instance:
            with self._lock:
                self._records.append(record)
