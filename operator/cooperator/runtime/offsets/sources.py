"""What a connector brings so that its offsets can be listed and changed."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from cooperator.runtime.offsets.entries import Entry, Json, OffsetsError
from cooperator.runtime.options import O
from cooperator.runtime.places import Place


class Where(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """A unit of a connector, and its checkpoint."""

    group_id: str
    connector: str
    unit: str
    checkpoint: Place


class SourceOffsets(ABC, Generic[O]):
    """Of one kind of source. All methods raise OffsetsError; nothing of the connector runs."""

    @abstractmethod
    def current(self, options: O, place: UnitPlace) -> list[Entry]:
        """The positions of a unit that has a checkpoint: where its next batch begins, if the one in flight
        is none that the sink has."""

    @abstractmethod
    def unit_of(self, options: O, partition: Json) -> str:
        """The unit that a partition belongs to. OffsetsError when it is none of this connector."""

    @abstractmethod
    def at(self, options: O, place: UnitPlace, where: Where) -> list[Entry]:
        """All positions of a unit at the beginning or at the end of what its source has now."""

    @abstractmethod
    def check(self, options: O, entries: Sequence[Entry]) -> None:
        """OffsetsError when the source has no such positions."""

    @abstractmethod
    def move(self, options: O, place: UnitPlace, entries: Sequence[Entry]) -> None:
        """Write the positions of a unit: these and no others. May be repeated after a crash."""

    def refuse_forgetting(self, options: O, place: UnitPlace) -> None:
        """OffsetsError when the unit's checkpoint must not go, since the sink counts on it."""
        return


def number(entry: Entry, field: str) -> int:
    """The field of the entry's offset that must be a whole number from 0 on."""
    offset = entry.offset or {}
    value = offset.get(field)
    if set(offset) != {field} or isinstance(value, bool) or not isinstance(value, int) or value < 0:
        form = f'{{"{field}": <number from 0 on>}}'
        raise OffsetsError(f"partition {entry.key}: offset {json.dumps(offset)} is not known; write {form}")
    return value
