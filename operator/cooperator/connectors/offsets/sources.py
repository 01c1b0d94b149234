"""The interface of a connector whose offsets can be listed and changed."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic

from cooperator.connectors.offsets.entries import Change, Entry, Json, OffsetsError
from cooperator.connectors.options import O
from cooperator.connectors.places import Place


class Where(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """A unit of a connector, and its checkpoint. ``conf`` is its Worker's Spark configuration, resolved."""

    group_id: str
    connector: str
    unit: str
    checkpoint: Place
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


class SourceOffsets(ABC, Generic[O]):
    """The offsets of one kind of source. Methods raise ``OffsetsError``; nothing of the connector runs."""

    @abstractmethod
    def current(self, options: O, place: UnitPlace) -> list[Entry]:
        """Returns the positions of a unit that has a checkpoint: where its next batch begins.

        A batch in flight counts only if the sink has it.
        """

    @abstractmethod
    def unit_of(self, options: O, partition: Json) -> str:
        """Returns the unit of a partition; raises ``OffsetsError`` if the connector has none for it."""

    @abstractmethod
    def at(self, options: O, place: UnitPlace, where: Where) -> list[Entry]:
        """Returns all positions of a unit at the beginning or at the end of its source's current contents."""

    @abstractmethod
    def check(self, options: O, entries: Sequence[Entry]) -> None:
        """Raises ``OffsetsError`` when the source has no such positions."""

    @abstractmethod
    def move(self, options: O, place: UnitPlace, entries: Sequence[Entry]) -> None:
        """Writes exactly these positions of a unit. It may be repeated after a crash."""

    def refuse_forgetting(self, options: O, place: UnitPlace) -> None:
        """Raises ``OffsetsError`` when the unit's checkpoint must not go, since the sink depends on it."""
        return


@dataclass(frozen=True, slots=True)
class About:
    """A connector whose offsets are kept in its sink.

    ``places`` are its checkpoints: those of earlier releases, or caches of what the sink has. ``conf`` is its
    Worker's Spark configuration, resolved.
    """

    group_id: str
    connector: str
    checkpoints: Place
    places: Sequence[UnitPlace] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


class ConnectorOffsets(ABC, Generic[O]):
    """The offsets of a connector that keeps them in its sink. Methods raise ``OffsetsError``.

    Changes are returned, also for a dry run. Nothing of the connector should run; an attempt that does is
    fenced first, and commits nothing more.
    """

    @abstractmethod
    def listed(self, options: O, about: About) -> list[Entry]:
        """Returns the positions of all units that have one."""

    @abstractmethod
    def alter(self, options: O, about: About, wanted: Sequence[Entry], *, dry_run: bool) -> list[Change]:
        """Moves the given partitions; an offset of None forgets one."""

    @abstractmethod
    def reset(self, options: O, about: About, where: Where | None, *, dry_run: bool) -> list[Change]:
        """Forgets everything, or moves all positions to that end of the source's current contents."""

    @abstractmethod
    def migrate(self, options: O, about: About, *, dry_run: bool) -> list[Change]:
        """Takes over the positions of checkpoints, for units that have none in the sink."""


def number(entry: Entry, field: str) -> int:
    """Returns the field of the entry's offset, which must be a whole number of at least 0."""
    offset = entry.offset or {}
    value = offset.get(field)
    if set(offset) != {field} or isinstance(value, bool) or not isinstance(value, int) or value < 0:
        form = f'{{"{field}": <number of at least 0>}}'
        raise OffsetsError(f"partition {entry.key}: unknown offset {json.dumps(offset)}; write {form}")
    return value
