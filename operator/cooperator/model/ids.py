"""Identifiers of schedulable items, and of the rounds that assign them."""

from collections.abc import Iterable
from typing import Final, NamedTuple

INSTANCE: Final = -1
"""The task number that stands for the connector instance itself (as in Kafka Connect's wire format)."""


class TaskId(NamedTuple):
    """One schedulable item: task ``task`` of ``connector``, or its instance when ``task`` is -1.

    A named tuple, not a dataclass: plans hash and sort hundreds of thousands of them.
    """

    connector: str
    task: int

    @property
    def is_instance(self) -> bool:
        return self.task == INSTANCE

    def __str__(self) -> str:
        return self.connector if self.task == INSTANCE else f"{self.connector}-{self.task}"


class Epoch(NamedTuple):
    """When an assignment was decided: the leader's term, then the group's generation.

    A generation alone does not order assignments: a group that was empty for long starts again at 1.
    The term only grows; every take-over of the lead adds one (kept in the leader log).
    """

    term: int
    generation: int

    def __str__(self) -> str:
        return f"{self.term}.{self.generation}"


def group_tasks(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """Return the sorted task numbers of each connector: ``{"a": [-1, 0, 1]}``."""
    grouped: dict[str, list[int]] = {}
    for connector, task in sorted(tasks):
        grouped.setdefault(connector, []).append(task)
    return grouped
