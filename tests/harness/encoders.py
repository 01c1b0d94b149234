"""Encodes rows in Python as Kafka Connect's converters do, for tests of what reads and writes such bytes."""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from cooperator.connectors.decoding import EXACT
from cooperator.connectors.encoding import Converter, EncodingOptions, connect_schema
from cooperator.connectors.exactly_once import Row
from cooperator.connectors.registry import avro_schema, registry_client, schema_name

Encode = Callable[[Any], bytes]
_EPOCH = date(1970, 1, 1).toordinal()
_UNITS = {"ms": "milliseconds", "us": "microseconds"}


def encoder(
    options: EncodingOptions, schema: pa.Schema, key: Sequence[str], topic: str, name: str
) -> Callable[[Mapping[str, Any]], Row]:
    """Returns a function that makes a record of a row.

    The key is the column in ``key``, or a struct if there are several; without any there is no key. The value
    has all columns. ``name`` is the name of the rows' type in schemas.
    """
    client = registry_client(options) if options.registry_url else None

    def encode(converter: Converter, kind: pa.DataType, is_key: bool) -> Encode:
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


def connect_payload(value: Any, kind: pa.DataType) -> Any:
    """Returns a value as the payload for ``connect_schema``."""
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
        if kind.unit == "us" and kind.tz is not None:
            return value.isoformat().replace("+00:00", "Z")
        # A time without a zone is UTC, as everywhere in Connect.
        at = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(**{_UNITS[kind.unit]: 1})
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    return _plain(value)


def json_schema_encoder(kind: pa.DataType) -> Encode:
    schema = connect_schema(kind)

    def encode(value: Any) -> bytes:
        envelope = {"schema": schema, "payload": connect_payload(value, kind)}
        return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()

    return encode


def text_bytes(value: Any) -> bytes:
    """Encodes a string as it is, and anything else as its JSON."""
    return value.encode() if isinstance(value, str) else json_bytes(value).strip(b'"')


class AvroWriter:
    """Writes values of one type as Avro.

    The schema is registered under ``<topic>-key`` or ``<topic>-value``, as Connect's converter does.
    Everything is nullable.
    """

    def __init__(
        self, client: SchemaRegistryClient, topic: str, kind: pa.DataType, name: str, is_key: bool
    ) -> None:
        schema = avro_schema(kind, schema_name(name))
        self._context = SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)
        self._serialize = AvroSerializer(client, json.dumps(schema))

    def __call__(self, value: Any) -> bytes:
        return bytes(self._serialize(zoned(value), self._context) or b"")


def zoned(value: Any) -> Any:
    """Takes times without a zone as UTC: the library would take the machine's zone."""
    if isinstance(value, Mapping):
        return {name: zoned(part) for name, part in value.items()}
    if isinstance(value, list):
        return [zoned(part) for part in value]
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
