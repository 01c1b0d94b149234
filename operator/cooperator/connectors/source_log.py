"""The log of files that Spark's file source has read, in the checkpoint (``sources/0``).

It has a file ``<n>`` for each batch of files, and every tenth is a ``<n>.compact`` with all before it. An end
in ``offsets`` is a number of this log. ``path`` in it is a URI.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.unit_log import end_of_batch, remove, replace
from cooperator.connectors.places import Place, names

_ENTRY: Final = re.compile(r"(\d+)(\.compact)?\Z")


class ReadFile(NamedTuple):
    """A file that was read: its URI, and when it was modified (ms)."""

    uri: str
    modified_ms: int


def end(number: int) -> str:
    """Returns the end of a batch, as in ``offsets``."""
    return json.dumps({"logOffset": number}, separators=(",", ":"))


def number_at(checkpoint: Place, batch: int) -> int:
    """Returns the number of the log at which a batch ends (-1: before its beginning)."""
    found = end_of_batch(checkpoint, batch) if batch >= 0 else ""
    return int(json.loads(found)["logOffset"]) if found else -1


def files_between(checkpoint: Place, after: int, last: int) -> list[ReadFile]:
    """Returns the files in the batches ``after`` + 1 to ``last`` of the log.

    Raises ``OffsetsError`` when a part of the log is missing or has an unknown version.
    """
    log = _log(checkpoint)
    there = {int(found[1]): name for name in names(log) if (found := _ENTRY.match(name)) and not found[2]}
    compact = sorted(
        (int(found[1]), name) for name in names(log) if (found := _ENTRY.match(name)) and found[2]
    )
    result: list[ReadFile] = []
    number = after + 1
    while number <= last:
        whole = [(top, name) for top, name in compact if top >= number]
        if number in there:
            result += (file for _, file in _files(log / there[number]))
            number += 1
        elif whole:
            top, name = whole[0]
            until = min(top, last)
            result += (file for batch, file in _files(log / name, number, until) if number <= batch <= until)
            number = until + 1
        else:
            raise OffsetsError(f"{log / str(number)} is missing: the checkpoint is damaged")
    return result


def is_whole(checkpoint: Place, last: int) -> bool:
    """Whether the log has all batches up to ``last``, and no batch without those before it."""
    found = [match for name in names(_log(checkpoint)) if (match := _ENTRY.match(name))]
    compacted = max((int(match[1]) for match in found if match[2]), default=-1)
    later = {int(match[1]) for match in found if int(match[1]) > compacted}
    top = compacted + len(later)
    return top >= last and later == set(range(compacted + 1, top + 1))


def write(checkpoint: Place, files: Iterable[ReadFile]) -> None:
    """Replaces the log by one whose batch 0 has these files."""
    log = _log(checkpoint)
    lines = (
        json.dumps({"path": file.uri, "timestamp": file.modified_ms, "batchId": 0}, separators=(",", ":"))
        for file in files
    )
    for name in names(log):
        if _ENTRY.match(name) and name != "0":
            remove(log / name)
    replace(log / "0", "\n".join(["v1", *lines]))


def _log(checkpoint: Place) -> Place:
    return checkpoint / "sources" / "0"


def _files(file: Place, first: int = 0, last: int = -1) -> Iterator[tuple[int, ReadFile]]:
    """Yields the files with their batches.

    If ``first`` and ``last`` are one batch, it may leave out those of others.
    """
    version, *lines = file.read_text().split("\n")
    if version != "v1":
        raise OffsetsError(f"{file}: unknown version {version!r}; only v1 is supported")
    if first == last:
        # Of a log of a million files, a batch needs a few: to parse all of them takes seconds.
        lines = [line for line in lines if f'"batchId":{first}' in line] or lines
    for line in lines:
        if line:
            entry = json.loads(line)
            yield int(entry["batchId"]), ReadFile(str(entry["path"]), int(entry["timestamp"]))
