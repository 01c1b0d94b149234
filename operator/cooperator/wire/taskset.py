"""Sets of tasks as runs of numbers, so that 40,000 tasks stay a small record.

A set is a flat list of integers, three per run: index into a table of connector names, first number, count.
Tables and budgets are shared by all sets of one record.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from cooperator.model import TaskId, group_tasks
from cooperator.wire.fields import typed_all
from cooperator.wire.primitives import DecodeError, EncodeError

MAX_TASKS: Final = 500_000
"""Limit for all sets of a record together; needed because a run of any length takes three numbers."""


class TaskSetWriter:
    """Encodes the sets of one record; ``names`` is the table to write with them."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._budget = MAX_TASKS

    @property
    def names(self) -> list[str]:
        return list(self._index)

    def write(self, tasks: Iterable[TaskId]) -> list[int]:
        runs: list[int] = []
        for connector, numbers in group_tasks(tasks).items():
            index = self._index.setdefault(connector, len(self._index))
            self._budget -= len(numbers)
            first = previous = numbers[0]
            for number in numbers[1:]:
                if number != previous + 1:
                    runs += (index, first, previous - first + 1)
                    first = number
                previous = number
            runs += (index, first, previous - first + 1)
        if self._budget < 0:
            raise EncodeError(f"memory: more than {MAX_TASKS} tasks in one record")
        return runs


class TaskSetReader:
    """Decodes the sets of one record, given its table of names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._budget = MAX_TASKS

    def read(self, runs: list[Any], path: str) -> frozenset[TaskId]:
        numbers = typed_all(runs, int, path)
        if len(numbers) % 3:
            raise DecodeError(f"{path}: {len(numbers)} numbers are not runs of three")
        runs_of_three = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        return frozenset(chain.from_iterable(self._run(path, *run) for run in runs_of_three))

    def _run(self, path: str, index: int, first: int, count: int) -> list[TaskId]:
        if not 0 <= index < len(self._names) or first < -1 or count < 1:
            raise DecodeError(f"{path}: no run: {index}, {first}, {count}")
        self._budget -= count
        if self._budget < 0:
            raise DecodeError(f"{path}: more than {MAX_TASKS} tasks in one record")
        name = self._names[index]
        return [TaskId(name, number) for number in range(first, first + count)]
