"""States that members report about what they run (Kafka Connect's names, extended)."""

from dataclasses import dataclass
from enum import StrEnum

from cooperator.model.ids import Epoch, TaskId


class TaskState(StrEnum):
    """The state of a task or a connector instance in the status log."""

    UNASSIGNED = "UNASSIGNED"
    STARTING = "STARTING"
    """Said before the start begins: a task without any word of its member was never started there."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    HELD = "HELD"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One status record: ``worker`` says who reported, ``epoch`` under which share, ``at_ms`` when."""

    task: TaskId
    state: TaskState
    worker: str
    epoch: Epoch | None = None
    at_ms: int = 0
    trace: str = ""
    progress: str = ""
