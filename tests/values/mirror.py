"""Topics to topics, byte for byte: keys, values, headers and timestamps, read by a plain consumer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tests.values.cells import Cell, Outcome
from tests.values.pairs import Flock, Pair
from tests.values.world import Record, World, connector

_THEN_MS = 1_764_000_000_000
_DAY_MS = 86_400_000

RECORDS: dict[tuple[str, str], Record] = {
    ("value", "ordinary"): Record(b"k", b"v"),
    ("value", "empty"): Record(b"k", b""),
    ("value", "null (a tombstone)"): Record(b"k", None),
    ("value", "every byte"): Record(b"k", bytes(range(256))),
    ("value", "UTF-8 cut off"): Record(b"k", b"\xf0\x9f\x98"),
    ("value", "999,000 bytes"): Record(b"k", b"x" * 999_000),
    ("value", "1,000,100 bytes"): Record(b"k", b"x" * 1_000_100),
    ("key", "null"): Record(None, b"v"),
    ("key", "empty"): Record(b"", b"v"),
    ("key", "every byte"): Record(bytes(range(256)), b"v"),
    ("key and value", "null"): Record(None, None),
    ("headers", "empty name"): Record(b"k", b"v", (("", b"1"),)),
    ("headers", "empty value"): Record(b"k", b"v", (("a", b""),)),
    ("headers", "null value"): Record(b"k", b"v", (("a", None),)),
    ("headers", "doubled, in order"): Record(
        b"k", b"v", (("b", b"1"), ("a", b"2"), ("b", b"3"), ("b", b"1"))
    ),
    ("headers", "a name beyond ASCII"): Record(b"k", b"v", (("größe 😀", b"\xff\x00"),)),
    ("headers", "a hundred"): Record(
        b"k", b"v", tuple((f"h{number}", b"%d" % number) for number in range(100))
    ),
    ("headers", "of a letter"): Record(b"k", b"v", (("__connect.errors.topic", b"other"),)),
    ("timestamp", "1 ms"): Record(b"k", b"v", timestamp_ms=1),
    ("timestamp", "the year 2100"): Record(b"k", b"v", timestamp_ms=4_102_444_800_000),
    ("timestamp", "in nanoseconds"): Record(b"k", b"v", timestamp_ms=_THEN_MS * 1_000_000),
    ("timestamp", "the largest"): Record(b"k", b"v", timestamp_ms=9_223_372_036_854_775_807),
}


class Mirror(Pair):
    label = "kafka-to-kafka, bytes"
    short = "mirror"
    ways: ClassVar = {"singly": {"max.offsets.per.trigger": "1"}}

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}

    def cells(self) -> Sequence[Cell]:
        return [
            Cell(
                self.label,
                part,
                name,
                _text(record),
                _text(record),
                part,
                f"{part}-{number}".replace(" ", "-"),
            )
            for number, ((part, name), record) in enumerate(RECORDS.items())
        ]

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        world.create_topics([flock.name, f"{flock.name}-out"])
        world.produce(flock.name, [Record(b"first", b"first")])
        config = {"topics": flock.name, "topic": "{topic}-out", "trigger.interval.ms": 100, **flock.options}
        return connector(flock.name, "kafka-to-kafka", config)

    def send(self, world: World, flock: Flock) -> None:
        world.produce(flock.name, [_given(cell) for cell in flock.cells])
        self._sent[flock.name] = len(flock.cells)

    def done(self, world: World, flock: Flock) -> bool:
        return world.has_read(flock.name, flock.name, 1 + self._sent.get(flock.name, 0))

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        # The order of a partition is kept, so records need no mark, which would be a part of them.
        came = world.records(f"{flock.name}-out")[1:]
        return {
            cell: Outcome("row", _text(came[at])) if at < len(came) else Outcome("missing")
            for at, cell in enumerate(flock.cells)
        }


def _given(cell: Cell) -> Record:
    record = RECORDS[cell.type, cell.value]
    moment_ms = record.timestamp_ms if record.timestamp_ms >= 0 else _THEN_MS
    return Record(record.key, record.value, record.headers, moment_ms)


def _text(record: Record) -> str:
    moment_ms = record.timestamp_ms if record.timestamp_ms >= 0 else _THEN_MS
    headers = ", ".join(f"{name!r}: {value!r}" for name, value in record.headers)
    # A record of the table is a year older than the run that reads it, or in the future.
    written = abs(time.time() * 1_000 - moment_ms) < _DAY_MS
    moment = "the time of writing" if written else f"{moment_ms} ms"
    return f"key {record.key!r}, headers [{headers}], at {moment}, value {record.value!r}"
