"""The units of one attempt: their claims and positions in Kafka, and the names of what they have read."""

from collections.abc import Callable, Mapping
from typing import Protocol

from cooperator.connectors.file_positions import new_snapshot
from cooperator.connectors.filelogs.file_log import FileLog, FileLogs, LogStand
from cooperator.connectors.filelogs.listing import Listing
from cooperator.connectors.filelogs.names import NamesRead
from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand, UnitOwnership
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.unit_logs import LogUnits, TakeOver


class NamesTopic(Protocol):
    """The names of files in the sink. Methods may wait for a broker, and raise ``Cancelled``."""

    def ensure(self) -> None:
        """Creates what batches write to."""

    def read(self, snapshots: Mapping[str, str]) -> NamesRead:
        """Returns the names in these snapshots, by unit."""


class NamedUnits(LogUnits):
    """``UnitOwnership`` of units of files.

    The id in a position is that of the snapshot. After a failure the logs go on if they know the position
    that was found: nobody else has written meanwhile. Otherwise the names are read.
    """

    def __init__(
        self,
        inner: UnitOwnership,
        logs: FileLogs,
        listing: Listing,
        names: NamesTopic,
        taken_over: TakeOver,
        new_id: Callable[[], str] = new_snapshot,
    ) -> None:
        super().__init__(inner, logs, taken_over)
        self._logs = logs
        self._listing = listing
        self._names = names
        self._new_id = new_id

    def claim(self) -> Owned:
        self._names.ensure()
        return super().claim()

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return self._inner.record(partition, Stand(stand.next, self._logs[partition].snapshot))

    def _begin(self, positions: Mapping[Partition, Stand]) -> None:
        if not self._goes_on(positions):
            self._begin_anew(positions)

    def _goes_on(self, positions: Mapping[Partition, Stand]) -> bool:
        """Brings the logs to these positions, and returns True, if they know all of them."""
        logs = self._logs.logs
        if not logs:
            return False
        for partition in self._logs.units:
            stand, each = positions.get(partition, Stand(0, logs[partition].snapshot)), logs[partition]
            if stand.topic_id != each.snapshot or not each.next <= stand.next <= each.end:
                return False
        gone = []
        for partition, each in logs.items():
            each.reach(positions[partition].next if partition in positions else 0)
            gone += each.drop_new()
        self._listing.forget([file.path for file in gone])
        return True

    def _begin_anew(self, positions: Mapping[Partition, Stand]) -> None:
        units = self._logs.units
        snapshots = {units[each]: stand.topic_id for each, stand in positions.items() if stand.next > 0}
        names = self._names.read(snapshots) if snapshots else None
        self._listing.clear()
        for partition, unit in units.items():
            stand = positions.get(partition)
            found = LogStand(stand.topic_id if stand else self._new_id())
            if stand is not None and stand.next > 0 and names is not None:
                found, digests = names.stand(unit, stand.next)
                self._listing.know(digests)
            self._logs.logs[partition] = FileLog(found)
