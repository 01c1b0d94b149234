"""Offsets of connectors that read Kafka and keep their positions with their sink.

Every sink answers and refuses the same requests. A subclass opens its positions, and migrates those of
checkpoints.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Generic, Protocol, TypeVar

from cooperator.connectors.kafka_offsets import KafkaOffsets, entry_at, entry_of, offset_of
from cooperator.connectors.kafka_source import KafkaSourceOptions
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.task import is_earlier
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, altered, changes
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import About, ConnectorOffsets, UnitPlace, Where

K = TypeVar("K", bound=KafkaSourceOptions)


class PositionStore(Protocol):
    """The positions of one connector, for one operation. Methods raise ``OffsetsError``."""

    def positioned(self) -> Mapping[str, int]:
        """Returns the positions of all units that have one."""

    def move(self, offsets: Mapping[str, int | None]) -> None:
        """Sets these positions (None: none), and fences every attempt at their units.

        It does so also where nothing differs: an interrupted operation may have left its claims.
        """

    def forget(self, earlier: Sequence[UnitPlace]) -> None:
        """Forgets everything, and ends the writers of these checkpoints for good."""


class StoredOffsets(ConnectorOffsets[K], Generic[K]):
    """``place`` is where positions are, for users: "in Kafka"."""

    place: ClassVar[str]

    def __init__(self) -> None:
        self._partitions: KafkaOffsets[K] = KafkaOffsets(Sink())

    @abstractmethod
    def opened(self, options: K, about: About) -> AbstractContextManager[PositionStore]:
        """Opens the positions for one operation, in a limited time."""

    def listed(self, options: K, about: About) -> list[Entry]:
        with self.opened(options, about) as store:
            return listed(store)

    def alter(self, options: K, about: About, wanted: Sequence[Entry], *, dry_run: bool) -> list[Change]:
        units = {entry.key: self._partitions.unit_of(options, entry.partition) for entry in wanted}
        self._partitions.check(options, [entry for entry in wanted if entry.offset is not None])
        with self.opened(options, about) as store:
            self._refuse_earlier(about, store)
            current = listed(store)
            found = changes(current, altered(current, wanted))
            if not dry_run:
                store.move({units[entry.key]: offset_of(entry) for entry in wanted})
            return found

    def reset(self, options: K, about: About, where: Where | None, *, dry_run: bool) -> list[Change]:
        with self.opened(options, about) as store:
            current = listed(store)
            after: list[Entry] = []
            if where is not None:
                self._refuse_earlier(about, store)
                after = [entry_at(options, entry, where) for entry in current]
            found = changes(current, after)
            if not dry_run and where is not None:
                unit_of = self._partitions.unit_of
                store.move({unit_of(options, entry.partition): offset_of(entry) for entry in after})
            elif not dry_run:
                store.forget(earlier(about, store))
            return found

    def _refuse_earlier(self, about: About, store: PositionStore) -> None:
        if found := earlier(about, store):
            name = about.connector
            raise OffsetsError(
                f"checkpoint {found[0].checkpoint} has the position of unit {found[0].unit}, which is not "
                f"{self.place} yet; migrate the offsets of {name} first (`kubectl cooperator offsets migrate "
                f"{name}`, `cooperator local offsets migrate {name}`), or reset them, so that it starts as a "
                "new connector"
            )


def listed(store: PositionStore) -> list[Entry]:
    """Returns all positions, in the order of partitions."""
    placed = sorted((Partition.of_unit(unit), at) for unit, at in store.positioned().items())
    return [entry_of(partition.topic, partition.number, offset) for partition, offset in placed]


def earlier(about: About, store: PositionStore) -> list[UnitPlace]:
    """Returns the units whose positions only their checkpoints have."""
    known = store.positioned()
    return [p for p in about.places if p.unit not in known and is_earlier(p.checkpoint)]
