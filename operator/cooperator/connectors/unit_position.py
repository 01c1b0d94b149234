"""The position of a unit whose sink has it in the marker, and whose checkpoint is a cache of it.

When an attempt starts, it compares the two. It keeps a checkpoint that says what the marker says, and builds
any other one anew from the sink: one that is lost, restored from an older copy, or left on a machine to which
the unit returns. A marker of an earlier release has no position; then the checkpoint tells it once.

The id of the query names the line of batches that a checkpoint counts. Each rebuilt checkpoint begins a line
of its own, and a change of offsets does, too; so no other copy can pass for the one that the marker means.
"""

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from cooperator.connectors.exactly_once import CheckpointBehind, Marker, Replaced, UnitWriter
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.unit_log import (
    UnitLog,
    content_of,
    query_of,
    reached,
    read_unit,
    rebuild,
)
from cooperator.connectors.options import OptionError, Options, Problem, option_names
from cooperator.connectors.output_owner import ensure_query
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import Place, names

LEFT_OUT: Final = 3
"""The distance from the last batch of a line to the first one of the next.

An attempt of the earlier line that is still frozen may write the entry of one more batch.
"""


class Stated(NamedTuple):
    """A position for the marker, and the records that the sink keeps for it."""

    position: str
    records: tuple[OutputRecord, ...] = ()


class KeptPosition(ABC):
    """The form in which the connectors of one class keep a unit's position in its sink."""

    @abstractmethod
    def taken(self, checkpoint: Place, batch: int, is_new: bool) -> Stated:
        """Returns the position at the end of a batch by the checkpoint alone (-1: the beginning).

        ``is_new``: the sink has nothing of the unit.
        """

    @abstractmethod
    def reached(self, checkpoint: Place, batch: int, before: str) -> Stated:
        """Returns the position at the end of a batch that began at the position ``before``."""

    @abstractmethod
    def restore(self, checkpoint: Place, position: str) -> tuple[str, str]:
        """Rebuilds the source's own log in the checkpoint, where it has one.

        Returns the ends of two batches, as in ``offsets``: the finished one at the position comes second.
        """

    def is_whole(self, checkpoint: Place, newest: int) -> bool:
        """Whether the source's own log reaches the end of this batch."""
        return True


class CheckpointUse(Enum):
    KEEP = auto()
    """The checkpoint says what the marker says."""
    TAKE_OVER = auto()
    """The sink does not have the position yet: it is that of the checkpoint."""
    REBUILD = auto()
    """The checkpoint is built anew from the sink."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The state of a checkpoint.

    ``newest`` is the newest batch that was begun, ``committed`` the newest finished one (-1: none).
    ``content`` is that of the marker's batch (empty: it is not there). ``is_whole``: no file that a start
    needs is missing.
    """

    query: str = ""
    committed: int = -1
    newest: int = -1
    content: str = ""
    is_whole: bool = True


def decide(marker: Marker, found: Begun) -> CheckpointUse:
    """Returns what a starting attempt does with a checkpoint, given the marker that it has claimed.

    Raises ``CheckpointBehind`` if neither of them tells the position.
    """
    if marker.position is None:
        refuse_unknown(marker, found)
        return CheckpointUse.TAKE_OVER
    if found.query != marker.query or not found.is_whole:
        return CheckpointUse.REBUILD
    ahead = found.newest - marker.batch
    if ahead not in (0, 1) or (ahead == 1 and found.committed != marker.batch):
        return CheckpointUse.REBUILD
    if marker.batch < 0 or found.content == marker.content:
        return CheckpointUse.KEEP
    # An earlier release changes offsets in the checkpoint, and only there.
    return CheckpointUse.TAKE_OVER if found.committed == marker.batch else CheckpointUse.REBUILD


def refuse_unknown(marker: Marker, found: Begun) -> None:
    """Raises ``CheckpointBehind`` if a checkpoint does not tell the position of a marker without one."""
    if marker.batch < 0:
        return
    if found.newest < 0:
        raise marker.behind("has no batch")
    marker.refuse_behind(found.query, found.newest)
    if found.newest > found.committed:
        marker.covers(found.query, found.newest, found.content)


def fixed_options(options: Options) -> str:
    """Returns what identifies the values of the fixed options without telling them, ``name=hash`` of each."""
    values = {name: str(value) for name, value in _fixed_values(options).items()}
    hashes = {name: hashlib.sha256(value.encode()).hexdigest()[:16] for name, value in values.items()}
    return " ".join(f"{name}={hashed}" for name, hashed in sorted(hashes.items()))


def check_fixed(marker: Marker, options: Options) -> None:
    """Raises ``OptionError`` when a fixed option is not what it was at the marker's position.

    The layout beside the checkpoints tells the same, with the value of before, as long as it is not lost.
    """
    if marker.position is None:
        return
    before, now = (
        dict(each.split("=") for each in text.split()) for text in (marker.fixed, fixed_options(options))
    )
    remedy = "change it back, or stop the connector and reset its offsets (it then starts over)"
    problem = "is fixed: it had another value when the connector was created"
    values = _fixed_values(options)
    changed = [
        Problem(name, str(values[name]), problem, remedy)
        for name, hashed in now.items()
        if before.get(name, hashed) != hashed
    ]
    if changed:
        raise OptionError(changed)


def _fixed_values(options: Options) -> dict[str, object]:
    kept = option_names(type(options), "fixed")
    return {
        name: getattr(options, field)
        for field, info in type(options).model_fields.items()
        if (name := info.alias or field) in kept
    }


def read_known(unit: str, marker: Marker | None, checkpoint: Place) -> UnitLog:
    """Reads the checkpoint of a unit whose marker has no position. Raises ``OffsetsError``."""
    if marker is not None:
        try:
            refuse_unknown(marker, begun(checkpoint, marker.batch))
        except CheckpointBehind as error:
            raise OffsetsError(f"unit {unit}: {error}") from None
    return read_unit(checkpoint, lambda query, batch: marker is not None and marker.has(query, batch))


def begun(checkpoint: Place, batch: int, kept: KeptPosition | None = None) -> Begun:
    """Reads a checkpoint; ``batch`` is the marker's. Without ``kept``, the source's own log is not read."""
    committed, newest = reached(checkpoint)
    entries = set(names(checkpoint / "offsets"))
    return Begun(
        query=query_of(checkpoint),
        committed=committed,
        newest=newest,
        content=content_of(checkpoint, batch) if str(batch) in entries else "",
        is_whole=newest < 0
        or (
            (newest == 0 or str(newest - 1) in entries)
            and (kept is None or kept.is_whole(checkpoint, newest))
        ),
    )


def settle(
    writer: UnitWriter,
    marker: Marker,
    checkpoint: Place,
    check: Callable[[], None],
    kept: KeptPosition,
    has_state: bool = False,
) -> None:
    """Makes checkpoint and marker agree, before anything is planned.

    It may end at any point, and be repeated. ``marker`` is the one that ``writer`` has claimed; ``check``
    raises once this attempt does not hold the unit. ``has_state``: the checkpoint has state of the query,
    which nothing can rebuild. Raises ``CheckpointBehind``.
    """
    found = begun(checkpoint, marker.batch, kept)
    step = decide(marker, found)
    if step is CheckpointUse.KEEP:
        return
    if step is CheckpointUse.TAKE_OVER:
        _take_over(writer, marker, found, checkpoint, check, kept)
        return
    if has_state:
        raise marker.behind("is another one, and the state of the SELECT is lost with it")
    query, batch = str(uuid.uuid4()), max(marker.batch, found.newest) + LEFT_OUT
    position = marker.position or ""
    rebuild(checkpoint, query, batch, lambda: kept.restore(checkpoint, position), check)
    # Until the marker names this line, the next attempt builds another one.
    writer.state(query, batch, content_of(checkpoint, batch), position)


def told_position(writer: UnitWriter, marker: Marker, checkpoint: Place, kept: KeptPosition) -> str:
    """Returns the position of a unit whose checkpoint is needed for the last time: it is in the marker then.

    ``marker`` is the one that ``writer`` has claimed. Raises ``CheckpointBehind``.
    """
    found = begun(checkpoint, marker.batch, kept)
    if decide(marker, found) is CheckpointUse.TAKE_OVER:
        _take_over(writer, marker, found, checkpoint, lambda: None, kept)
    return writer.position or ""


def _take_over(
    writer: UnitWriter,
    marker: Marker,
    found: Begun,
    checkpoint: Place,
    check: Callable[[], None],
    kept: KeptPosition,
) -> None:
    query, batch = ensure_query(checkpoint, check), found.committed
    if query == marker.query:
        # The sink may have the batch that was in flight.
        batch = max(batch, marker.batch)
    content = content_of(checkpoint, batch) if batch >= 0 else ""
    stated = kept.taken(checkpoint, batch, is_new=batch < 0 and marker.batch < 0)
    writer.state(query, batch, content, stated.position, lambda: stated.records)


def move(writer: UnitWriter, seen: Marker, checkpoint: Place, stated: Stated) -> None:
    """Commits another position for a unit, of which nothing should run: an attempt that does is replaced.

    It belongs to a line that no checkpoint has, so that the next attempt rebuilds its own. ``writer`` has no
    claim, so that every attempt is newer than it, also after epochs have begun anew. Raises ``Replaced`` if
    the position is not that of the marker ``seen`` any more.
    """
    found = writer.claim()
    if (found.query, found.batch, found.position) != (seen.query, seen.batch, seen.position):
        raise Replaced(f"an attempt has written batch {found.batch} of the unit meanwhile")
    batch = max(found.batch, reached(checkpoint)[1])
    writer.state(str(uuid.uuid4()), batch, "", stated.position, lambda: stated.records)
