"""The units of one attempt: their claims and positions in Kafka, and their logs."""

from collections.abc import Mapping

from cooperator.connectors.microbatch.batches import PositionRecord, Stand, UnitOwnership
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.unit_logs import LogUnits, TakeOver
from cooperator.connectors.tablelogs.table_log import TableLogs


class TableUnits(LogUnits):
    """``UnitOwnership`` of units of tables. The id in a position is the position in the table."""

    def __init__(self, inner: UnitOwnership, logs: TableLogs, taken_over: TakeOver) -> None:
        super().__init__(inner, logs, taken_over)
        self._logs = logs

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return self._inner.record(partition, Stand(stand.next, self._logs[partition].at(stand.next)))

    def _begin(self, positions: Mapping[Partition, Stand]) -> None:
        for partition, log in self._logs.logs.items():
            stand = positions.get(partition, Stand(0))
            log.begin(stand.next, stand.topic_id)
