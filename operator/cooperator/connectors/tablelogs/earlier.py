"""Positions of tables as earlier releases left them, in checkpoints and markers."""

from cooperator.connectors.exactly_once import Marker
from cooperator.connectors.offsets.unit_log import end_of_batch
from cooperator.connectors.places import Place
from cooperator.connectors.unit_position import KeptPosition, Stated, read_known


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
    ends = read_known(unit, marker, checkpoint).ends
    return ends[0] if ends else ""
