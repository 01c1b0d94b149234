"""Positions of earlier releases: markers in ``<group>-batches``, which a start takes over.

An attempt of an earlier release writes a unit under a transactional id of its own, and continues as long as
its marker names it. So the marker is *closed*: its owner becomes nobody, with a claim that is newer than
that of any attempt, by a producer with that id, in the step that tells the position. From then on, an
attempt of an earlier release, or of a SELECT with state, is refused when it claims the marker, and one that
runs finds another owner.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from cooperator.connectors import fence
from cooperator.connectors.exactly_once import CLOSED, Marker, UnitWriter
from cooperator.connectors.kafka_log import (
    MARKER_CONFIG,
    KafkaLogs,
    Patience,
    ensure_unit_topic,
    latest_markers,
    partition_of,
)
from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import Place, directories
from cooperator.connectors.topics import client_config
from cooperator.connectors.unit_position import KeptPosition, check_fixed, fixed_options, told_position

T = TypeVar("T")

_AT_ONCE: Final = 8
_OWNER: Final = "the loop of a task"


@dataclass(frozen=True, slots=True)
class EarlierUnits:
    """The units of a connector as earlier releases left them.

    ``checkpoint`` returns that of a unit, and ``kept`` the form of its positions.
    """

    options: KafkaSinkOptions
    group_id: str
    connector: str
    patience: Patience
    checkpoint: Callable[[str], Place]
    kept: Callable[[str], KeptPosition]

    def ensure(self) -> None:
        """Creates the topic of markers. Raises ``TopicMisconfigured``."""
        ensure_unit_topic(
            client_config(self.options), f"{self.group_id}-batches", MARKER_CONFIG, self.patience
        )

    def markers(self) -> dict[str, Marker]:
        return latest_markers(client_config(self.options), self.group_id, self.connector, self.patience)

    def taken_over(self, units: Collection[str], markers: Mapping[str, Marker]) -> dict[str, str]:
        """Closes the markers of units, and returns their positions in the form of markers.

        Units that earlier releases never ran are left out. Raises ``CheckpointBehind``, and ``OptionError``
        when a fixed option has changed.
        """

        def one(unit: str) -> str | None:
            marker = markers.get(unit)
            if not self.is_known(unit, marker):
                return None
            if marker is not None and marker.claim == CLOSED and marker.position is not None:
                return marker.position
            with self._closed(unit) as (writer, found):
                check_fixed(found, self.options)
                return told_position(writer, found, self.checkpoint(unit), self.kept(unit))

        found = self._at_once(one, units)
        return {unit: position for unit, position in found.items() if position is not None}

    def close(self, units: Collection[str]) -> None:
        """Closes the markers of units, whatever their positions are."""

        def one(unit: str) -> None:
            with self._closed(unit):
                pass

        self._at_once(one, units)

    def is_known(self, unit: str, marker: Marker | None) -> bool:
        """Whether an earlier release, or a query with state, has run the unit; ``marker`` is the unit's."""
        return marker is not None or "offsets" in directories(self.checkpoint(unit))

    def closing(self, unit: str) -> OutputRecord:
        """Returns the record that is the closed marker of a unit of which nothing was read then."""
        key = f"{self.connector}/{unit}".encode()
        place = partition_of(f"{self.group_id}-batches", key)
        marker = Marker(_OWNER, claim=CLOSED, position="")
        return OutputRecord(key, marker.encode(), place.topic, place.partition)

    def _at_once(self, one: Callable[[str], T], units: Collection[str]) -> dict[str, T]:
        with ThreadPoolExecutor(_AT_ONCE, "earlier") as pool:
            return dict(zip(units, pool.map(one, units), strict=True))

    @contextmanager
    def _closed(self, unit: str) -> Iterator[tuple[UnitWriter, Marker]]:
        """Closes a marker, and yields it with the unit's last writer."""
        checkpoint = self.checkpoint(unit)
        if directories(checkpoint):
            # A writer of then must not commit another batch to the checkpoint while it is read.
            fence.close(checkpoint, "loop")
        logs = KafkaLogs(
            group_id=self.group_id,
            connector=self.connector,
            unit=unit,
            topic="",
            client=client_config(self.options),
            producer={"compression.type": "lz4"},
            transaction_timeout_ms=self.options.transaction_timeout_ms,
            cancelled=self.patience.cancelled,
            say=self.patience.say,
        )
        fixed = fixed_options(self.options)
        writer = UnitWriter(logs, _OWNER, self.patience.cancelled, ClosedClaim(), fixed)
        try:
            yield writer, writer.claim()
        finally:
            writer.close()


class ClosedClaim:
    """A claim that no attempt's is newer than; see ``UnitWriter``."""

    claim = CLOSED

    def check(self) -> None: ...
