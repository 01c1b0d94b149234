"""A unit's position as Spark keeps it: read, and moved while nothing of the unit runs.

``offsets/<n>`` holds the end of batch n (a line of version, one of metadata, then one for each source),
written before the batch; ``commits/<n>`` says that it is done. A batch in ``offsets`` without a commit is
in flight: Spark runs it again, unless the sink has it already. Its number must not come a second time with
other contents, since sinks skip what they have; and a file sink's log must have no gap. So a position is
moved by replacing the newest entry, never by adding one. Spark takes its next number from there.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cooperator.runtime.fence import DIRECTORY as FENCE
from cooperator.runtime.offsets.entries import OffsetsError
from cooperator.runtime.places import Place, names, put

_VERSION = "v1"
# The least that Spark reads.
_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_COMMIT = '{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True, slots=True)
class UnitLog:
    """What a checkpoint says. ``committed``: the newest batch that is done (-1: none); ``newest``: the
    newest that was begun; ``ends``: of each source, the end of batch ``committed`` as JSON text; ``query``:
    its id."""

    committed: int
    newest: int
    ends: tuple[str, ...]
    query: str


SinkHas = Callable[[str, int], bool | None]
"""Whether batch n of the query of that id is in the sink; None: that cannot be told."""


def read_unit(checkpoint: Place, sink_has: SinkHas) -> UnitLog:
    """A batch in flight that the sink has counts as done. OffsetsError when an entry is of another version
    than this knows, or is not there."""
    committed = max(_batches(checkpoint / "commits"), default=-1)
    newest = max(_batches(checkpoint / "offsets"), default=-1)
    try:
        query = str(json.loads((checkpoint / "metadata").read_text())["id"])
    except FileNotFoundError:
        query = ""
    if newest > committed and sink_has(query, newest):
        committed = newest
    ends = tuple(_lines(checkpoint / "offsets" / str(committed))[1:]) if committed >= 0 else ()
    return UnitLog(committed, newest, ends, query)


def last_end(checkpoint: Place) -> str:
    """The end of the newest batch that the checkpoint has as done; empty: none. Also while the unit runs."""
    committed = max(_batches(checkpoint / "commits"), default=-1)
    try:
        return _lines(checkpoint / "offsets" / str(committed))[1] if committed >= 0 else ""
    except (OffsetsError, IndexError):
        return ""


def settle_in_flight(checkpoint: Place, sink_has: SinkHas) -> UnitLog:
    """The checkpoint without a batch in flight: not begun if the sink lacks it, else done. Where that
    cannot be told its number is used up: what of the batch is there stays, and the unit goes on where it is
    told."""
    log = read_unit(checkpoint, lambda query, batch: False)
    if log.newest > log.committed:
        if sink_has(log.query, log.newest) is False:
            remove(checkpoint / "offsets" / str(log.newest))
        else:
            replace(checkpoint / "commits" / str(log.newest), f"{_VERSION}\n{_COMMIT}")
    return read_unit(checkpoint, lambda query, batch: False)


def move(checkpoint: Place, batch: int, ends: Sequence[str]) -> None:
    """Batch ``batch``, which is done, ends there now: the next one begins there."""
    entry = checkpoint / "offsets" / str(batch)
    metadata = _lines(entry)[0]
    replace(entry, "\n".join([_VERSION, metadata, *ends]))


def begin(checkpoint: Place, end: str) -> None:
    """A first batch, which is done and of which nothing is in the sink: the next one begins at its end."""
    replace(checkpoint / "offsets" / "0", "\n".join([_VERSION, _METADATA, end]))
    replace(checkpoint / "commits" / "0", f"{_VERSION}\n{_COMMIT}")


def unfence(checkpoint: Place) -> None:
    """No attempt holds the unit any more: one that still runs, unknown to anybody, commits nothing."""
    directory = checkpoint / FENCE
    for claim in names(directory):
        (directory / claim).unlink(missing_ok=True)


def replace(entry: Place, text: str) -> None:
    """Puts a file in place, whole, and forgets the checksum of the one before."""
    _forget_checksum(entry)
    put(entry, text.encode())


def remove(entry: Place) -> None:
    entry.unlink(missing_ok=True)
    _forget_checksum(entry)


def _forget_checksum(entry: Place) -> None:
    """Of files only: a store has none."""
    if isinstance(entry, Path):
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def _batches(log: Place) -> list[int]:
    return [int(name) for name in names(log) if name.isdigit()]


def _lines(entry: Place) -> list[str]:
    """The lines after the version."""
    try:
        version, *lines = entry.read_text().split("\n")
    except FileNotFoundError:
        raise OffsetsError(f"{entry} is not there: the checkpoint is damaged; reset the connector") from None
    if version != _VERSION or not lines:
        raise OffsetsError(f"{entry}: version {version!r} is not known; this reads {_VERSION}")
    return lines
