"""Parts of operations on offsets that classes share whose loops replaced queries or threads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from cooperator.connectors.exactly_once import CheckpointBehind, Marker
from cooperator.connectors.microbatch.claims import Position
from cooperator.connectors.microbatch.earlier import EarlierUnits
from cooperator.connectors.offsets.entries import Entry, OffsetsError
from cooperator.connectors.offsets.sources import About
from cooperator.connectors.position_offsets import PositionTopic

S = TypeVar("S")


def nothing_to_migrate(about: About) -> OffsetsError:
    return OffsetsError(
        f"{about.connector}: the next start takes over the positions of earlier releases, so that there "
        "is nothing to migrate"
    )


@contextmanager
def opened(
    client: Mapping[str, Any], about: About, limit_s: float, make: Callable[[PositionTopic], S]
) -> Iterator[S]:
    """Opens the topic of positions for an operation on a connector's offsets. Raises ``OffsetsError``."""
    with PositionTopic(client, about.group_id, about.connector, limit_s) as topic:
        try:
            yield make(topic)
        except CheckpointBehind as error:
            raise OffsetsError(str(error)) from None


class LoopStore(ABC):
    """The positions of one connector, for one operation; also those that earlier releases have left."""

    def __init__(self, about: About, topic: PositionTopic, earlier: EarlierUnits) -> None:
        self._about = about
        self.topic = topic
        self._earlier = earlier
        self.markers: Mapping[str, Marker] = earlier.markers()
        self._positions: Mapping[str, Position] = topic.stands()

    def units(self) -> list[str]:
        """Returns all units that have begun."""
        places = {place.unit for place in self._about.places}
        return sorted({*self._positions, *self.markers, *places})

    @abstractmethod
    def current(self, units: Sequence[str]) -> dict[str, list[Entry]]:
        """Returns the positions of units. Raises ``OffsetsError``."""

    def current_or_nothing(self, units: Sequence[str]) -> list[Entry]:
        """Returns the positions to forget, which need not be readable."""
        try:
            return [entry for entries in self.current(units).values() for entry in entries]
        except OffsetsError:
            return []

    def _is_of_earlier(self, unit: str) -> bool:
        return unit not in self._positions and self._earlier.is_known(unit, self.markers.get(unit))
