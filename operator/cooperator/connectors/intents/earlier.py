"""Directories of earlier releases: Spark's file sink wrote one for each unit, with a log of its own.

``<path>/<topic>-<partition>/_spark_metadata`` tells which files of the unit are committed; its file ``owner``
names the checkpoint that wrote them.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from cooperator.connectors.intents.naming import unit_part
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.places import Place, StorePlace, names, remove_tree

_LOG: Final = "_spark_metadata"
_BATCH: Final = re.compile(r"(\d+)(\.compact)?\Z")
_GONE: Final = "earlier"


class UnreadableLog(ValueError):
    """A log of Spark's file sink cannot be read; the message names it."""


def has_log(path: Place, unit: str) -> bool:
    """Whether the directory of a unit has a log of Spark's file sink."""
    return bool(names(path / unit / _LOG))


def newest_batch(path: Place, unit: str) -> int:
    """Returns the newest batch in a unit's log; -1: there is none."""
    return max((int(match[1]) for match in _batches(path, unit)), default=-1)


def has_batch(path: Place, unit: str, batch: int) -> bool:
    """Whether a batch is in a unit's log."""
    return any((path / unit / _LOG / name).exists() for name in (str(batch), f"{batch}.compact"))


def query_of(path: Place, unit: str) -> str:
    """Returns the query whose checkpoint owns a unit's directory; empty: unknown."""
    try:
        return (path / unit / _LOG / "owner").read_text().split("\n")[1]
    except (FileNotFoundError, IndexError):
        return ""


def make_plain(path: Place, unit: str) -> None:
    """Moves the committed files of a unit to where readers of plain files find them, and removes the rest.

    Nothing may write to the unit's directory any more. It may be repeated after a crash. Raises
    ``UnreadableLog``, before anything is moved.
    """
    prefix = unit_part(Partition.of_unit(unit))
    for relative in list(_committed(path, unit)):
        folder, _, name = relative.rpartition("/")
        target = path
        for part in (*filter(None, folder.split("/")), f"{prefix}+{name}"):
            target = target / part
        _move(_at(path / unit, relative), target)
    if isinstance(path, Path):
        # In one step: a reader must not find files that were not committed, and no log that says so.
        gone = path / HIDDEN / _GONE / unit
        gone.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(gone, ignore_errors=True)
        (path / unit).rename(gone)
        shutil.rmtree(gone)
        return
    left = [entry["path"] for page in path.store.list(f"{path.key}/{unit}/".lstrip("/")) for entry in page]
    # The log goes last, so that a repeated call still knows that there is something to do.
    path.store.delete([key for key in left if f"/{_LOG}/" not in key])
    remove_tree(path / unit)


def _committed(path: Place, unit: str) -> Iterator[str]:
    """Yields the committed files of a unit, relative to its directory. Those moved already are among them."""
    found: dict[int, re.Match[str]] = {}
    compacted = -1
    for match in _batches(path, unit):
        number = int(match[1])
        if match[2]:
            compacted = max(compacted, number)
        if match[2] or number not in found:
            found[number] = match
    needed = [number for number in sorted(found) if number >= compacted]
    if needed != list(range(max(compacted, 0), max(found, default=-1) + 1)):
        raise UnreadableLog(f"{path / unit / _LOG} has a gap: restore the missing entries from a backup")
    for number in needed:
        entry = path / unit / _LOG / found[number][0]
        version, *lines = entry.read_text().splitlines()
        if version != "v1":
            raise UnreadableLog(f"{entry}: unknown version {version!r}; only v1 is supported")
        for line in lines:
            written: dict[str, Any] = json.loads(line)
            yield unquote(urlsplit(written["path"]).path).rpartition(f"/{unit}/")[2]


def _batches(path: Place, unit: str) -> list[re.Match[str]]:
    return [match for name in names(path / unit / _LOG) if (match := _BATCH.match(name))]


def _at(place: Place, relative: str) -> Place:
    for part in relative.split("/"):
        place = place / part
    return place


def _move(source: Place, target: Place) -> None:
    """Moves a file unless that is done already."""
    if isinstance(source, Path) and isinstance(target, Path):
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
        return
    assert isinstance(source, StorePlace), "both are in one store"
    assert isinstance(target, StorePlace), "both are in one store"
    if source.exists():
        source.store.copy(source.key, target.key)
        source.unlink()
