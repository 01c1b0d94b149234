"""The units of one attempt: their claims and positions in Kafka, and the names of what they have read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cooperator.connectors.file_positions import new_snapshot
from cooperator.connectors.filelogs.file_log import FileLog, FileLogs, LogStand
from cooperator.connectors.filelogs.listing import Listing
from cooperator.connectors.filelogs.names import NamesRead
from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand, UnitOwnership
from cooperator.connectors.microbatch.ranges import Partition


class NamesTopic(Protocol):
    """The names of files in the sink. Methods may wait for a broker, and raise ``Cancelled``."""

    def ensure(self) -> None:
        """Creates what batches write to."""

    def read(self, snapshots: Mapping[str, str]) -> NamesRead:
        """Returns the names in these snapshots, by unit."""


TakeOver = Callable[[Sequence[str]], Mapping[str, Stand]]
"""Returns the positions that earlier releases have left of units, and ends their writers for good."""


class NamedUnits:
    """``UnitOwnership`` of units whose positions are offsets of their logs.

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
        self._inner = inner
        self._logs = logs
        self._listing = listing
        self._names = names
        self._taken_over = taken_over
        self._new_id = new_id
        self._earlier: Mapping[Partition, Stand] | None = None

    def claim(self) -> Owned:
        self._names.ensure()
        return self._settled(self._inner.claim())

    def recover(self) -> Owned:
        return self._settled(self._inner.recover())

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return self._inner.record(partition, Stand(stand.next, self._logs[partition].snapshot))

    def _settled(self, owned: Owned) -> Owned:
        positions, units = dict(owned.positions), self._logs.units
        if self._earlier is None:
            missing = [unit for partition, unit in units.items() if partition not in positions]
            by_unit = {unit: partition for partition, unit in units.items()}
            found = self._taken_over(missing) if missing else {}
            # They count until a batch has committed another one.
            self._earlier = {by_unit[unit]: stand for unit, stand in found.items()}
        positions = {**self._earlier, **positions}
        if not self._goes_on(positions):
            self._begin(positions)
        return Owned(positions, owned.session)

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

    def _begin(self, positions: Mapping[Partition, Stand]) -> None:
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
