"""Status: a projection for people and scripts. Only ``bound_worker`` is read back for decisions.

Lists are capped and texts cut where the models are built: no status is too large to be written.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from cooperator.crd.conditions import Condition
from cooperator.crd.connector import Connector
from cooperator.crd.projection import LISTED, Page, Projection, Sentence, Time, Word, most_urgent, timestamp
from cooperator.crd.worker import Worker

__all__ = [
    "ConnectorStatus",
    "HeldTaskStatus",
    "MemberStatus",
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
    """How many tasks (instances not counted) there should be, run, and wait for a lost member's return."""

    desired: Count = Field(default=0, description="how many there should be")
    running: Count = Field(default=0, description="how many run")
    held: Count = Field(default=0, description="how many wait for a member to come back")
    failed: Count = Field(default=0, description="how many have failed")


class MemberStatus(Projection):
    """One member of the pool."""

    identity: Word = Field(description="its name, which is its pod's")
    phase: Word = Field(description="Pending, Warming, Running, Stalled, Draining or Ended")
    incarnation: Word = Field(default="", description="names this life of it")
    tasks: Count = Field(default=0, description="how many tasks it has")
    message: Sentence = Field(default="", description="what is the matter with it")


class HeldTaskStatus(Projection):
    """A task that waits."""

    task: Word = Field(description="the task, such as sources-0")
    identity: Word = Field(description="the member whose return it waits for")
    until: Time = Field(description="when it goes elsewhere")
    reason: Word = Field(description="why it waits")


class AdoptedStatus(Projection):
    """A connector of the group that has no Connector resource: it runs on as it did, and is not deleted."""

    name: Word = Field(description="the connector's name")
    state: Word = Field(description="STARTED, PAUSED or STOPPED, as its configuration says")
    tasks: Count = Field(description="how many tasks it has")


class RebalanceStatus(Projection):
    """The last round that changed something: why it was, what it changed, how long it took."""

    generation: Count = Field(description="the group's generation")
    at: Time = Field(description="when it was")
    reason: Sentence = Field(default="", description="why it was")
    assigned: Count = Field(default=0, description="how many tasks were given to members")
    revoked: Count = Field(default=0, description="how many tasks were taken from members")
    duration_ms: Count = Field(
        default=0,
        description="from when its cause was known until all that it assigned had begun to run; of a move "
        "the revocation counts, too; 0: not yet, or a later round went before it",
    )


class WorkerStatus(Projection):
    """How a Worker is."""

    observed_generation: int | None = Field(
        default=None, description="the generation of the spec that this status is about"
    )
    replicas: Count = Field(default=0, description="how many members' pods there are")
    ready_replicas: Count = Field(default=0, description="how many members are in the group and run")
    selector: Word = Field(default="", description="the label selector of the members' pods")
    member_summary: Word = Field(default="", description="members that run of those there should be, as 2/3")
    task_summary: Word = Field(default="", description="tasks that run of those there should be, as 5/8")
    held_summary: Word = Field(
        default="", description="how many tasks wait, and how long at most from when this was written: 4, 38s"
    )
    tasks: TaskCounts = Field(default_factory=TaskCounts, description="its tasks, counted")
    member_count: Count = Field(default=0, description="how many members there are, listed or not")
    members: tuple[MemberStatus, ...] = Field(
        default=(), max_length=LISTED, description="its members; of more than 100 those that do not run first"
    )
    held_count: Count = Field(default=0, description="how many tasks and connectors wait, listed or not")
    held: tuple[HeldTaskStatus, ...] = Field(
        default=(), max_length=LISTED, description="tasks that wait; of more than 100 the ones that end first"
    )
    adopted_count: Count = Field(
        default=0, description="how many connectors without a resource there are, listed or not"
    )
    adopted: tuple[AdoptedStatus, ...] = Field(
        default=(),
        max_length=LISTED,
        description="connectors of the group without a Connector (adopted with it, or let go by "
        "deletionPolicy: Orphan): they run on as they did",
    )
    last_rebalance: RebalanceStatus | None = Field(default=None, description="the last round of the group")
    conditions: Conditions = Field(
        default=(), description="what is as it should be and what is not, and since when"
    )

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
    reason: Word = Field(default="", description="of the state, such as PoisonTask or RestartLimit of FAILED")
    member: Word = Field(default="", description="the member that has it")
    trace: Page = Field(default="", description="what it failed with")
    progress: Page = Field(default="", description="how far it is, as JSON")
    lag: Count | None = Field(
        default=None, description="records of its sources that it has not delivered; left out if not known"
    )
    rows_per_second: Count | None = Field(
        default=None,
        description="rows it has read a second of late; left out if it does not run, or if the rate is older "
        "than 30 seconds",
    )
    reported_at: Word = Field(
        default="", description="when (RFC 3339) its member said so last; figures are as of then"
    )
    last_error: Sentence = Field(default="", description="what it failed with last, also if it runs again")
    next_attempt: Word = Field(
        default="", description="when (RFC 3339) a task that has failed is started again; empty: not at all"
    )


class ConnectorStatus(Projection):
    """How a Connector is."""

    observed_generation: int | None = Field(
        default=None, description="the generation of the spec that this status is about"
    )
    state: Word = Field(default="", description="the state of its instance, or why there is none")
    bound_worker: Word | None = Field(
        default=None,
        description="the Worker whose group has its progress; set before its first task can start, and from "
        "then on spec.workerRef cannot be changed",
    )
    selector: Word = Field(default="", description="a label selector that matches no pod, for autoscalers")
    task_summary: Word = Field(default="", description="tasks that run of those there should be, as 5/8")
    held_summary: Word = Field(
        default="", description="how many tasks wait, and how long at most from when this was written: 4, 38s"
    )
    tasks: TaskCounts = Field(default_factory=TaskCounts, description="its tasks, counted")
    lag: Count | None = Field(
        default=None, description="of all its tasks, listed or not; left out if no task tells one"
    )
    rows_per_second: Count | None = Field(
        default=None, description="of all its tasks that tell one, listed or not"
    )
    task_statuses: tuple[TaskStatusEntry, ...] = Field(
        default=(),
        max_length=LISTED,
        description="its tasks; of more than 100 those that have failed first, then those that do not run",
    )
    conditions: Conditions = Field(
        default=(), description="what is as it should be and what is not, and since when"
    )

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


def ratio(is_so: int, should: int) -> str:
    """``2/3``."""
    return f"{is_so}/{should}"


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
