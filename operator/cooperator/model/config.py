"""The content of the config log, read up to some offset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model.ids import INSTANCE, TaskId
from cooperator.model.restart import without_reserved


class TargetState(StrEnum):
    """A connector's target state (KIP-875: STOPPED has no tasks, PAUSED keeps them assigned)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between members (KIP-507). Its bytes never appear in a log or a repr."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """One connector as committed: its configuration, its tasks' configurations, its target state.

    ``inconsistent``: the committed set of task configurations is incomplete (a compaction race); such
    a connector counts as having no tasks, while its instance is still scheduled.
    ``applied``: the configuration that was in force when its tasks were committed; None before that.
    """

    config: Mapping[str, str]
    target: TargetState = TargetState.STARTED
    tasks: tuple[Mapping[str, str], ...] = ()
    inconsistent: bool = False
    applied: Mapping[str, str] | None = field(default=None, compare=False)

    @property
    def task_count(self) -> int:
        """The number of tasks to schedule now: 0 while the connector is stopped or inconsistent."""
        return 0 if self.inconsistent or self.target is TargetState.STOPPED else len(self.tasks)


@dataclass(frozen=True, slots=True)
class TaskFencing:
    """State of the fencing of producers of a source connector's earlier tasks (KIP-618).

    ``generation`` grows with each commit. ``recorded``: the number of tasks in the last fencing record;
    None if there is no such record. ``pending``: tasks were committed after that record. All of it
    outlives the connector, since tasks of an earlier connector of the same name may still produce.
    """

    generation: int = 0
    recorded: int | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A snapshot of the config log. ``offset``: position after the last record read; -1: nothing read.

    ``former_key``: the session key before the present one, which a reader that is behind still has.
    """

    offset: int = -1
    connectors: Mapping[str, ConnectorConfig] = field(default_factory=dict)
    session_key: SessionKey | None = None
    fencings: Mapping[str, TaskFencing] = field(default_factory=dict, compare=False)
    former_key: SessionKey | None = field(default=None, compare=False)

    def task_counts(self) -> dict[str, int]:
        """Return the number of tasks (without the instance) per connector name."""
        return {name: connector.task_count for name, connector in self.connectors.items()}

    def task_config(self, task: TaskId) -> Mapping[str, str] | None:
        """Return the configuration that a member needs to run ``task``, without the settings reserved for
        the member itself; None when the task is not configured."""
        connector = self.connectors.get(task.connector)
        if connector is None:
            return None
        if task.task == INSTANCE:
            return without_reserved(connector.config)
        if task.task >= connector.task_count:
            return None
        return without_reserved(connector.tasks[task.task])
