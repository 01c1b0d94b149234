"""Status: a projection for people and scripts. Nobody reads it back to decide."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cooperator.crd.connector import Connector
from cooperator.crd.explain import suggestion
from cooperator.crd.worker import Worker


class Projection(BaseModel):
    """Built in Python by field names, printed in camelCase; never read from a manifest."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Projection):
    """As in Kubernetes' metav1: ``reason`` in CamelCase, ``message`` a sentence with the remedy."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: str = ""


class TaskCounts(Projection):
    """How many tasks (instances not counted) there should be, run, and wait for a lost member's return."""

    desired: int = 0
    running: int = 0
    held: int = 0
    failed: int = 0


class MemberStatus(Projection):
    """One member of the pool. ``phase``: Pending, Running, Draining, Ended."""

    identity: str
    phase: str
    incarnation: str = ""
    tasks: int = 0
    message: str = ""


class HeldTaskStatus(Projection):
    """A task that waits: for whom, until when (RFC 3339), and why."""

    task: str
    identity: str
    until: str
    reason: str


class RebalanceStatus(Projection):
    """The last round: why it was, what it moved, how long it took."""

    generation: int
    at: str
    reason: str = ""
    assigned: int = 0
    revoked: int = 0
    duration_ms: int = 0


class WorkerStatus(Projection):
    observed_generation: int | None = None
    replicas: int = 0
    ready_replicas: int = 0
    tasks: TaskCounts = Field(default_factory=TaskCounts)
    members: tuple[MemberStatus, ...] = ()
    held: tuple[HeldTaskStatus, ...] = ()
    last_rebalance: RebalanceStatus | None = None
    conditions: tuple[Condition, ...] = ()


class TaskStatusEntry(Projection):
    """One task of a connector: its number (-1: the instance), its state as Connect names it, its member.

    ``reason``: of a state, such as PoisonTask or RestartLimit of FAILED. ``next_attempt`` (RFC 3339): when a
    RESTARTING task that has failed is started again.
    """

    id: int
    state: str
    reason: str = ""
    member: str = ""
    trace: str = ""
    progress: str = ""
    next_attempt: str = ""


class ConnectorStatus(Projection):
    observed_generation: int | None = None
    state: str = ""
    tasks: TaskCounts = Field(default_factory=TaskCounts)
    task_statuses: tuple[TaskStatusEntry, ...] = ()
    conditions: tuple[Condition, ...] = ()


def timestamp(now_ms: int) -> str:
    """RFC 3339 in UTC with seconds, as Kubernetes writes times."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_condition(conditions: Iterable[Condition], new: Condition, now_ms: int) -> tuple[Condition, ...]:
    """``conditions`` with the one of ``new``'s type replaced, or added at the end.

    The time of the last transition is that of the last change of ``status``, as in Kubernetes.
    """
    result = list(conditions)
    at = timestamp(now_ms)
    for index, old in enumerate(result):
        if old.type == new.type:
            kept = old.last_transition_time if old.status == new.status else at
            result[index] = new.model_copy(update={"last_transition_time": kept})
            return tuple(result)
    result.append(new.model_copy(update={"last_transition_time": at}))
    return tuple(result)


def worker_found(connector: Connector, workers: Iterable[Worker]) -> Condition:
    """Whether the Worker that a Connector refers to exists: a condition, since it may come later."""
    names = [w.metadata.name for w in workers if w.metadata.namespace == connector.metadata.namespace]
    name = connector.spec.worker_ref.name
    generation = connector.metadata.generation
    if name in names:
        return Condition(
            type="WorkerFound",
            status=ConditionStatus.TRUE,
            reason="WorkerFound",
            observed_generation=generation,
        )
    hint = suggestion(name, names) if names else "there is none yet"
    return Condition(
        type="WorkerFound",
        status=ConditionStatus.FALSE,
        reason="WorkerNotFound",
        message=f"spec.workerRef names the Worker {name!r}, which is not in namespace "
        f"{connector.metadata.namespace!r}: {hint}; the connector starts once that Worker is created",
        observed_generation=generation,
    )
