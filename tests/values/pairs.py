"""What a pair of source and sink is to the table: cells, flocks of them, and how these travel."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from tests.values.cells import Cell, Listed, Outcome, listed_for
from tests.values.envelopes import Envelope, envelope, is_writable
from tests.values.extremes import NAMED, Field
from tests.values.readings import json_value
from tests.values.types import Type, parse
from tests.values.world import Record, World, connector

Part = Literal["batch", "alone", "singly", "selected"]
"""Cells travel in one batch, or alone where they change that of others. What travels in a batch is to be the
same where each record is a batch, and where it goes through a SELECT.
"""
Converter = Literal["json", "json-schema", "avro"]


@dataclass(frozen=True)
class Flock:
    """Cells that one Connector carries, by a topic or table of their own."""

    name: str
    cells: tuple[Cell, ...]
    options: Mapping[str, str] = field(default_factory=dict)


class Pair(ABC):
    """A source, a sink and the formats between them: ``label`` in the table, ``short`` in Connectors."""

    label: str
    short: str
    ways: Mapping[str, Mapping[str, str]] = {}
    """Options by which cells travel singly or selected, where the pair has such."""

    @abstractmethod
    def cells(self) -> Sequence[Cell]: ...

    @abstractmethod
    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        """Makes source and target with one ordinary row, and returns the Connector's manifest."""

    @abstractmethod
    def send(self, world: World, flock: Flock) -> None:
        """Gives the cells to the source, at once."""

    @abstractmethod
    def done(self, world: World, flock: Flock) -> bool:
        """Whether all that the source has was read, and what is to be written was."""

    @abstractmethod
    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        """What came out; cells that neither came nor were refused are missing."""

    def flocks(self, exceptions: Sequence[Listed], part: Part) -> list[Flock]:
        """The cells that travel in one batch, or those that travel alone."""
        batch: list[Cell] = []
        alone: list[Cell] = []
        for cell in self.cells():
            listed = listed_for(cell, exceptions)
            (alone if listed is not None and listed.alone else batch).append(cell)
        if part == "batch":
            return [Flock(self.short, tuple(batch))]
        if part in ("singly", "selected"):
            options = self.ways.get(part)
            return [] if options is None else [Flock(f"{self.short}-{part}", tuple(batch), options)]
        # No name of a Connector has a key or a column, which messages are to name.
        return [Flock(f"{self.short}-{number}", (cell,)) for number, cell in enumerate(alone)]


class FromTopic(Pair):
    """Records, each with an ``id`` and one other field, go through a connector that reads a topic."""

    class_name: str
    ways: ClassVar = {
        "singly": {"max.offsets.per.trigger": "1"},
        "selected": {"transform.sql": "SELECT value.* FROM input"},
    }

    def __init__(self, converter: Converter = "json") -> None:
        self.converter = converter
        self._sent: dict[str, int] = {}
        self._envelopes: dict[str, Envelope] = {}

    def cells(self) -> Sequence[Cell]:
        if self.converter == "json":
            return self.all_cells()
        types = {column: parse(ddl) for column, ddl in self.types().items()}
        return [
            cell
            for cell in self.all_cells()
            if is_writable(self.converter, cell.column, types[cell.column], json_value(cell.given))
        ]

    @abstractmethod
    def all_cells(self) -> Sequence[Cell]:
        """Those of JSON; other converters lack some types, values and names."""

    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """The types of all columns of the table, besides ``id``."""

    def columns(self, flock: Flock) -> list[str]:
        """The columns of the flock, besides ``id``."""
        return list(dict.fromkeys(cell.column for cell in flock.cells))

    @abstractmethod
    def target(self, world: World, flock: Flock) -> Mapping[str, Any]:
        """Makes the target, and returns its options."""

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        world.create_topics([flock.name, f"{flock.name}-letters"])
        types = {name: self.types()[name] for name in self.columns(flock)}
        form: dict[str, str] = {}
        if self.converter == "json":
            form["value.schema"] = ", ".join(
                ["id INT", *(f"{_quoted(name)} {types[name]}" for name in types)]
            )
        else:
            fields = {"id": Type("INT"), **{name: parse(ddl) for name, ddl in types.items()}}
            registry = world.registry if self.converter == "avro" else ""
            self._envelopes[flock.name] = envelope(self.converter, fields, registry, flock.name)
            form |= {"schema.registry.url": registry} if registry else {}
        world.produce(flock.name, [Record(b"first", self._written(flock, {"id": "0"}))])
        config = {
            "topics": flock.name,
            "value.converter": self.converter,
            **form,
            "trigger.interval.ms": 100,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{flock.name}-letters",
            **self.target(world, flock),
            **flock.options,
        }
        return connector(flock.name, self.class_name, config)

    def send(self, world: World, flock: Flock) -> None:
        records = [
            Record(cell.key.encode(), self._written(flock, {"id": str(number), cell.column: cell.given}))
            for number, cell in enumerate(flock.cells, 1)
        ]
        world.produce(flock.name, records)
        self._sent[flock.name] = len(records)

    def _written(self, flock: Flock, values: Mapping[str, str]) -> bytes:
        """The value of a record; those of its fields are given in JSON."""
        if self.converter == "json":
            members = ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items())
            return f"{{{members}}}".encode()
        return self._envelopes[flock.name].write({name: json_value(value) for name, value in values.items()})

    def done(self, world: World, flock: Flock) -> bool:
        return world.has_read(flock.name, flock.name, 1 + self._sent.get(flock.name, 0))

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        letters = {
            letter.key.decode(): letter.header("__connect.errors.exception.message")
            for letter in world.records(f"{flock.name}-letters")
            if letter.key is not None
        }
        rows = self.rows(world, flock)
        found = {}
        for number, cell in enumerate(flock.cells, 1):
            if cell.key in letters:
                found[cell] = Outcome("letter", letters[cell.key])
            elif number in rows:
                found[cell] = Outcome("row", rows[number])
            else:
                found[cell] = Outcome("missing")
        return found

    @abstractmethod
    def rows(self, world: World, flock: Flock) -> Mapping[int, str]:
        """The text of each cell that came, by its number in the flock."""


def named_cells(label: str, fields: Sequence[Field] = NAMED) -> list[Cell]:
    """A cell for each name of a column."""
    return [
        Cell(label, "name of a column", named.name, value.json, value.due, named.name, f"named-{number}")
        for number, named in enumerate(fields)
        for value in named.values
    ]


def _quoted(name: str) -> str:
    """A name in Spark's DDL."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
