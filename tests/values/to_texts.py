"""Topics to topics by a SELECT that writes each record as a text: read by Python's ``json`` and ``csv``."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tests.values.cells import Cell
from tests.values.extremes import FIELDS, NULL, Field, Value
from tests.values.pairs import Flock, FromTopic
from tests.values.readings import json_value
from tests.values.types import NESTED, parse, typed_text
from tests.values.world import World

_MOMENT = "2026-11-28T12:30:45.123456"


def _nested(name: str, ddl: str, value: Any) -> Field:
    text = json.dumps(value, separators=(",", ":"))
    return Field(name, ddl, (Value("microseconds", text, text),))


TIMES: tuple[Field, ...] = (
    *(field for field in FIELDS if any(kind in field.ddl for kind in ("DATE", "TIMESTAMP"))),
    _nested("moments", "ARRAY<TIMESTAMP>", [f"{_MOMENT}Z", None]),
    _nested("clocks", "MAP<STRING,TIMESTAMP_NTZ>", {"a": _MOMENT}),
    _nested("visits", "ARRAY<STRUCT<at: MAP<STRING,TIMESTAMP>>>", [{"at": {"a": f"{_MOMENT}Z"}}]),
)


class ToTexts(FromTopic):
    class_name = "kafka-to-kafka"

    def __init__(self, form: Literal["json", "csv"]) -> None:
        super().__init__()
        self.form = form
        self.label = f"kafka-to-kafka, by to_{form}"
        self.short = f"select-{form}"
        self.fields = [field for field in TIMES if form == "json" or not field.ddl.startswith(NESTED)]
        ddl = ", ".join(["id INT", *(f"{field.name} {field.ddl}" for field in self.fields)])
        read_back = f"to_{form}(from_{form}(to_{form}(value), '{ddl}'))"
        self.ways = {
            "singly": {"max.offsets.per.trigger": "1"},
            "selected": {"transform.sql": f"SELECT {read_back} AS value FROM input"},
        }

    def all_cells(self) -> Sequence[Cell]:
        return [
            Cell(self.label, field.ddl, value.name, value.json, value.due, field.name, f"{field.name}-{at}")
            for field in self.fields
            for at, value in enumerate((*field.values, NULL))
        ]

    def types(self) -> Mapping[str, str]:
        return {field.name: field.ddl for field in self.fields}

    def target(self, world: World, flock: Flock) -> Mapping[str, Any]:
        world.create_topics([f"{flock.name}-out"])
        return {
            "topic": "{topic}-out",
            "transform.sql": f"SELECT to_{self.form}(value) AS value FROM input",
        }

    def rows(self, world: World, flock: Flock) -> Mapping[int, str]:
        names = ["id", *self.columns(flock)]
        read: Callable[[str], Mapping[str, Any]] = {
            "json": json_value,
            "csv": lambda line: {
                name: value or None for name, value in zip(names, next(csv.reader([line])), strict=True)
            },
        }[self.form]
        found: dict[int, str] = {}
        for record in world.records(f"{flock.name}-out"):
            row = read((record.value or b"").decode())
            number = int(row["id"])
            if number:
                column = flock.cells[number - 1].column
                # A field that is null may be left out.
                found[number] = typed_text(parse(self.types()[column]), row.get(column))
        return found
