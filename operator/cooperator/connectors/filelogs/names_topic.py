"""The topic ``<group>-files`` on a cluster."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import TopicPartition

from cooperator.connectors.file_positions import FILES_CONFIG
from cooperator.connectors.filelogs.names import NamesRead
from cooperator.connectors.kafka_log import (
    MARKER_CONFIG,
    Patience,
    ensure_unit_topic,
    latest_values,
    partition_of,
)


class KafkaNames:
    """The names that a connector's units have read."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group_id: str,
        connector: str,
        patience: Patience,
        below: Callable[[str], str],
    ) -> None:
        """``below`` as in ``NamesRead``."""
        self._client = client
        self._group_id = group_id
        self._connector = connector
        self._patience = patience
        self._below = below

    @property
    def topic(self) -> str:
        return f"{self._group_id}-files"

    def ensure(self) -> None:
        """Creates the topics that batches write to. Raises ``TopicMisconfigured``."""
        ensure_unit_topic(self._client, self.topic, FILES_CONFIG, self._patience)
        ensure_unit_topic(self._client, f"{self._group_id}-batches", MARKER_CONFIG, self._patience)

    def read(self, snapshots: Mapping[str, str]) -> NamesRead:
        """Returns the names in these snapshots, by unit."""
        found = NamesRead(snapshots, self._below)
        for key, value in self._values(snapshots, found.is_wanted).items():
            found.add(key, value)
        return found

    def values(self, units: Collection[str]) -> dict[bytes, bytes]:
        """Returns the records of units."""
        prefixes = tuple(f"{self._connector}/{unit}/".encode() for unit in units)
        return self._values(units, lambda key: key.startswith(prefixes))

    def _values(self, units: Collection[str], is_wanted: Callable[[bytes], bool]) -> dict[bytes, bytes]:
        places = {self.place(unit) for unit in units}
        if not places:
            return {}
        reader = f"{self._group_id}-units/{self._connector}"
        each = [place for _, place in sorted((place.partition, place) for place in places)]
        return latest_values(self._client, reader, each, is_wanted, self._patience)

    def place(self, unit: str) -> TopicPartition:
        """Returns the partition with the names of a unit."""
        return partition_of(self.topic, f"{self._connector}/{unit}".encode())
