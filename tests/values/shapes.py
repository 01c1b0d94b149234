"""Topics to files where a name or a shape, and no type, is the extreme: read by pyarrow without options."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset

from tests.values.cells import Cell, Outcome
from tests.values.pairs import Flock, Pair
from tests.values.world import Record, World, connector

TOPIC_NAMES = ("events", "_events", ".events", "UPPER", "a.b_c-d", "-", "n" * 200)


class TopicNames(Pair):
    """Each topic has two records; a reader of the directory is to see them all."""

    label = "kafka-to-files, names of topics"
    short = "topics"

    def __init__(self) -> None:
        self._sent: set[str] = set()

    def cells(self) -> Sequence[Cell]:
        return [
            Cell(self.label, "name of a topic", name, name, "2 rows", name, f"topic-{number}")
            for number, name in enumerate(TOPIC_NAMES)
        ]

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        topics = _topics(flock)
        world.create_topics([*topics])
        for topic in topics:
            world.produce(topic, [Record(b"first", b"first")])
        return _files(world, flock, ",".join(topics), "SELECT topic FROM input", "parquet")

    def send(self, world: World, flock: Flock) -> None:
        for topic in _topics(flock):
            world.produce(topic, [Record(b"second", b"second")])
        self._sent.add(flock.name)

    def done(self, world: World, flock: Flock) -> bool:
        due = 1 + (flock.name in self._sent)
        return all(world.position(flock.name, topic) == due for topic in _topics(flock))

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        directory = world.root / "files" / flock.name
        counts = Counter[str]()
        if directory.exists():
            table = pa_dataset.dataset(directory, format="parquet").to_table()
            # Of a directory without files that readers see, there is no column either.
            counts.update(table.column("topic").to_pylist() if "topic" in table.column_names else ())
        return {
            cell: Outcome("row", f"{counts[topic]} rows") if counts else Outcome("missing")
            for topic, cell in zip(_topics(flock), flock.cells, strict=True)
        }


class OneColumn(Pair):
    """A file of CSV with a single column: its null would be an empty line, which readers take for none."""

    label = "kafka-to-files, one column of csv"
    short = "column"
    _values = ("a", None, "b", "", "c")

    def __init__(self) -> None:
        self._sent: set[str] = set()

    def cells(self) -> Sequence[Cell]:
        due = json.dumps(["first", *self._values])
        given = json.dumps(self._values)
        return [Cell(self.label, "STRING", "null and empty among others", given, due, "v", "", whole=True)]

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        world.create_topics([flock.name])
        world.produce(flock.name, [Record(b"first", b"first")])
        return _files(world, flock, flock.name, "SELECT value AS v FROM input", "csv")

    def send(self, world: World, flock: Flock) -> None:
        records = [Record(b"k", None if value is None else value.encode()) for value in self._values]
        world.produce(flock.name, records)
        self._sent.add(flock.name)

    def done(self, world: World, flock: Flock) -> bool:
        due = 1 + (len(self._values) if flock.name in self._sent else 0)
        return world.has_read(flock.name, flock.name, due)

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        rows: list[str | None] = []
        for file in sorted((world.root / "files" / flock.name).glob("*.csv*")):
            table = pa_csv.read_csv(
                file,
                convert_options=pa_csv.ConvertOptions(
                    null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
                ),
            )
            rows += table.column(0).to_pylist()
        came = Outcome("row", json.dumps(rows)) if rows else Outcome("missing")
        return dict.fromkeys(flock.cells, came)


def _topics(flock: Flock) -> dict[str, None]:
    """The topics of the flock's cells, in order, under names that no other run has."""
    return dict.fromkeys(f"{cell.value}.{flock.name}" for cell in flock.cells)


def _files(world: World, flock: Flock, topics: str, select: str, form: str) -> dict[str, Any]:
    config = {
        "topics": topics,
        "transform.sql": select,
        "path": world.root / "files" / flock.name,
        "format": form,
        "rotate.interval.ms": 0,
        "trigger.interval.ms": 100,
    }
    return connector(flock.name, "kafka-to-files", config)
