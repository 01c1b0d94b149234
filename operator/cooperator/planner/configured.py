"""The items that are to run: every connector's instance and its tasks, as sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cooperator.model import INSTANCE, TaskId


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration asks for. Connector instances and tasks are balanced apart (KIP-415)."""

    instances: frozenset[TaskId]
    tasks: frozenset[TaskId]
    all: frozenset[TaskId]


def configured(task_counts: Mapping[str, int]) -> Configured:
    """The items of ``task_counts`` (connector name to its number of tasks, without the instance)."""
    return _configured(tuple(sorted(task_counts.items())))


@lru_cache(maxsize=4)
def _configured(task_counts: tuple[tuple[str, int], ...]) -> Configured:
    # Remembered, since the configuration changes far more rarely than the membership.
    instances = frozenset(TaskId(connector, INSTANCE) for connector, _ in task_counts)
    tasks = frozenset(TaskId(connector, task) for connector, count in task_counts for task in range(count))
    return Configured(instances, tasks, instances | tasks)
