"""A connector's notes in the topic of positions: its layout, and what converters remember of its units."""

from typing import Final

from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.microbatch.claims import NoteKey
from cooperator.connectors.microbatch.kafka_positions import KafkaPositions
from cooperator.connectors.units import Layout

_LAYOUT: Final = "layout"
_TYPES: Final = "types."


def read_layout(positions: KafkaPositions, connector: str, patience: Patience) -> Layout | None:
    """Returns the connector's layout; None when it has none yet."""
    found = positions.note(NoteKey(connector, _LAYOUT), patience)
    return None if found is None else Layout.decode(found)


def settle_layout(positions: KafkaPositions, connector: str, layout: Layout, patience: Patience) -> None:
    """Writes the layout unless there is one. Raises ``OptionError`` when a fixed option has changed."""
    positions.ensure(patience)
    found = read_layout(positions, connector, patience)
    if found is None:
        positions.write_claims([(NoteKey(connector, _LAYOUT).encode(), layout.encode())], patience)
        found = read_layout(positions, connector, patience) or layout
    found.check_fixed(layout.fixed)


class NoteMemory:
    """A note as a converter's memory (see ``connectors.memory``)."""

    def __init__(self, positions: KafkaPositions, connector: str, unit: str, patience: Patience) -> None:
        self._positions = positions
        self._key = NoteKey(connector, f"{_TYPES}{unit}")
        self._patience = patience

    def read(self) -> bytes | None:
        return self._positions.note(self._key, self._patience)

    def write(self, content: bytes) -> None:
        self._positions.write_claims([(self._key.encode(), content)], self._patience)


def forget(positions: KafkaPositions, connector: str, patience: Patience) -> None:
    """Removes all notes of a connector."""
    gone: list[tuple[bytes, bytes | None]] = [
        (key.encode(), None) for key in positions.notes(connector, patience)
    ]
    if gone:
        positions.write_claims(gone, patience)
