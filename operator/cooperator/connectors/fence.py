"""The fence of a unit: only the newest attempt that claimed it may write.

A unit's fence is a directory beside its checkpoint's logs, with one empty file for each attempt that has
claimed the unit. The names begin with the attempt's epoch (the leader's term, the group's generation) and its
number, so they sort in the order of the attempts, and the last name holds the unit. A claim only adds a file:
two simultaneous claims need no lock, and a late claim of an older epoch changes nothing.

The fence is checked in two places: in the JVM, right before Spark puts a file of a checkpoint or of
``_spark_metadata`` in place (``java/``, ``Fence``), and by sinks that commit from Python, right before they
do. A frozen process that wakes up finds the claim of its successor there. An attempt whose own claim is gone
(the connector was reset) holds nothing.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cooperator.connectors.places import Place, create, names
from cooperator.model import Epoch

DIRECTORY = "fence"
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_OWNER_LIMIT = 120  # a file's name may have 255 bytes
_LAST = "9" * 12


class Fenced(Exception):
    """A newer attempt holds the unit, so this one must not write."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A claim of one attempt. ``directory`` holds the unit's claims; ``claim`` is this one's name in it.

    Claims of one unit compare in the order of their attempts.
    """

    directory: Place
    claim: str

    def check(self) -> None:
        """Raises ``Fenced`` unless this attempt holds the unit."""
        holder = _holder(self.directory)
        if holder != self.claim:
            raise Fenced(f"{self.directory.parent} is held by {holder or 'no attempt'}, not by {self.claim}")


def claim(checkpoint: Place, epoch: Epoch | None, attempt: int, owner: str) -> Fence:
    """Claims the unit of ``checkpoint``; raises ``Fenced`` when an attempt of a newer epoch holds it.

    ``owner`` names the attempt for users. Without an ``epoch`` (a runtime that no group drives) the last
    attempt to claim holds the unit. Earlier claims are removed.
    """
    directory = _directory(checkpoint)
    before = _holder(directory)
    if epoch is None:
        term, generation, last = map(int, before.split("-")[:3]) if before else (0, 0, 0)
        attempt = last if before.endswith(_short(owner)) else last + 1
        epoch = Epoch(term, generation)
    name = f"{max(epoch.term, 0):012}-{max(epoch.generation, 0):012}-{attempt:012}-{_short(owner)}"
    if before > name:
        raise Fenced(
            f"{checkpoint} is held by {before}, whose epoch is newer than {epoch}. If the group's topics "
            "were deleted, so that epochs restarted: stop the connector and reset or alter its offsets, or "
            f"remove {directory} while nothing of the connector runs"
        )
    _write(directory, name)
    fence = Fence(directory, name)
    fence.check()
    for older in names(directory):
        if older < name:
            (directory / older).unlink(missing_ok=True)
    return fence


def close(checkpoint: Place, owner: str) -> None:
    """Makes a claim that is newer than that of any attempt, so that none can hold the unit."""
    _write(_directory(checkpoint), f"{_LAST}-{_LAST}-{_LAST}-{_short(owner)}")


def _directory(checkpoint: Place) -> Place:
    directory = checkpoint / DIRECTORY
    if isinstance(directory, Path):
        directory.mkdir(parents=True, exist_ok=True)
    return directory


def _write(directory: Place, name: str) -> None:
    if isinstance(directory, Path):
        (directory / name).touch()
        _sync(directory)
    else:
        create(directory / name, b"")


def _holder(directory: Place) -> str:
    return max(names(directory), default="")


def _short(owner: str) -> str:
    return _UNSAFE.sub("_", owner)[-_OWNER_LIMIT:]


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
