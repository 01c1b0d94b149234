"""Positions of tables as earlier releases left them, in checkpoints and markers."""

from cooperator.connectors.exactly_once import CheckpointBehind, Marker
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.unit_log import end_of_batch, read_unit
from cooperator.connectors.places import Place
from cooperator.connectors.unit_position import KeptPosition, Stated, begun, refuse_unknown


class TablePosition(KeptPosition):
    """The position in a marker is the end of the newest batch, as the checkpoint has it."""

    def taken(self, checkpoint: Place, batch: int, is_new: bool) -> Stated:
        return Stated(end_of_batch(checkpoint, batch) if batch >= 0 else "")

    def reached(self, checkpoint: Place, batch: int, before: str) -> Stated:
        return Stated(end_of_batch(checkpoint, batch))

    def restore(self, checkpoint: Place, position: str) -> tuple[str, str]:
        return "", position


def told(unit: str, marker: Marker | None, checkpoint: Place) -> str:
    """Returns the position of a unit without changing anything. Raises ``OffsetsError``."""
    if marker is not None and marker.position is not None:
        return marker.position
    if marker is not None:
        try:
            refuse_unknown(marker, begun(checkpoint, marker.batch))
        except CheckpointBehind as error:
            raise OffsetsError(f"unit {unit}: {error}") from None
    found = read_unit(checkpoint, lambda query, batch: marker is not None and marker.has(query, batch))
    return found.ends[0] if found.ends else ""
