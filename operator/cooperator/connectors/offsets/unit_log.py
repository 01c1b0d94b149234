"""A unit's position as Spark keeps it: read, and moved while nothing of the unit runs.

``offsets/<n>`` holds the end of batch n (a line of version, one of metadata, then one for each source),
written before the batch; ``commits/<n>`` says that it is done. A batch in ``offsets`` without a commit is in
flight: Spark runs it again, unless the sink has it already. Its number must not be reused with other
contents, since sinks skip the batches they have; and a file sink's log must have no gap. So a position is
moved by replacing the newest entry, never by adding one. Spark derives its next number from that entry.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cooperator.connectors.fence import DIRECTORY as FENCE
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.places import Place, create, names, put

_VERSION = "v1"
WITH_STATE = 2
"""The version of a commit that names the files of the state: Spark's state checkpoint format 2."""
_CONTENT_BYTES = 1_000
# The minimum that Spark accepts.
_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_COMMIT = '{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True, slots=True)
class UnitLog:
    """The state of a checkpoint.

    ``committed`` is the newest finished batch (-1: none), ``newest`` the newest batch that was begun.
    ``ends`` holds the end of batch ``committed`` for each source, as JSON text. ``query`` is the query's id.
    """

    committed: int
    newest: int
    ends: tuple[str, ...]
    query: str


SinkHas = Callable[[str, int], bool | None]
"""Whether batch n of the query of that id is in the sink; None: unknown."""


def read_unit(checkpoint: Place, sink_has: SinkHas) -> UnitLog:
    """Reads a checkpoint; a batch in flight that the sink has counts as done.

    Raises ``OffsetsError`` when an entry is missing or has an unknown version.
    """
    committed, newest = reached(checkpoint)
    query = query_of(checkpoint)
    if newest > committed and sink_has(query, newest):
        committed = newest
    ends = tuple(_lines(checkpoint / "offsets" / str(committed))[1:]) if committed >= 0 else ()
    return UnitLog(committed, newest, ends, query)


def reached(checkpoint: Place) -> tuple[int, int]:
    """Returns the newest finished batch, and the newest batch that was begun (-1: none)."""
    # The order matters: a batch that finishes in between has been begun.
    committed = finished(checkpoint)
    return committed, max(_batches(checkpoint / "offsets"), default=-1)


def finished(checkpoint: Place) -> int:
    """Returns the newest finished batch (-1: none)."""
    return max(_batches(checkpoint / "commits"), default=-1)


def commit_version(checkpoint: Place) -> int | None:
    """Returns the version of the newest finished batch's entry; None if there is no such batch."""
    committed, _ = reached(checkpoint)
    if committed < 0:
        return None
    version = (checkpoint / "commits" / str(committed)).read_text().partition("\n")[0]
    number = version.removeprefix("v")
    if not number.isdigit():
        raise OffsetsError(f"{checkpoint / 'commits' / str(committed)}: unknown version {version!r}")
    return int(number)


def recorded_settings(checkpoint: Place) -> Mapping[str, str]:
    """Returns Spark's settings that the newest begun batch has fixed for the checkpoint."""
    _, newest = reached(checkpoint)
    if newest < 0:
        return {}
    found: Mapping[str, str] = json.loads(_lines(checkpoint / "offsets" / str(newest))[0]).get("conf", {})
    return found


def record_setting(checkpoint: Place, name: str, value: str) -> None:
    """Replaces a setting that the newest begun batch has recorded: the next attempt restores this one.

    Only the holder of the unit may call it, while no query runs.
    """
    _, newest = reached(checkpoint)
    entry = checkpoint / "offsets" / str(newest)
    metadata, *ends = _lines(entry)
    content = json.loads(metadata)
    content["conf"] = {**content.get("conf", {}), name: value}
    replace(entry, "\n".join([_VERSION, json.dumps(content, separators=(",", ":")), *ends]))


def query_of(checkpoint: Place) -> str:
    """Returns the id of the checkpoint's query; empty if it has none yet."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except FileNotFoundError:
        return ""


def content_of(checkpoint: Place, batch: int) -> str:
    """Returns the identity of a begun batch apart from its number: its planning time and end offsets.

    Spark plans a batch again under the same number only if an older copy of its checkpoint was restored.
    """
    metadata, *ends = _lines(checkpoint / "offsets" / str(batch))
    text = f"{json.loads(metadata).get('batchTimestampMs', 0)} {' '.join(ends)}"
    if len(text) <= _CONTENT_BYTES:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def end_of_batch(checkpoint: Place, batch: int) -> str:
    """Returns where a begun batch of a single source ends; raises ``OffsetsError`` if it is not there."""
    ends = _lines(checkpoint / "offsets" / str(batch))[1:]
    return ends[0] if ends else ""


def last_end(checkpoint: Place) -> str:
    """Returns the end of the newest finished batch; empty: none. The unit may be running."""
    committed = finished(checkpoint)
    try:
        return _lines(checkpoint / "offsets" / str(committed))[1] if committed >= 0 else ""
    except (OffsetsError, IndexError):
        return ""


def settle_in_flight(checkpoint: Place, sink_has: SinkHas) -> UnitLog:
    """Settles a batch in flight: it is removed if the sink lacks it, and otherwise marked as done.

    If the sink cannot tell, its number is used up: rows of the batch that are there stay, and the unit
    continues where it is moved to.
    """
    log = read_unit(checkpoint, lambda query, batch: False)
    if log.newest > log.committed:
        if sink_has(log.query, log.newest) is False:
            remove(checkpoint / "offsets" / str(log.newest))
        elif commit_version(checkpoint) == WITH_STATE:
            raise OffsetsError(
                f"{checkpoint}: batch {log.newest} was in flight when the unit stopped, and only Spark can "
                "finish a batch with state; resume the connector until the batch is done, and stop it again"
            )
        else:
            replace(checkpoint / "commits" / str(log.newest), f"{_VERSION}\n{_COMMIT}")
    return read_unit(checkpoint, lambda query, batch: False)


def move(checkpoint: Place, batch: int, ends: Sequence[str]) -> None:
    """Moves the end of the finished batch ``batch``: the next one begins there."""
    entry = checkpoint / "offsets" / str(batch)
    metadata = _lines(entry)[0]
    replace(entry, "\n".join([_VERSION, metadata, *ends]))


def rebuild(
    checkpoint: Place,
    query: str,
    batch: int,
    restore: Callable[[], tuple[str, str]],
    check: Callable[[], None],
) -> None:
    """Replaces all that the checkpoint says: ``batch`` of ``query`` is finished, and the next one follows.

    ``restore`` writes the source's own log, and returns the ends of the batch before that one, and of it.
    The checkpoint has no query from the first step to the last one, so that an interrupted rebuild can be
    told from a finished one. ``check`` raises once this attempt does not hold the unit.
    """
    check()
    remove(checkpoint / "metadata")
    for log in ("commits", "offsets"):
        for entry in names(checkpoint / log):
            if entry.isdigit():
                remove(checkpoint / log / entry)
    check()
    before, end = restore()
    for number, ends in ((batch - 1, before), (batch, end)):
        check()
        replace(checkpoint / "offsets" / str(number), "\n".join([_VERSION, _METADATA, ends]))
    check()
    replace(checkpoint / "commits" / str(batch), f"{_VERSION}\n{_COMMIT}")
    create(checkpoint / "metadata", json.dumps({"id": query}).encode(), check)


def unfence(checkpoint: Place) -> None:
    """Removes all claims on the unit: an undetected attempt that still runs commits nothing."""
    directory = checkpoint / FENCE
    for claim in names(directory):
        (directory / claim).unlink(missing_ok=True)


def replace(entry: Place, text: str) -> None:
    """Writes a file atomically, and removes the checksum of the previous one."""
    _forget_checksum(entry)
    put(entry, text.encode())


def remove(entry: Place) -> None:
    entry.unlink(missing_ok=True)
    _forget_checksum(entry)


def _forget_checksum(entry: Place) -> None:
    """Removes the checksum of a file; a store has none."""
    if isinstance(entry, Path):
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def _batches(log: Place) -> list[int]:
    return [int(name) for name in names(log) if name.isdigit()]


def _lines(entry: Place) -> list[str]:
    """Returns the lines after the version."""
    try:
        version, *lines = entry.read_text().split("\n")
    except FileNotFoundError:
        raise OffsetsError(f"{entry} is missing: the checkpoint is damaged; reset the connector") from None
    if version != _VERSION or not lines:
        raise OffsetsError(f"{entry}: unknown version {version!r}; only {_VERSION} is supported")
    return lines
