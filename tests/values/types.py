"""Types in Spark's spelling, and the one text of a value, whatever has read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.values.readings import json_text, of_text

_WORD = re.compile(r"\s*([A-Za-z_]\w*|[<>(),:]|\d+)")
_KINDS = {
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL": "decimal",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
SCALARS = ("BYTE", "SHORT", "INT", "LONG", "STRING", *_KINDS)
NESTED = ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True)
class Type:
    """``parts`` are the named fields of a STRUCT, the element of an ARRAY, or the value of a MAP."""

    name: str
    parts: tuple[tuple[str, Type], ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        inner = [str(part) for _, part in self.parts]
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{name}: {part}' for name, part in self.parts)}>"
        if self.name == "MAP":
            return f"MAP<STRING,{inner[0]}>"
        if self.name == "ARRAY":
            return f"ARRAY<{inner[0]}>"
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def part(self) -> Type:
        """The only part."""
        [(_, part)] = self.parts
        return part


def parse(ddl: str) -> Type:
    words = iter([*_WORD.findall(ddl), ""])
    parsed, left = _type(next(words), words)
    assert left == "", ddl
    return parsed


def _type(name: str, words: Iterator[str]) -> tuple[Type, str]:
    """A type, and the word after it."""
    word = next(words)
    if name == "DECIMAL":
        precision, _, scale, _ = (next(words) for _ in range(4))
        return Type(name, (), int(precision), int(scale)), next(words)
    if word != "<":
        return Type(name), word
    parts: list[tuple[str, Type]] = []
    while word != ">":
        first = next(words)
        if name == "STRUCT":
            assert next(words) == ":"
        part, word = _type(next(words) if name == "STRUCT" else first, words)
        parts.append((first if name == "STRUCT" else "", part))
    # The key of a MAP is a STRING.
    return Type(name, tuple(parts[-1:] if name == "MAP" else parts)), next(words)


def typed_text(kind: Type, value: Any) -> str:
    """The text of a value as JSON has it. Members of a STRUCT that are null are left out."""
    if kind.parts and isinstance(value, Mapping | list | tuple):
        return json_text(_typed(kind, value))
    return of_text(_KINDS.get(kind.name, ""), value)


def _typed(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.name == "STRUCT":
        members = {name: _typed(part, value.get(name)) for name, part in kind.parts}
        return {name: each for name, each in members.items() if each is not None}
    if kind.name == "MAP":
        pairs = value.items() if isinstance(value, Mapping) else value
        return {name: _typed(kind.part, each) for name, each in pairs}
    if kind.name == "ARRAY":
        return [_typed(kind.part, each) for each in value]
    if kind.name == "DECIMAL":
        return Decimal(str(value))
    if kind.name in _KINDS and kind.name != "BOOLEAN":
        return of_text(_KINDS[kind.name], value)
    return value
