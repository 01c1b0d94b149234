"""The units of one task, by partitions: what the loop uses of ``OwnedUnits``."""

from collections.abc import Callable, Mapping

from cooperator.connectors.microbatch import kafka_positions
from cooperator.connectors.microbatch.batches import Owned, PositionRecord, Stand
from cooperator.connectors.microbatch.claims import UnitKey
from cooperator.connectors.microbatch.ranges import Partition


class TaskUnits:
    """A connector's units, claimed by ``OwnedUnits``. ``names`` has their names, by partition."""

    def __init__(
        self, connector: str, names: Mapping[Partition, str], units: kafka_positions.OwnedUnits
    ) -> None:
        self._connector = connector
        self._names: Mapping[Partition, str] = names
        self._units = units

    def claim(self) -> Owned:
        return self._owned(self._units.claim)

    def recover(self) -> Owned:
        return self._owned(self._units.recover)

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        unit = UnitKey(self._connector, self._names[partition])
        key, value, number = self._units.record(unit, stand.next, stand.topic_id)
        return PositionRecord(key.decode(), value.decode(), number)

    def _owned(self, call: Callable[[], kafka_positions.Owned]) -> Owned:
        found = call()
        partitions = {name: partition for partition, name in self._names.items()}
        positions = {
            partitions[key.unit]: Stand(position.next, position.topic_id)
            for key, position in found.positions.items()
        }
        return Owned(positions, found.session)
