"""The log of one unit: the rows of its table in the order of their positions, as ranges of offsets. Pure.

An offset counts the rows that batches were planned with. It grows with each batch, and says nothing else: the
rows of a batch are those after one position of the table, up to and including another, and each offset at
which a batch begins or ends stands for a position.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cooperator.connectors.microbatch.ranges import Partition


class Bound(NamedTuple):
    """The end of a batch: the position of its last row, and how many rows were found up to it."""

    position: str
    rows: int


class TableLog:
    """A table from the position in the sink to the end of the next batch. Positions are texts."""

    def __init__(self) -> None:
        self._next = 0
        self._position = ""
        self._bounds: dict[int, str] = {}

    @property
    def next(self) -> int:
        """The offset in the sink, as far as it is known here."""
        return self._next

    @property
    def position(self) -> str:
        """The position at ``next``; empty: before the first row."""
        return self._position

    @property
    def end(self) -> int:
        return max(self._bounds, default=self._next)

    def begin(self, offset: int, position: str) -> None:
        """Goes to what the sink has, and forgets what was planned."""
        self._next, self._position, self._bounds = offset, position, {}

    def plan(self, bound: Bound) -> int:
        """Adds the end of a batch from ``next``, and returns its offset; it is greater than ``next``."""
        offset = self._next + max(1, bound.rows)
        self._bounds[offset] = bound.position
        return offset

    def at(self, offset: int) -> str:
        """Returns the position at an offset. Raises ValueError if it is none of a batch that was planned."""
        if offset == self._next:
            return self._position
        if offset not in self._bounds:
            raise ValueError(f"offset {offset} is no end of a batch from {self._next}")
        return self._bounds[offset]

    def reach(self, offset: int) -> None:
        """Notes that the sink has everything before the offset. Raises as ``at`` does."""
        if offset != self._next:
            self.begin(offset, self.at(offset))


class TableLogs:
    """The logs of a task's units, which are tables of these names."""

    def __init__(self, units: Mapping[Partition, str]) -> None:
        self.units = dict(units)
        self.logs = {partition: TableLog() for partition in units}

    def __getitem__(self, partition: Partition) -> TableLog:
        return self.logs[partition]

    def reach(self, positions: Mapping[Partition, int]) -> None:
        for partition, offset in positions.items():
            self.logs[partition].reach(offset)

    def ends(self) -> dict[Partition, int]:
        return {partition: log.end for partition, log in self.logs.items()}
