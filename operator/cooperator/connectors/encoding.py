"""The forms of keys and values that are written to topics, as Kafka Connect's converters write them.

``json`` is the plain value; ``json-schema`` is Connect's envelope of ``schema`` and ``payload``, with its
logical types for decimals, dates and times, as its JsonConverter reads and writes it; ``string`` is text.
Connect's times have milliseconds, so those with more digits have the types that Debezium gave them. The types
of values are Arrow's.
"""

from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import model_validator

from cooperator.connectors.options import option, refuse
from cooperator.connectors.registry import RegistryOptions

if TYPE_CHECKING:
    import pyarrow as pa

Converter = Literal["json", "json-schema", "avro", "string"]
_EXPECTED = (
    "json, json-schema (Connect's envelope with schema and payload), avro (schema.registry.url) or string"
)

_LOGICAL = "org.apache.kafka.connect.data."
_MICROS: Final = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1}
_ZONED: Final = {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1}
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
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        return {"type": "int64", "name": f"{_LOGICAL}Timestamp", "version": 1, **named}
    if pa.types.is_timestamp(kind):
        return {**(_MICROS if kind.tz is None else _ZONED), **named}
    return {"type": _PRIMITIVES[str(kind)], **named}
