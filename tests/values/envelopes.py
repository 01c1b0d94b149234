"""Records in forms that bring their types: Connect's JSON with schemas, and Avro with a registry.

Nothing of the product makes them: Avro is written by fastavro, and Connect's JSON as its documentation says.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

import fastavro

from tests.values.readings import day_text, moment_text, moment_us
from tests.values.types import Type

_EXACT = Context(prec=100)
_DAY_US = 86_400_000_000
_CONNECT = "org.apache.kafka.connect.data."
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Unwritable(ValueError):
    """The form has no such name, type or value."""


class Envelope(ABC):
    """Writes records of one type, a STRUCT all of whose fields may be null. Values are as JSON has them."""

    converter: str

    @abstractmethod
    def write(self, values: Mapping[str, Any]) -> bytes:
        """Raises ``Unwritable``."""


def _unscaled(kind: Type, value: Any) -> bytes:
    number = int(Decimal(str(value)).scaleb(kind.scale, _EXACT))
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _us(kind: Type, text: str) -> int:
    return moment_us(text if kind.name != "DATE" else f"{text}T00:00:00")


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Unwritable("half of a pair") from error
    return text


class ConnectJson(Envelope):
    converter = "json-schema"

    def __init__(self, fields: Mapping[str, Type]) -> None:
        self._type = Type("STRUCT", tuple(fields.items()))
        self._schema = _connect_type(self._type)

    def write(self, values: Mapping[str, Any]) -> bytes:
        payload = _connect_value(self._type, values)
        return json.dumps({"schema": self._schema, "payload": payload}).encode()


_CONNECT_TYPES = {
    "BOOLEAN": "boolean",
    "BYTE": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
}
_CONNECT_LOGICAL = {"DECIMAL": "bytes", "DATE": "int32", "TIMESTAMP": "int64"}


def _connect_type(kind: Type) -> dict[str, Any]:
    found: dict[str, Any] = {"optional": True}
    if kind.name == "STRUCT":
        fields = [{"field": name, **_connect_type(part)} for name, part in kind.parts]
        return {**found, "type": "struct", "fields": fields}
    if kind.name == "ARRAY":
        return {**found, "type": "array", "items": _connect_type(kind.part)}
    if kind.name == "MAP":
        return {**found, "type": "map", "keys": {"type": "string"}, "values": _connect_type(kind.part)}
    if kind.name in _CONNECT_LOGICAL:
        found |= {"type": _CONNECT_LOGICAL[kind.name], "name": f"{_CONNECT}{kind.name.title()}", "version": 1}
        return {**found, "parameters": {"scale": str(kind.scale)}} if kind.name == "DECIMAL" else found
    if kind.name not in _CONNECT_TYPES:
        raise Unwritable(f"Connect has no {kind}")
    return {**found, "type": _CONNECT_TYPES[kind.name]}


def _connect_value(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.name == "STRUCT":
        return {name: _connect_value(part, value.get(name)) for name, part in kind.parts}
    if kind.name == "ARRAY":
        return [_connect_value(kind.part, each) for each in value]
    if kind.name == "MAP":
        return {name: _connect_value(kind.part, each) for name, each in value.items()}
    if kind.name == "DECIMAL":
        return base64.b64encode(_unscaled(kind, value)).decode()
    if kind.name == "DATE":
        return _us(kind, value) // _DAY_US
    if kind.name == "TIMESTAMP":
        at_ms, rest_us = divmod(_us(kind, value), 1_000)
        if rest_us:
            raise Unwritable("Connect's timestamps are milliseconds")
        return at_ms
    if kind.name in ("FLOAT", "DOUBLE"):
        if not math.isfinite(float(value)):
            raise Unwritable("JSON has no such number")
        return float(value)
    return value


class Avro(Envelope):
    converter = "avro"

    def __init__(self, fields: Mapping[str, Type], registry: str, subject: str) -> None:
        """Registers the schema. Raises ``Unwritable``."""
        self._type = Type("STRUCT", tuple(fields.items()))
        schema = _avro_type(self._type, (f"r{number}" for number in itertools.count()))
        self._schema = fastavro.parse_schema(schema)
        request = urllib.request.Request(
            f"{registry}/subjects/{subject}/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            self._id = int(json.load(answer)["id"])

    def write(self, values: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        out.write(b"\0" + self._id.to_bytes(4, "big"))
        fastavro.schemaless_writer(out, self._schema, _avro_value(self._type, values))
        return out.getvalue()


_AVRO_TYPES = {
    "BOOLEAN": "boolean",
    "BYTE": "int",
    "SHORT": "int",
    "INT": "int",
    "LONG": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
}
_AVRO_LOGICAL = {
    "DATE": ("int", "date"),
    "TIMESTAMP": ("long", "timestamp-micros"),
    "TIMESTAMP_NTZ": ("long", "local-timestamp-micros"),
}


def _avro_type(kind: Type, names: Iterator[str]) -> Any:
    if kind.name == "STRUCT":
        if unnamed := [name for name, _ in kind.parts if not _AVRO_NAME.match(name)]:
            raise Unwritable(f"Avro has no field {unnamed[0]}")
        name = next(names)
        fields = [
            {"name": field, "type": ["null", _avro_type(part, names)], "default": None}
            for field, part in kind.parts
        ]
        return {"type": "record", "name": name, "fields": fields}
    if kind.name in ("ARRAY", "MAP"):
        inner = "items" if kind.name == "ARRAY" else "values"
        return {"type": kind.name.lower(), inner: ["null", _avro_type(kind.part, names)]}
    if kind.name == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.name in _AVRO_LOGICAL:
        primitive, logical = _AVRO_LOGICAL[kind.name]
        return {"type": primitive, "logicalType": logical}
    return _AVRO_TYPES[kind.name]


def _avro_value(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.name == "STRUCT":
        return {name: _avro_value(part, value.get(name)) for name, part in kind.parts}
    if kind.name == "ARRAY":
        return [_avro_value(kind.part, each) for each in value]
    if kind.name == "MAP":
        return {_checked(name): _avro_value(kind.part, each) for name, each in value.items()}
    if kind.name == "DECIMAL":
        return _unscaled(kind, value)
    if kind.name == "BINARY":
        return base64.b64decode(value)
    if kind.name == "DATE":
        return _us(kind, value) // _DAY_US
    if kind.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _us(kind, value)
    if kind.name in ("FLOAT", "DOUBLE"):
        return float(value)
    return _checked(value) if kind.name == "STRING" else value


class AvroRecords:
    """Reads records of Avro by the schemas that the registry has for them."""

    def __init__(self, registry: str) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def read(self, record: bytes) -> Any:
        """The value as JSON has it, with dates and times as texts, and bytes in base64."""
        magic, number = record[0], int.from_bytes(record[1:5])
        assert magic == 0, record
        if number not in self._schemas:
            with urllib.request.urlopen(f"{self._registry}/schemas/ids/{number}", timeout=30) as answer:
                self._schemas[number] = json.loads(json.load(answer)["schema"])
        schema = self._schemas[number]
        # Without their meaning, since Python's dates have fewer years.
        plain = fastavro.parse_schema(_without_logical(schema))
        rest = io.BytesIO(record[5:])
        found = fastavro.schemaless_reader(rest, plain, None)
        assert rest.read() == b"", "the record goes on after its value"
        return _of_avro(found, schema)


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_logical(part) for name, part in schema.items() if name != "logicalType"} | (
        {"fields": [{**each, "type": _without_logical(each["type"])} for each in schema["fields"]]}
        if "fields" in schema
        else {}
    )


def _of_avro(value: Any, schema: Any) -> Any:
    if value is None:
        return None
    if isinstance(schema, list):
        [other] = [part for part in schema if part != "null"]
        return _of_avro(value, other)
    name, logical = (schema, "") if isinstance(schema, str) else (schema["type"], schema.get("logicalType"))
    if name == "record":
        return {part["name"]: _of_avro(value[part["name"]], part["type"]) for part in schema["fields"]}
    if name == "array":
        return [_of_avro(each, schema["items"]) for each in value]
    match logical:
        case "decimal":
            return decimal_of(value, schema["scale"])
        case "date":
            return day_text(value)
        case "timestamp-millis":
            return moment_text(value * 1_000)
        case "timestamp-micros":
            return moment_text(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def decimal_of(digits: bytes, scale: int) -> Decimal:
    """The decimal of an unscaled number."""
    unscaled = int.from_bytes(digits, signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def envelope(converter: str, fields: Mapping[str, Type], registry: str, subject: str) -> Envelope:
    return Avro(fields, registry, subject) if converter == "avro" else ConnectJson(fields)


def is_writable(converter: str, name: str, kind: Type, value: Any) -> bool:
    """Whether a record may have the value, in a field of this name and type."""
    record = Type("STRUCT", ((name, kind),))
    try:
        if converter == "avro":
            _avro_type(record, iter("rstuvwxyz"))
            _avro_value(record, {name: value})
        else:
            _connect_type(record)
            _connect_value(record, {name: value})
    except Unwritable:
        return False
    return True
