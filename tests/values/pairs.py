"""What a pair of source and sink is to the table: cells, flocks of them, and how these travel."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.values.cells import Cell, Listed, Outcome, listed_for
from tests.values.extremes import NAMED
from tests.values.world import Record, World, connector

Part = Literal["batch", "alone"]


@dataclass(frozen=True)
class Flock:
    """Cells that one Connector carries, by a topic or table of their own."""

    name: str
    cells: tuple[Cell, ...]


class Pair(ABC):
    """A source, a sink and the formats between them: ``label`` in the table, ``short`` in Connectors."""

    label: str
    short: str

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
        # No name of a Connector has a key or a column, which messages are to name.
        return [Flock(f"{self.short}-{number}", (cell,)) for number, cell in enumerate(alone)]


class FromTopic(Pair):
    """Records of JSON, each with an ``id`` and one other field, go through a connector that reads a topic."""

    class_name: str

    @abstractmethod
    def schema(self, flock: Flock) -> Mapping[str, str]:
        """The types of all columns of the table, besides ``id``."""

    def columns(self, flock: Flock) -> list[str]:
        """The columns of the flock, besides ``id``."""
        return list(dict.fromkeys(cell.column for cell in flock.cells))

    @abstractmethod
    def target(self, world: World, flock: Flock) -> Mapping[str, Any]:
        """Makes the target, and returns its options."""

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        world.create_topics([flock.name, f"{flock.name}-letters"])
        world.produce(flock.name, [Record(b"first", b'{"id": 0}')])
        types, names = self.schema(flock), self.columns(flock)
        config = {
            "topics": flock.name,
            "value.converter": "json",
            "value.schema": ", ".join(["id INT", *(f"{_quoted(name)} {types[name]}" for name in names)]),
            "trigger.interval.ms": 100,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{flock.name}-letters",
            **self.target(world, flock),
        }
        return connector(flock.name, self.class_name, config)

    def send(self, world: World, flock: Flock) -> None:
        records = [
            Record(cell.key.encode(), f'{{"id": {number}, {json.dumps(cell.column)}: {cell.given}}}'.encode())
            for number, cell in enumerate(flock.cells, 1)
        ]
        world.produce(flock.name, records)
        self._sent[flock.name] = len(records)

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}

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


def named_cells(label: str) -> list[Cell]:
    """A cell for each name of a column."""
    return [
        Cell(label, "name of a column", field.name, value.json, value.due, field.name, f"named-{number}")
        for number, field in enumerate(NAMED)
        for value in field.values
    ]


def _quoted(name: str) -> str:
    """A name in Spark's DDL."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
