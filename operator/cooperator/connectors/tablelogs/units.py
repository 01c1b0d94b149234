"""The units of one attempt: their claims and positions in Kafka, and their logs."""

from collections.abc import Callable, Mapping, Sequence

from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand, UnitOwnership
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.tablelogs.table_log import TableLogs

TakeOver = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns the positions that earlier releases have left of units, and ends their writers for good."""


class TableUnits:
    """``UnitOwnership`` of units whose positions are offsets of their logs.

    The id in a position is the position in the table.
    """

    def __init__(self, inner: UnitOwnership, logs: TableLogs, taken_over: TakeOver) -> None:
        self._inner = inner
        self._logs = logs
        self._taken_over = taken_over
        self._earlier: Mapping[Partition, Stand] | None = None

    def claim(self) -> Owned:
        return self._settled(self._inner.claim())

    def recover(self) -> Owned:
        return self._settled(self._inner.recover())

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return self._inner.record(partition, Stand(stand.next, self._logs[partition].at(stand.next)))

    def _settled(self, owned: Owned) -> Owned:
        if self._earlier is None:
            by_name = {name: each for each, name in self._logs.units.items() if each not in owned.positions}
            found = self._taken_over(list(by_name)) if by_name else {}
            # They count until a batch has committed another one.
            self._earlier = {by_name[name]: Stand(0, position) for name, position in found.items()}
        positions = {**self._earlier, **owned.positions}
        for partition, log in self._logs.logs.items():
            stand = positions.get(partition, Stand(0))
            log.begin(stand.next, stand.topic_id)
        return Owned(positions, owned.session)
