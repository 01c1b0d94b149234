"""Offsets of the class ``spark``: the sources' own offsets, as Spark keeps them.

The partition is ``{"unit": "unit-0", "source": 0}``, the offset the source's own JSON. It is written back
unchanged: how a source handles an offset that it has never reported is up to the source.
"""

import json
from collections.abc import Sequence
from typing import Any

from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import SourceOffsets, UnitPlace, Where
from cooperator.connectors.offsets.unit_log import move, read_unit, settle_in_flight


class RawOffsets(SourceOffsets[Any]):
    """``sink`` is the sink of the same connector."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def current(self, options: Any, place: UnitPlace) -> list[Entry]:
        ends = read_unit(place.checkpoint, self._sink.at(options, place)).ends
        return [
            Entry({"unit": place.unit, "source": number}, json.loads(end)) for number, end in enumerate(ends)
        ]

    def unit_of(self, options: Any, partition: Json) -> str:
        unit, source = partition.get("unit"), partition.get("source")
        known = [f"unit-{number}" for number in range(len(options.unit_overrides))]
        if len(partition) != 2 or unit not in known or not isinstance(source, int):
            form = '{"unit": "unit-<number>", "source": <number>}'
            text = json.dumps(partition)
            raise OffsetsError(f"unknown partition {text}; write {form}; the units are {known}")
        return str(unit)

    def at(self, options: Any, place: UnitPlace, where: Where) -> list[Entry]:
        raise OffsetsError(
            f"the beginning and end of a source of format {options.source_format} are unknown here; use a "
            "file with offsets, or reset without --to"
        )

    def check(self, options: Any, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if "logOffset" in (entry.offset or {}):
                raise OffsetsError(
                    f"partition {entry.key}: the position of a file source cannot be altered; reset the "
                    "connector, or use class files-to-kafka"
                )

    def move(self, options: Any, place: UnitPlace, entries: Sequence[Entry]) -> None:
        found = settle_in_flight(place.checkpoint, self._sink.at(options, place))
        if not found.ends or len(entries) != len(found.ends):
            raise OffsetsError(
                f"unit {place.unit} has {len(found.ends)} positions, but {len(entries)} would remain: set "
                "each of them"
            )
        ordered = sorted(entries, key=lambda entry: int(entry.partition["source"]))
        move(place.checkpoint, found.committed, [json.dumps(entry.offset) for entry in ordered])

    def refuse_forgetting(self, options: Any, place: UnitPlace) -> None:
        self._sink.refuse_forgetting(options, place)
