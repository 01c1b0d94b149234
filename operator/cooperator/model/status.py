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
    """It stops to start anew, or has failed and waits for its next attempt (then with a trace)."""
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    HELD = "HELD"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One status record: ``worker`` says who reported, ``epoch`` under which share, ``at_ms`` when.

    ``next_attempt_ms``: when (ms since the epoch, as ``at_ms``) a RESTARTING task will be started again; 0:
    not known. ``reason``: one word on why it is in that state; usually empty.
    """

    task: TaskId
    state: TaskState
    worker: str
    epoch: Epoch | None = None
    at_ms: int = 0
    trace: str = ""
    progress: str = ""
    reason: str = ""
    next_attempt_ms: int = 0
