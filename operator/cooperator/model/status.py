"""States that members report (Kafka Connect's, extended), and which conditions report a problem."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cooperator.model.ids import Epoch, TaskId

PROGRESS_EVERY_MS: Final = 10_000
"""Minimum interval between statuses of a member that differ in their progress only."""
RATE_VALID_MS: Final = 3 * PROGRESS_EVERY_MS
"""An older rate counts as unknown, since a task that reads would have reported a newer one. A rate of 0
stays valid: the task has reported nothing after it."""
HUNG: Final = "Hung"
"""Reason of a STOPPING task that exceeds its time, and type of the condition that reports it."""
INVALID_OPTION: Final = "InvalidOption"
INVALID_QUERY: Final = "InvalidQuery"
TOPIC_MISCONFIGURED: Final = "TopicMisconfigured"
LASTING_FAILURES: Final = frozenset({INVALID_OPTION, INVALID_QUERY, TOPIC_MISCONFIGURED})
"""Reasons of a FAILED task whose error cannot go away by itself: it is not restarted automatically."""
GROUP_TOO_LARGE: Final = "GroupTooLarge"
"""Reason of an UNASSIGNED task for which the group's record at the broker has no room, and of conditions."""
UNEXPECTED_MEMBER: Final = "UnexpectedMember"
"""Type of the condition that names members of the group that the host does not expect."""
CONSUMER_MISCONFIGURED: Final = "ConsumerMisconfigured"
"""Type of the condition of a stock sink whose consumers stop each other, or cannot start."""
PROBLEMS: Final = frozenset(
    {
        *("Unfenced", HUNG, "EagerProtocol", "UnsignedRequests", "ReplicaFailure"),
        *(UNEXPECTED_MEMBER, CONSUMER_MISCONFIGURED),
    }
)
"""Condition types of a leader or a Worker that are True when something is wrong; all others are True when all
is well."""


class TaskState(StrEnum):
    """The state of a task or a connector instance in the status log."""

    UNASSIGNED = "UNASSIGNED"
    STARTING = "STARTING"
    """Written before the start begins: a task without a status of its member was never started there."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    """The task stops in order to restart, or has failed and waits for its next attempt (with a trace)."""
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    HELD = "HELD"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One status record: ``worker`` reported it, at ``at_ms``, under the assignment of ``epoch``.

    ``next_attempt_ms``: when (ms since the epoch, like ``at_ms``) a RESTARTING task will be started again;
    0: unknown. ``reason``: one word that says why it is in that state; usually empty.
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


def is_amiss(type_: str, status: str) -> bool:
    """Return whether a leader's condition reports a problem. ``status`` is True, False or Unknown."""
    return status != ("False" if type_ in PROBLEMS else "True")
