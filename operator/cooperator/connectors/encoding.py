"""Encodes rows as bytes of keys and values, as Kafka Connect's converters do.

``json`` is the plain value; ``json-schema`` is Connect's envelope of ``schema`` and ``payload``, with its
logical types for decimals, dates and times, as its JsonConverter reads and writes it; ``string`` is text. The
types of values are Arrow's.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from cooperator.connectors.decoding import EXACT
from cooperator.connectors.exactly_once import Row
from cooperator.connectors.options import option, refuse
from cooperator.connectors.registry import AvroWriter, RegistryOptions, registry_client

if TYPE_CHECKING:
    import pyarrow as pa

Encode = Callable[[Any], bytes]
Converter = Literal["json", "json-schema", "avro", "string"]
_EXPECTED = (
    "json, json-schema (Connect's envelope with schema and payload), avro (schema.registry.url) or string"
)

_LOGICAL = "org.apache.kafka.connect.data."
_EPOCH = date(1970, 1, 1).toordinal()
_PRIMITIVES = {
    "bool": "boolean",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
}


class EncodingOptions(RegistryOptions):
    """The default conversion of rows to keys and values, without a SELECT."""

    key_converter: Converter = option("key.converter", "json", expected=_EXPECTED)
    value_converter: Converter = option("value.converter", "json", expected=_EXPECTED)

    @model_validator(mode="after")
    def _avro_has_a_registry(self) -> Self:
        for name, converter in (("key", self.key_converter), ("value", self.value_converter)):
            if converter == "avro" and not self.registry_url:
                raise refuse("requires a schema registry", "set schema.registry.url", f"{name}.converter")
        return self


def encoder(
    options: EncodingOptions, schema: "pa.Schema", key: Sequence[str], topic: str, name: str
) -> Callable[[Mapping[str, Any]], Row]:
    """Returns a function that makes a record of a row.

    The key is the column in ``key``, or a struct if there are several; without any there is no key. The value
    has all columns. ``name`` is the name of the rows' type in schemas.
    """
    import pyarrow as pa

    client = registry_client(options) if options.registry_url else None

    def encode(converter: Converter, kind: "pa.DataType", is_key: bool) -> Encode:
        if converter == "avro":
            assert client is not None, "checked with the options"
            return AvroWriter(client, topic, kind, f"{name}_key" if is_key else name, is_key)
        if converter == "json-schema":
            return json_schema_encoder(kind)
        return json_bytes if converter == "json" else text_bytes

    value_of = encode(options.value_converter, pa.struct(list(schema)), False)
    if not key:
        return lambda row: (None, value_of(row))
    if len(key) == 1:
        [alone] = key
        key_of = encode(options.key_converter, schema.field(alone).type, True)
        return lambda row: (key_of(row[alone]), value_of(row))
    key_of = encode(options.key_converter, pa.struct([schema.field(name) for name in key]), True)
    return lambda row: (key_of({name: row[name] for name in key}), value_of(row))


def json_bytes(value: Any) -> bytes:
    """Encodes compact JSON.

    Decimals, dates and times become strings, and bytes become base64; numbers that JSON does not have
    (``NaN``) become strings, too.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):  # a datetime is a date, too
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def connect_schema(kind: "pa.DataType", field: str | None = None) -> dict[str, Any]:
    """Returns the schema of a type as Connect's JsonConverter writes it; everything is optional."""
    import pyarrow as pa

    named = {"optional": True} if field is None else {"optional": True, "field": field}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [connect_schema(one.type, one.name) for one in kind], **named}
    if pa.types.is_list(kind):
        return {"type": "array", "items": connect_schema(kind.value_type), **named}
    if pa.types.is_decimal(kind):
        logical = {"name": f"{_LOGICAL}Decimal", "version": 1, "parameters": {"scale": str(kind.scale)}}
        return {"type": "bytes", **logical, **named}
    if pa.types.is_date(kind):
        return {"type": "int32", "name": f"{_LOGICAL}Date", "version": 1, **named}
    if pa.types.is_timestamp(kind):
        return {"type": "int64", "name": f"{_LOGICAL}Timestamp", "version": 1, **named}
    return {"type": _PRIMITIVES[str(kind)], **named}


def connect_payload(value: Any, kind: "pa.DataType") -> Any:
    """Returns a value as the payload for ``connect_schema``."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: connect_payload(value[one.name], one.type) for one in kind}
    if pa.types.is_list(kind):
        return [connect_payload(part, kind.value_type) for part in value]
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(kind.scale, EXACT))
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    if isinstance(value, datetime):
        # A time without a zone is UTC, as everywhere in Connect.
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    return _plain(value)


def json_schema_encoder(kind: "pa.DataType") -> Encode:
    schema = connect_schema(kind)

    def encode(value: Any) -> bytes:
        envelope = {"schema": schema, "payload": connect_payload(value, kind)}
        return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()

    return encode


def text_bytes(value: Any) -> bytes:
    """Encodes a string as it is, and anything else as its JSON."""
    return value.encode() if isinstance(value, str) else json_bytes(value).strip(b'"')
