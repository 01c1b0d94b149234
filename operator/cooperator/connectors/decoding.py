"""Decodes keys and values of records into columns, as Kafka Connect's converters do.

``string``, ``bytes`` and ``json`` (whose columns are given beforehand) are Spark expressions. With
``json-schema`` and ``avro`` each record has its own types; these are decoded here, on the driver, and
consecutive rows of the same types form one table. A null has no type of its own: it takes that of its
neighbours, or the type that the unit has seen last.
"""

import json
import logging
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, model_validator
from pydantic_core import PydanticCustomError

from cooperator.connectors.memory import Memory
from cooperator.connectors.options import option, refuse
from cooperator.connectors.registry import AvroReader, RegistryOptions, Undecodable, registry_client
from cooperator.connectors.sql_rules import parse_bounded

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

log = logging.getLogger(__name__)

Converter = Literal["string", "bytes", "json", "json-schema", "avro"]
EXPECTED = (
    "string, bytes, json (its columns: {0}.schema), json-schema (Connect's envelope with schema and payload) "
    "or avro (schema.registry.url)"
)
_BY_RECORD = ("json-schema", "avro")
_MAX_SCHEMA: Final = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Decode = Callable[[bytes], "tuple[pa.DataType, Any]"]


def _ddl(value: str) -> str:
    if not value:
        return value
    if len(value) > _MAX_SCHEMA:
        raise refuse(f"has {len(value)} characters", f"use {_MAX_SCHEMA} at most")
    try:
        parse_bounded(f"CREATE TABLE t ({value})")
    except PydanticCustomError:
        raise refuse("is not a list of columns", "write names with types: id LONG, name STRING") from None
    return value


class DecodingOptions(RegistryOptions):
    key_converter: Converter = option("key.converter", "string", expected=EXPECTED.format("key"))
    value_converter: Converter = option("value.converter", "string", expected=EXPECTED.format("value"))
    key_schema: Annotated[str, AfterValidator(_ddl)] = option(
        "key.schema", "", expected="the columns of JSON keys, as DDL (id LONG, name STRING)"
    )
    value_schema: Annotated[str, AfterValidator(_ddl)] = option(
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


class Undecoded(NamedTuple):
    """A row (by its number) that could not be decoded, and the stage (one of Connect's) that failed."""

    row: int
    stage: str
    error: Undecodable


class Decoder:
    """Decodes the batches of one unit. ``memory`` keeps the types that were seen last."""

    def __init__(self, options: DecodingOptions, memory: Memory) -> None:
        import pyarrow as pa

        self._decode: dict[str, Decode] = {}
        self._readers: list[AvroReader] = []
        client = registry_client(options) if options.registry_url else None
        for name, converter in (("key", options.key_converter), ("value", options.value_converter)):
            if converter == "avro":
                assert client is not None, "checked with the options"
                self._decode[name] = reader = AvroReader(client)
                self._readers.append(reader)
            elif converter == "json-schema":
                self._decode[name] = read_envelope
        self._memory = memory
        known = memory.read()
        if known is None:
            self._last = pa.schema([(name, pa.null()) for name in self._decode])
        else:
            self._last = pa.ipc.read_schema(pa.BufferReader(known))

    def tables(self, rows: "pa.Table") -> "tuple[list[tuple[list[int], pa.Table]], list[Undecoded]]":
        """Returns the decoded rows in order, and the rows that could not be decoded.

        The tables have one type each, and come with the numbers of their rows.
        """
        import pyarrow as pa

        for reader in self._readers:
            reader.ask_again()
        groups: list[_Group] = []
        bad: list[Undecoded] = []
        columns = {name: rows.column(name).to_pylist() for name in self._decode}
        for number in range(rows.num_rows):
            decoded: dict[str, tuple[pa.DataType, Any]] = {}
            try:
                for name, decode in self._decode.items():
                    stage, data = f"{name.upper()}_CONVERTER", columns[name][number]
                    decoded[name] = (pa.null(), None) if data is None else decode(data)
            except Undecodable as error:
                bad.append(Undecoded(number, stage, error))
                continue
            if not (groups and groups[-1].takes(decoded)):
                groups.append(_Group())
            groups[-1].add(number, decoded)
        tables = []
        for group in groups:
            kinds = self._kinds(group)
            try:
                columns = group.columns(kinds)
            except Exception:  # values do not fit their types: Arrow raises many kinds of errors
                bad += group.drop_misfits(kinds)
                columns = group.columns(kinds)
            if group.numbers:
                tables.append((group.numbers, self._table(rows.take(group.numbers), columns)))
        return tables, sorted(bad, key=lambda one: one.row)

    def _kinds(self, group: "_Group") -> "dict[str, pa.DataType]":
        import pyarrow as pa

        return {
            name: self._last.field(name).type if pa.types.is_null(kind) else kind
            for name, kind in group.types.items()
        }

    def _table(self, table: "pa.Table", columns: "Mapping[str, pa.Array]") -> "pa.Table":
        import pyarrow as pa

        for name, column in columns.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, pa.field(name, column.type), column)
        self._remember(pa.schema([(name, column.type) for name, column in columns.items()]))
        return table

    def _remember(self, schema: "pa.Schema") -> None:
        if schema != self._last:
            self._last = schema
            self._memory.write(schema.serialize().to_pybytes())


class _Group:
    """Consecutive rows of the same types; a null fits any type."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.types: dict[str, Any] = {}
        self.values: dict[str, list[Any]] = {}

    def takes(self, decoded: "Mapping[str, tuple[pa.DataType, Any]]") -> bool:
        import pyarrow as pa

        known = self.types
        return all(
            pa.types.is_null(kind) or pa.types.is_null(known[name]) or kind == known[name]
            for name, (kind, _) in decoded.items()
        )

    def add(self, number: int, decoded: "Mapping[str, tuple[pa.DataType, Any]]") -> None:
        import pyarrow as pa

        self.numbers.append(number)
        for name, (kind, value) in decoded.items():
            if pa.types.is_null(self.types.get(name, pa.null())):
                self.types[name] = kind
            self.values.setdefault(name, []).append(value)

    def columns(self, kinds: "Mapping[str, pa.DataType]") -> "dict[str, pa.Array]":
        """Builds the columns; raises when a value does not fit its type."""
        import pyarrow as pa

        return {name: pa.array(values, kinds[name]) for name, values in self.values.items()}

    def drop_misfits(self, kinds: "Mapping[str, pa.DataType]") -> list[Undecoded]:
        """Removes the rows with a value that does not fit its type, such as 300 in an int8."""
        import pyarrow as pa

        misfits: dict[int, Undecoded] = {}
        for name, values in self.values.items():
            for place, value in enumerate(values):
                try:
                    pa.array([value], kinds[name])
                except Exception as error:
                    undecodable = Undecodable(f"its value does not fit its schema: {error}")
                    row = self.numbers[place]
                    misfits.setdefault(place, Undecoded(row, f"{name.upper()}_CONVERTER", undecodable))
        kept = [place for place in range(len(self.numbers)) if place not in misfits]
        self.numbers = [self.numbers[place] for place in kept]
        self.values = {name: [values[place] for place in kept] for name, values in self.values.items()}
        return list(misfits.values())


def decoded_columns(records: "DataFrame", options: DecodingOptions, others: Sequence[str]) -> "DataFrame":
    """Selects ``key`` and ``value``, decoded unless they are already, then ``others``."""
    import pyspark.sql.functions as F  # noqa: N812

    def column(name: str, converter: str, schema: str) -> "Column":
        if converter == "string":
            # Connect's StringConverter does the same: bytes that are not valid UTF-8 become U+FFFD.
            return F.make_valid_utf8(F.col(name).cast("string")).alias(name)
        if converter == "json":
            return F.from_json(F.col(name).cast("string"), schema, {"mode": "FAILFAST"}).alias(name)
        return F.col(name)

    return records.select(
        column("key", options.key_converter, options.key_schema),
        column("value", options.value_converter, options.value_schema),
        *others,
    )


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


def _type(schema: Mapping[str, Any]) -> "pa.DataType":
    import pyarrow as pa

    kind, logical = schema["type"], str(schema.get("name", "")).removeprefix(_CONNECT)
    if kind == "struct":
        return pa.struct([pa.field(one["field"], _type(one)) for one in schema["fields"]])
    if kind == "array":
        return pa.list_(_type(schema["items"]))
    if kind == "map":
        return pa.map_(_type(schema["keys"]), _type(schema["values"]))
    if logical == "Decimal":
        return pa.decimal128(_DIGITS, int(schema["parameters"]["scale"]))
    if logical == "Timestamp":
        return pa.timestamp("us", tz="UTC")
    if logical in ("Date", "Time"):
        return pa.date32() if logical == "Date" else pa.string()
    return pa.type_for_alias(_PRIMITIVES[kind][0])


def _value(payload: Any, schema: Mapping[str, Any], where: str) -> Any:
    kind, logical = schema["type"], str(schema.get("name", "")).removeprefix(_CONNECT)
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
        return Decimal(unscaled).scaleb(-int(schema["parameters"]["scale"]))
    expected = _PRIMITIVES[kind][1]
    if not isinstance(payload, expected) or (isinstance(payload, bool) and kind != "boolean"):  # type: ignore[arg-type]
        raise Undecodable(f"{where} is {json.dumps(payload)[:100]}, not of type {kind}")
    if logical == "Timestamp":
        return _EPOCH + timedelta(milliseconds=payload)
    if logical == "Date":
        return date(1970, 1, 1) + timedelta(days=payload)
    if logical == "Time":
        return (_EPOCH + timedelta(milliseconds=payload)).time().isoformat()
    return b64decode(payload, validate=True) if kind == "bytes" else payload
