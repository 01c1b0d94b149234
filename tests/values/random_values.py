"""Random types, up to four levels deep, and random values of them."""

from __future__ import annotations

import base64
import math
import struct
from decimal import Decimal
from random import Random
from typing import Any

from tests.values.extremes import Field, Value
from tests.values.readings import day_text, days_of, json_text, moment_text
from tests.values.to_postgres import Target
from tests.values.types import NESTED, SCALARS, Type, typed_text

DEPTH = 4
VALUES = 50
_NULLS = 0.15
_LETTERS = "ab \"'\\,;\n\r\t\x01\x7f\u0085\u2028\ufeff\u00e9e\u0301\u05d0\u202e\u65e5\U0001f600{}[]:%$"
_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_DAYS = (days_of(1, 1, 1), days_of(9999, 12, 31))
_DAY_US = 86_400_000_000
_COLUMNS = {
    "BYTE": "smallint",
    "SHORT": "smallint",
    "INT": "integer",
    "LONG": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DECIMAL": "numeric",
    "STRING": "text",
    "BINARY": "bytea",
    "DATE": "date",
    "TIMESTAMP": "timestamptz",
    "TIMESTAMP_NTZ": "timestamp",
    "BOOLEAN": "boolean",
}


def random_type(random: Random, depth: int = DEPTH) -> Type:
    name = random.choice((*SCALARS, *(NESTED * 4 if depth > 1 else ())))
    if name == "DECIMAL":
        precision = random.randint(1, 38)
        return Type(name, (), precision, random.randint(0, precision))
    if name == "STRUCT":
        names = [f"f{number}" for number in range(random.randint(1, 3))]
        return Type(name, tuple((each, random_type(random, depth - 1)) for each in names))
    if name in NESTED:
        return Type(name, (("", random_type(random, depth - 1)),))
    return Type(name)


def random_value(random: Random, kind: Type) -> Any:
    """A value as JSON has it, with floats and decimals as numbers."""
    if random.random() < _NULLS:
        return None
    size = random.choice((0, 1, 2, 3))
    if kind.name == "STRUCT":
        return {name: random_value(random, part) for name, part in kind.parts}
    if kind.name == "MAP":
        return {_text(random): random_value(random, kind.part) for _ in range(size)}
    if kind.name == "ARRAY":
        return [random_value(random, kind.part) for _ in range(size)]
    return _scalar(random, kind)


def _scalar(random: Random, kind: Type) -> Any:
    if kind.name in _BITS:
        largest = 2 ** (_BITS[kind.name] - 1)
        return random.choice((0, largest - 1, -largest, random.randrange(-largest, largest)))
    match kind.name:
        case "BOOLEAN":
            return random.random() < 0.5
        case "FLOAT" | "DOUBLE":
            form = "f" if kind.name == "FLOAT" else "d"
            value = struct.unpack(form, random.randbytes(struct.calcsize(form)))[0]
            # JSON has no other numbers, and numeric no negative zero.
            return value if math.isfinite(value) and value else 0.5
        case "DECIMAL":
            largest = 10**kind.precision - 1
            unscaled = random.choice((0, largest, -largest, random.randint(-largest, largest)))
            return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
        case "BINARY":
            return base64.b64encode(random.randbytes(random.randint(0, 5))).decode()
        case "DATE":
            return day_text(random.randint(*_DAYS))
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            at_us = random.randrange(_DAYS[0] * _DAY_US, _DAYS[1] * _DAY_US)
            # Many have no more than milliseconds, which is all that Connect's JSON has.
            at_us -= at_us % random.choice((1, 1_000, 1_000_000, 60_000_000))
            return moment_text(at_us, "Z" if kind.name == "TIMESTAMP" else "")
    return _text(random)


def _text(random: Random) -> str:
    return "".join(random.choice(_LETTERS) for _ in range(random.randint(0, 6)))


def random_field(seed: int) -> Field:
    """The column of a seed, with its values."""
    random = Random(seed)
    kind = random_type(random)
    values = [random_value(random, kind) for _ in range(VALUES)]
    return Field(
        f"c{seed}",
        str(kind),
        tuple(
            Value(f"{seed}.{number}", json_text(value), typed_text(kind, value))
            for number, value in enumerate(values)
        ),
    )


def target_of(field: Field) -> Target:
    """The column of a table for it."""
    name = field.ddl.partition("(")[0]
    values = field.values
    if name == "BINARY":
        values = tuple(
            each if each.due == "null" else Value(each.name, each.json, rf"\x{each.due}") for each in values
        )
    return Target(field.name, field.ddl, _COLUMNS.get(name, "jsonb"), values)
