"""Decodes keys and values of records into columns, as Kafka Connect's converters do.

``string``, ``bytes`` and ``json`` (whose columns are given beforehand) are Spark expressions. With
``json-schema`` and ``avro`` each record has its own types: it is decoded on the driver (``decoder``), or in
Spark's plan once the types are settled (``planned_decoding``).
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from cooperator.connectors.options import option, refuse
from cooperator.connectors.registry import RegistryOptions, Undecodable
from cooperator.connectors.transform import Columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

Converter = Literal["string", "bytes", "json", "json-schema", "avro"]
EXPECTED = (
    "string, bytes, json (its columns: {0}.schema), json-schema (Connect's envelope with schema and payload) "
    "or avro (schema.registry.url)"
)
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = r"(?<!\\)(?:\\\\)*"
"""Before an escape, and not before letters that follow an escaped backslash."""
HALF_OF_A_PAIR = rf"{_ESCAPE}(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}|\\{_HIGH}{_LOW})"
"""One half of a pair alone; the last kind follows letters that only look like the other."""
_BY_RECORD = ("json-schema", "avro")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DecodingOptions(RegistryOptions):
    key_converter: Converter = option("key.converter", "string", expected=EXPECTED.format("key"))
    value_converter: Converter = option("value.converter", "string", expected=EXPECTED.format("value"))
    key_schema: Columns = option(
        "key.schema", "", expected="the columns of JSON keys, as DDL (id LONG, name STRING)"
    )
    value_schema: Columns = option(
        "value.schema", "", expected="the columns of JSON values, as DDL (id LONG, name STRING)"
    )

    @model_validator(mode="after")
    def _converters_have_what_they_need(self) -> Self:
        for name, converter, schema in (
            ("key", self.key_converter, self.key_schema),
            ("value", self.value_converter, self.value_schema),
        ):
            if converter == "json" and not schema:
                remedy = f"set {name}.schema (id LONG, name STRING), or use string and get_json_object"
                raise refuse("has no columns", remedy, f"{name}.converter")
            if schema and converter != "json":
                remedy = f"set {name}.converter to json, or remove it"
                raise refuse(f"is not used with {name}.converter = {converter}", remedy, f"{name}.schema")
            if converter == "avro" and not self.registry_url:
                raise refuse("requires a schema registry", "set schema.registry.url", f"{name}.converter")
        return self

    @property
    def by_record(self) -> bool:
        """Whether each record has its own types, so that Spark cannot know them beforehand."""
        return self.key_converter in _BY_RECORD or self.value_converter in _BY_RECORD

    @property
    def can_fail(self) -> bool:
        """Whether the converters can refuse some bytes."""
        return {self.key_converter, self.value_converter} - {"string", "bytes"} != set()


def decoded_columns(records: "DataFrame", options: DecodingOptions, others: Sequence[str]) -> "DataFrame":
    """Selects ``key`` and ``value``, decoded unless they are already, then ``others``."""
    import pyspark.sql.functions as F  # noqa: N812

    def column(name: str, converter: str, schema: str) -> "Column":
        if converter == "string":
            # Connect's StringConverter does the same: bytes that are not valid UTF-8 become U+FFFD.
            return F.make_valid_utf8(F.col(name).cast("string")).alias(name)
        if converter == "json":
            text = _in_characters(F.col(name).cast("string"), name)
            return F.from_json(text, schema, {"mode": "FAILFAST"}).alias(name)
        return F.col(name)

    return records.select(
        column("key", options.key_converter, options.key_schema),
        column("value", options.value_converter, options.value_schema),
        *others,
    )


def _in_characters(text: "Column", name: str) -> "Column":
    """Returns the JSON; fails if a part of it is no character, in whose place another one would be read.

    Such are bytes that are not UTF-8, and the escape of half of a surrogate pair.
    """
    import pyspark.sql.functions as F  # noqa: N812

    def refused(problem: str, shown: "Column", remedy: str) -> "Column":
        return F.raise_error(F.concat(F.lit(f"the {name} {problem}: "), shown, F.lit(f"; {remedy}")))

    valid = F.make_valid_utf8(text)
    bytes_remedy = f"write it in UTF-8, or set {name}.converter to bytes"
    not_text = refused("is not UTF-8", _around(valid, "\ufffd"), bytes_remedy)
    has_half = text.contains("\\u") & text.rlike(HALF_OF_A_PAIR)
    half_remedy = "write both halves of it, or replace it by \\ufffd"
    half = refused("has half of a surrogate pair", _around(text, HALF_OF_A_PAIR), half_remedy)
    return F.when(~F.is_valid_utf8(text), not_text).when(has_half, half).otherwise(text)


def _around(text: "Column", pattern: str) -> "Column":
    import pyspark.sql.functions as F  # noqa: N812

    return F.regexp_extract(text, rf"(?s).{{0,60}}(?:{pattern}).{{0,20}}", 0)


def fields_of_value(rows: "DataFrame") -> "DataFrame":
    """Selects the columns for tables and files without a SELECT.

    These are the fields of a value that is a struct, else all columns.
    """
    return rows.select("value.*") if dict(rows.dtypes)["value"].startswith("struct<") else rows


# --- Connect's envelope ------------------------------------------------------------------------------


def read_envelope(data: bytes) -> "tuple[pa.DataType, Any]":
    """Returns the type and the value of ``{"schema": …, "payload": …}``; raises ``Undecodable``."""
    import pyarrow as pa

    try:
        envelope = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"it is not valid JSON ({error})") from None
    if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
        raise Undecodable(
            "it is not an object with exactly schema and payload; use the converter json for plain JSON"
        )
    schema, payload = envelope["schema"], envelope["payload"]
    if schema is None:
        if payload is None:
            return pa.null(), None
        raise Undecodable("its schema is null")
    try:
        return _type(schema), _value(payload, schema, "payload")
    except Undecodable:
        raise
    except Exception as error:  # whatever the error is, these bytes cause it
        raise Undecodable(f"its schema or payload is invalid: {error!r}") from None


_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium.time."
_BELOW_MICROS = re.compile(r"[.,]\d{6}\d*[1-9]")
_WITH_MICROS = (f"{_DEBEZIUM}MicroTimestamp", f"{_DEBEZIUM}ZonedTimestamp")
_PRIMITIVES = {
    "boolean": ("bool", bool),
    "int8": ("int8", int),
    "int16": ("int16", int),
    "int32": ("int32", int),
    "int64": ("int64", int),
    "float": ("float32", (int, float)),
    "double": ("float64", (int, float)),
    "string": ("string", str),
    "bytes": ("binary", str),
}
_DIGITS = 38
EXACT = Context(prec=100)
"""For decimals that columns can have; Python's own context rounds to 28 digits."""


def _logical(schema: Mapping[str, Any]) -> str:
    """Returns the name of a logical type, Connect's or Debezium's for times with microseconds."""
    name = str(schema.get("name", ""))
    return name.removeprefix(_DEBEZIUM if name in _WITH_MICROS else _CONNECT)


def _type(schema: Mapping[str, Any]) -> "pa.DataType":
    import pyarrow as pa

    kind, logical = schema["type"], _logical(schema)
    if kind == "struct":
        return pa.struct([pa.field(one["field"], _type(one)) for one in schema["fields"]])
    if kind == "array":
        return pa.list_(_type(schema["items"]))
    if kind == "map":
        return pa.map_(_type(schema["keys"]), _type(schema["values"]))
    if logical == "Decimal":
        return pa.decimal128(_DIGITS, int(schema["parameters"]["scale"]))
    if logical in ("Timestamp", "MicroTimestamp", "ZonedTimestamp"):
        return pa.timestamp("us", tz="UTC")
    if logical in ("Date", "Time"):
        return pa.date32() if logical == "Date" else pa.string()
    return pa.type_for_alias(_PRIMITIVES[kind][0])


def _value(payload: Any, schema: Mapping[str, Any], where: str) -> Any:
    kind, logical = schema["type"], _logical(schema)
    if payload is None:
        if not schema.get("optional") and "default" not in schema:
            raise Undecodable(f"{where} is null, which its schema does not allow")
        return None if "default" not in schema else _value(schema["default"], schema, where)
    if kind == "struct":
        return {
            one["field"]: _value(payload.get(one["field"]), one, f"{where}.{one['field']}")
            for one in schema["fields"]
        }
    if kind == "array":
        return [_value(part, schema["items"], where) for part in payload]
    if kind == "map":
        pairs = payload.items() if isinstance(payload, dict) else payload
        return [
            (
                name if isinstance(payload, dict) else _value(name, schema["keys"], where),
                _value(part, schema["values"], where),
            )
            for name, part in pairs
        ]
    if logical == "Decimal" and isinstance(payload, str):
        unscaled = int.from_bytes(b64decode(payload, validate=True), "big", signed=True)
        return Decimal(unscaled).scaleb(-int(schema["parameters"]["scale"]), EXACT)
    expected = _PRIMITIVES[kind][1]
    if not isinstance(payload, expected) or (isinstance(payload, bool) and kind != "boolean"):  # type: ignore[arg-type]
        raise Undecodable(f"{where} is {json.dumps(payload)[:100]}, not of type {kind}")
    if logical == "Timestamp":
        return _EPOCH + timedelta(milliseconds=payload)
    if logical == "MicroTimestamp":
        return _EPOCH + timedelta(microseconds=payload)
    if logical == "ZonedTimestamp":
        found = datetime.fromisoformat(payload)
        if found.tzinfo is None or _BELOW_MICROS.search(payload):
            raise Undecodable(f"{where} is {payload[:100]}, no time with a zone and 6 digits")
        return found
    if logical == "Date":
        return date(1970, 1, 1) + timedelta(days=payload)
    if logical == "Time":
        return (_EPOCH + timedelta(milliseconds=payload)).time().isoformat()
    return b64decode(payload, validate=True) if kind == "bytes" else payload
