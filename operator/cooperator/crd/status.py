"""Status: a projection for people and scripts. Only ``bound_worker`` is read back for decisions.

Lists are capped and texts cut where the models are built: no status is too large to be written.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from cooperator.crd.conditions import Condition
from cooperator.crd.connector import Connector
from cooperator.crd.projection import (
    LISTED,
    JsonPage,
    Page,
    Projection,
    Sentence,
    Time,
    Word,
    most_urgent,
    timestamp,
)
from cooperator.crd.worker import Worker

__all__ = [
    "ConnectorStatus",
    "HeldTaskStatus",
    "MemberStatus",
    "ProtocolStatus",
    "RebalanceStatus",
    "TaskCounts",
    "TaskStatusEntry",
    "WorkerStatus",
    "connector_selector",
    "held_summary",
    "ratio",
    "timestamp",
    "worker_selector",
]

Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
Count = Annotated[int, Field(ge=0)]

_LABEL_LIMIT: Final = 63


class TaskCounts(Projection):
    """Counts of tasks, without instances."""

    desired: Count = Field(default=0, description="number of desired tasks")
    running: Count = Field(default=0, description="number of running tasks")
    held: Count = Field(default=0, description="number of tasks held for a departed member")
    failed: Count = Field(default=0, description="number of failed tasks")


class MemberStatus(Projection):
    """One member of the pool."""

    identity: Word = Field(description="name of the member and of its pod")
    phase: Word = Field(description="Pending, Warming, Running, Stalled, Draining or Ended")
    incarnation: Word = Field(default="", description="incarnation: identifies one run of the member")
    tasks: Count = Field(default=0, description="number of tasks")
    message: Sentence = Field(default="", description="explanation of the phase")
    state: Word = Field(
        default="",
        description=(
            "STABLE, UNREVOKED_TASKS (it is to release tasks) or UNRELEASED_TASKS (others are to release "
            "tasks for it); empty: not known, or tasks are assigned in rounds"
        ),
    )
    epoch: Count | None = Field(
        default=None, description="epoch that the member has reached; absent as for an empty state"
    )
    target_epoch: Count | None = Field(
        default=None, description="epoch at which the member's target last changed; absent likewise"
    )


class ProtocolStatus(Projection):
    """The protocol that the group uses now, as its leader says."""

    name: Word = Field(
        description=(
            "reconciled: tasks are reconciled without rounds; sessioned, compatible or default: they are "
            "assigned in rounds"
        )
    )
    reason: Sentence = Field(
        default="", description="why the group is in rounds; empty: it is not, or leaves them in the next one"
    )
    group_epoch: Count | None = Field(
        default=None, description="number of changes of the group without rounds; absent in rounds"
    )
    assignment_epoch: Count | None = Field(
        default=None, description="group epoch of the newest target; absent in rounds"
    )


class HeldTaskStatus(Projection):
    """A held task."""

    task: Word = Field(description="the task, such as sources-0")
    identity: Word = Field(description="the member that the task is held for")
    until: Time = Field(description="end of the hold, when the task may move")
    reason: Word = Field(description="reason of the hold")


class AdoptedStatus(Projection):
    """A connector of the group that has no Connector resource: it keeps running, and is not deleted."""

    name: Word = Field(description="the connector's name")
    state: Word = Field(description="target state: STARTED, PAUSED or STOPPED")
    tasks: Count = Field(description="number of tasks")


class RebalanceStatus(Projection):
    """The last round, or change without a round, that changed something: its cause, changes and duration."""

    generation: Count = Field(description="the group's generation")
    epoch: Count | None = Field(default=None, description="the group's epoch; absent in rounds")
    at: Time = Field(description="its time")
    reason: Sentence = Field(default="", description="its cause")
    assigned: Count = Field(default=0, description="number of assigned tasks")
    revoked: Count = Field(default=0, description="number of revoked tasks")
    duration_ms: Count = Field(
        default=0,
        description=(
            "time from the cause until all assigned tasks run, including revocations of moved tasks; 0: "
            "not finished, or superseded by a later round"
        ),
    )


class WorkerStatus(Projection):
    """The observed state of a Worker."""

    observed_generation: int | None = Field(
        default=None, description="the generation of the spec that was observed"
    )
    replicas: Count = Field(default=0, description="number of members' pods")
    ready_replicas: Count | None = Field(
        default=None, description="number of members that are in the group and run; absent: not known yet"
    )
    selector: Word = Field(default="", description="the label selector of the members' pods")
    member_summary: Word = Field(
        default="", description="running and desired members, as 2/3; ?/3: not known yet"
    )
    task_summary: Word = Field(default="", description="running and desired tasks, as 5/8; ?: not known yet")
    held_summary: Word = Field(
        default="",
        description="number of held tasks, and the longest remaining hold when this was written: 4, 38s",
    )
    tasks: TaskCounts | None = Field(default=None, description="counts of tasks; absent: not known yet")
    member_count: Count = Field(default=0, description="number of members, including those not listed")
    members: tuple[MemberStatus, ...] = Field(
        default=(),
        max_length=LISTED,
        description="members; if there are more than 100, those that do not run come first",
    )
    held_count: Count = Field(
        default=0, description="number of held tasks and instances, including those not listed"
    )
    held: tuple[HeldTaskStatus, ...] = Field(
        default=(),
        max_length=LISTED,
        description="held tasks; if there are more than 100, the holds that end first",
    )
    adopted_count: Count = Field(
        default=0, description="number of connectors without a resource, including those not listed"
    )
    adopted: tuple[AdoptedStatus, ...] = Field(
        default=(),
        max_length=LISTED,
        description=(
            "connectors of the group without a Connector resource (adopted, or released by deletionPolicy: "
            "Orphan), which keep running"
        ),
    )
    protocol: ProtocolStatus | None = Field(
        default=None, description="the protocol that the group uses now; absent: not known"
    )
    last_rebalance: RebalanceStatus | None = Field(
        default=None, description="the last rebalance of the group"
    )
    conditions: Conditions = Field(default=(), description="conditions, as in Kubernetes")

    @model_validator(mode="before")
    @classmethod
    def _capped(cls, data: dict[str, Any]) -> dict[str, Any]:
        members = tuple(data.get("members", ()))
        held = tuple(data.get("held", ()))
        adopted = tuple(data.get("adopted", ()))
        return {
            **data,
            "members": most_urgent(members, lambda m: (m.phase == "Running", m.identity)),
            "member_count": len(members),
            "held": most_urgent(held, lambda h: (h.until, h.task)),
            "held_count": len(held),
            "adopted": adopted[:LISTED],
            "adopted_count": len(adopted),
        }


class TaskStatusEntry(Projection):
    """One task of a connector."""

    id: Annotated[int, Field(ge=-1)] = Field(description="its number; -1: the connector's instance")
    state: Word = Field(description="RUNNING, FAILED, …, as Kafka Connect names it, or HELD")
    reason: Word = Field(
        default="",
        description="reason of the state, such as PoisonTask, InvalidOption or RestartLimit for FAILED",
    )
    member: Word = Field(default="", description="the member that the task is assigned to")
    trace: Page = Field(default="", description="error that the task failed with")
    progress: JsonPage = Field(default="", description="progress, as JSON")
    lag: Count | None = Field(
        default=None, description="number of source records that are not delivered; absent if unknown"
    )
    rows_per_second: Count | None = Field(
        default=None,
        description=(
            "rows read per second; absent if the task does not run or the rate is older than 30 seconds"
        ),
    )
    state_rows: Count | None = Field(
        default=None,
        description="rows in the state of the task's queries at their newest commits; absent without state",
    )
    state_bytes: Count | None = Field(
        default=None, description="size of that state in bytes, in memory and in files of the store"
    )
    state_commit_ms: Count | None = Field(
        default=None,
        description="duration of that state's newest commit; the longest of several queries",
    )
    reported_at: Word = Field(
        default="", description="time (RFC 3339) of the member's last report, to which the figures refer"
    )
    learning: Sentence = Field(
        default="",
        description="which members learn the task's state: warming on lake-4, 12 MB behind; empty: none",
    )
    last_error: Sentence = Field(default="", description="last error, also when the task runs again")
    next_attempt: Word = Field(
        default="", description="time (RFC 3339) of the next automatic restart; empty: none"
    )


class ConnectorStatus(Projection):
    """The observed state of a Connector."""

    observed_generation: int | None = Field(
        default=None, description="the generation of the spec that was observed"
    )
    state: Word = Field(default="", description="state of the instance, or the reason why there is none")
    bound_worker: Word | None = Field(
        default=None,
        description=(
            "the Worker whose group stores the progress; set before the first task can start; from then on "
            "spec.workerRef and spec.connectorName are immutable"
        ),
    )
    selector: Word = Field(default="", description="a label selector that matches no pod, for autoscalers")
    task_summary: Word = Field(default="", description="running and desired tasks, as 5/8; ?: not known yet")
    held_summary: Word = Field(
        default="",
        description="number of held tasks, and the longest remaining hold when this was written: 4, 38s",
    )
    warming_summary: Word = Field(
        default="",
        description=(
            "a task that a member learns in order to take it over, and the number of others: "
            "orders-2 on lake-4, 12 MB behind, 3 more; empty: none"
        ),
    )
    tasks: TaskCounts | None = Field(default=None, description="counts of tasks; absent: not known yet")
    lag: Count | None = Field(
        default=None,
        description="total lag of all tasks, including those not listed; absent if no task reports one",
    )
    rows_per_second: Count | None = Field(
        default=None, description="total rate of all tasks that report one, including those not listed"
    )
    state_rows: Count | None = Field(
        default=None,
        description="rows in the state of all tasks, including those not listed; absent if no task has state",
    )
    state_bytes: Count | None = Field(default=None, description="size of that state in bytes")
    task_statuses: tuple[TaskStatusEntry, ...] = Field(
        default=(),
        max_length=LISTED,
        description="tasks; if there are more than 100, failed tasks come first, then those that do not run",
    )
    conditions: Conditions = Field(default=(), description="conditions, as in Kubernetes")

    @model_validator(mode="before")
    @classmethod
    def _capped(cls, data: dict[str, Any]) -> dict[str, Any]:
        entries = most_urgent(
            data.get("task_statuses", ()), lambda t: (t.state != "FAILED", t.state == "RUNNING", t.id)
        )
        return {**data, "task_statuses": entries}


def worker_selector(worker: Worker) -> str:
    """Selects the members' pods."""
    return f"cooperator.dev/worker={worker.metadata.name}"


def connector_selector(connector: Connector) -> str:
    """Selects nothing: no pod has this label. Autoscalers require a selector; tasks are no pods."""
    name = connector.metadata.name
    if len(name) > _LABEL_LIMIT:
        mark = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: _LABEL_LIMIT - 9].rstrip('-.')}-{mark}"
    return f"cooperator.dev/connector={name}"


def ratio(is_so: int | None, should: int) -> str:
    """``2/3``; ``?/3`` if the number is not known."""
    return f"{'?' if is_so is None else is_so}/{should}"


def held_summary(until_ms: Iterable[int], now_ms: int) -> str:
    """``4, 38s``: how many tasks wait, and how long until the last of them may move; ``4, due`` once that
    time is over and only proof is missing that their last holder has ended; empty for none."""
    ends = sorted(until_ms)
    if not ends:
        return ""
    left_s = -(-(ends[-1] - now_ms) // 1000)
    return f"{len(ends)}, {_duration(left_s) if left_s > 0 else 'due'}"


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 120:
        return f"{minutes}m{rest}s" if rest and minutes < 10 else f"{minutes}m"
    return f"{minutes // 60}h"
