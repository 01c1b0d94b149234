"""Topics to files, read by pyarrow, by Python's ``csv`` and ``json``."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tests.values.cells import Cell
from tests.values.extremes import FIELDS, NAMED, NULL, Field
from tests.values.pairs import Converter, Flock, FromTopic, named_cells
from tests.values.readings import day_text, json_value, moment_text
from tests.values.types import NESTED, parse, typed_text
from tests.values.world import World


class ToFiles(FromTopic):
    class_name = "kafka-to-files"

    def __init__(
        self, form: str, converter: Converter = "json", fields: Sequence[Field] = (*FIELDS, *NAMED)
    ) -> None:
        super().__init__(converter)
        self.form = form
        self.label = f"kafka-to-files, {converter} to {form}"
        self.short = f"files-{form}" if converter == "json" else f"files-{form}-{converter}"
        # A line of CSV has no place for a list or a struct, which Spark refuses for the file as a whole.
        self.fields = [field for field in fields if form != "csv" or not field.ddl.startswith(NESTED)]

    def all_cells(self) -> Sequence[Cell]:
        values = [
            Cell(self.label, field.ddl, value.name, value.json, value.due, field.name, f"{field.name}-{at}")
            for field in self.fields
            if field not in NAMED
            for at, value in enumerate((*field.values, NULL))
        ]
        return [*values, *named_cells(self.label, [field for field in self.fields if field in NAMED])]

    def types(self) -> Mapping[str, str]:
        return {field.name: field.ddl for field in self.fields}

    def target(self, world: World, flock: Flock) -> Mapping[str, Any]:
        return {
            "path": world.root / "files" / flock.name,
            "format": self.form,
            "rotate.interval.ms": 0,
        }

    def rows(self, world: World, flock: Flock) -> Mapping[int, str]:
        read: Callable[[Path], Iterator[tuple[Any, dict[str, Any]]]] = {
            "parquet": _parquet,
            "json": _json,
            "csv": lambda path: _csv(path, ["id", *self.columns(flock)]),
        }[self.form]
        types = {name: parse(ddl) for name, ddl in self.types().items()}
        found: dict[int, str] = {}
        for file in sorted((world.root / "files" / flock.name).glob(f"*.{self.form}*")):
            for identity, row in read(file):
                number = int(identity) if str(identity).isdecimal() else 0
                if 0 < number <= len(flock.cells):
                    column = flock.cells[number - 1].column
                    found[number] = typed_text(types[column], row[column])
        return found


def _parquet(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    # As pandas and pyarrow read it: without any option.
    table = pq.read_table(path)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    for at, identity in enumerate(table.column("id").to_pylist()):
        yield identity, {name: _value(column[at]) for name, column in columns.items()}


def _value(scalar: pa.Scalar) -> Any:
    """The value as JSON would have it: dates and times are texts, since Python's have fewer years."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_list(kind):
        return [_value(each) for each in scalar.values]
    if pa.types.is_map(kind):
        return {entry["key"].as_py(): _value(entry["value"]) for entry in scalar.values}
    if pa.types.is_struct(kind):
        return {name: _value(value) for name, value in scalar.items()}
    if pa.types.is_date32(kind):
        return day_text(scalar.value)
    if pa.types.is_timestamp(kind):
        per_us = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(kind.unit)
        us = scalar.value // 1_000 if per_us is None else scalar.value * per_us
        return moment_text(us, "Z" if kind.tz else "")
    return base64.b64encode(scalar.as_py()).decode() if pa.types.is_binary(kind) else scalar.as_py()


def _json(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    for line in path.read_bytes().split(b"\n"):
        if line:
            row = json_value(line.decode())
            yield row["id"], _Row(row)


class _Row(dict[str, Any]):
    """A field that is null may be left out."""

    def __missing__(self, name: str) -> None:
        return None


def _csv(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The rows by RFC 4180, as Python and pyarrow read them.

    Python cannot tell an empty text from null; to pyarrow an empty field without quotation marks is null.
    """
    csv.field_size_limit(2_000_000)
    text = path.read_bytes().decode()
    others = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(column_names=names),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).to_pylist()
    second = {other["id"]: other for other in others}
    for cells in csv.reader(io.StringIO(text, newline=""), strict=False):
        first = dict(zip(names, cells, strict=False))
        if cells != names:
            yield first["id"], {name: _agreed(first, second.get(first["id"]), name) for name in names}


def _agreed(first: dict[str, str], second: dict[str, str | None] | None, name: str) -> str | None:
    """What both readers have read; a difference is shown, and equal to nothing."""
    read = first.get(name, "(no such field)")
    other = "(no such row)" if second is None else second[name]
    return other if read == (other or "") else f"{read} (Python), {other} (pyarrow)"
