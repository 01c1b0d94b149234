"""Avro schemas of a registry: conversion to and from Arrow's types, and of values between bytes and Python.

The bytes have the format of Confluent's serializers: a zero, the schema's id in the registry (four bytes),
and the value by that schema. The registry is queried once for each id, and once per batch for an id that it
lacks.
"""

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator

from cooperator.connectors.base import ServiceAway
from cooperator.connectors.options import OptionError, Problem, option, refuse
from cooperator.connectors.spark import SparkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.schema_registry import SchemaRegistryClient

_TIMEOUT_S = 5
_AGAIN_S = 2.0
"""A registry that did not answer is not asked again for so long: records of other schemas go on meanwhile."""
_BUSY = (408, 425, 429)
_SHOWN = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNNAMED = re.compile(r"[^A-Za-z0-9_]")
_SIMPLE = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_LOGICAL = {
    "timestamp-millis": "UTC",
    "timestamp-micros": "UTC",
    "local-timestamp-millis": None,
    "local-timestamp-micros": None,
}
_TIMES = {"time-millis": "string", "time-micros": "string"}
_ALIASES = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
}


class Undecodable(ValueError):
    """The converter cannot read the bytes."""


def _urls(value: str) -> str:
    for url in filter(None, value.split(",")):
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            remedy = "write http://host:8081; put credentials into schema.registry.basic.auth.user.info"
            raise refuse("is not the URL of a registry", remedy)
    return value


class RegistryOptions(SparkOptions):
    """The registry of Avro schemas."""

    registry_url: Annotated[str, AfterValidator(_urls)] = option(
        "schema.registry.url",
        "",
        expected="the registry's URL, such as http://registry:8081, for avro converters",
    )
    registry_auth: str = option(
        "schema.registry.basic.auth.user.info",
        "",
        expected="a reference to user:password of the registry",
        secret=True,
    )


def registry_client(options: RegistryOptions) -> "SchemaRegistryClient":
    from confluent_kafka.schema_registry import SchemaRegistryClient

    # The loop of the task tries again, and shows what it waits for.
    config: dict[str, Any] = {"url": options.registry_url, "timeout": _TIMEOUT_S, "max.retries": 0}
    if options.registry_auth:
        config["basic.auth.user.info"] = options.registry_auth
    return SchemaRegistryClient(config)


@contextmanager
def waiting_for(url: str) -> "Iterator[None]":
    """Raises ``ServiceAway`` for errors of a registry that pass: it is not reached, or cannot answer now."""
    from confluent_kafka.schema_registry.common._httpx_compat import httpx
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        if error.http_status_code < 500 and error.http_status_code not in _BUSY:
            raise
        raise _away(url, f"it answers {error.http_status_code}: {error.error_message}") from error
    except httpx.TransportError as error:
        if _is_about_a_certificate(error):
            raise
        raise _away(url, str(error) or type(error).__name__) from error


def _away(url: str, cause: str) -> ServiceAway:
    remedy = "start it, or correct schema.registry.url"
    return ServiceAway(f"waiting for the schema registry {url} ({cause[:_SHOWN]}); {remedy}")


def _is_about_a_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Loaded(NamedTuple):
    """A schema, parsed and as texts (those that it refers to first), and the type of its values."""

    schema: Any
    kind: "pa.DataType"
    texts: tuple[str, ...]


class AvroReader:
    """Reads values of any schema in the registry. It is thread-safe."""

    def __init__(
        self,
        client: "SchemaRegistryClient",
        url: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``url`` is shown while the registry is waited for; ``clock`` returns seconds."""
        self._client = client
        self._url = url
        self._clock = clock
        self._away: ServiceAway | None = None
        self._ask_at_s = 0.0
        self._lock = threading.Lock()
        self._known: dict[int, _Loaded] = {}
        self._unusable: dict[int, str] = {}

    def ask_again(self) -> None:
        """Forgets schemas that were missing or unusable, since they may be there now.

        Call it before each batch, so that many records with such an id query the registry once.
        """
        with self._lock:
            self._unusable.clear()

    def __call__(self, data: bytes) -> "tuple[pa.DataType, Any]":
        """Returns the type of a value and the value.

        Raises ``Undecodable``, ``ServiceAway``, and errors of the registry.
        """
        from io import BytesIO

        from fastavro import schemaless_reader

        if len(data) < 5 or data[0] != 0:
            raise Undecodable("it does not begin with a zero byte and a schema id")
        schema_id = int.from_bytes(data[1:5], "big")
        schema, kind, _ = self._schema(schema_id)
        try:
            value = schemaless_reader(BytesIO(data[5:]), schema, None)
        except Exception as error:  # whatever the error is, these bytes cause it
            problem = str(error) or type(error).__name__
            raise Undecodable(f"it does not fit schema {schema_id}: {problem}") from None
        return kind, _python(value)

    def schemas(self, kind: "pa.DataType") -> Mapping[int, tuple[str, ...]]:
        """Returns the schemas met so far whose values are of this type: their texts, by id."""
        with self._lock:
            return {number: one.texts for number, one in self._known.items() if one.kind == kind}

    def _schema(self, schema_id: int) -> _Loaded:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        with self._lock:
            if schema_id in self._unusable:
                raise Undecodable(self._unusable[schema_id])
            if schema_id not in self._known:
                try:
                    self._known[schema_id] = self._asked(schema_id)
                except SchemaRegistryError as error:
                    if error.http_status_code != 404:
                        raise
                    self._unusable[schema_id] = f"the registry has no schema {schema_id}"
                    raise Undecodable(self._unusable[schema_id]) from None
                except Undecodable as error:
                    self._unusable[schema_id] = str(error)
                    raise
            return self._known[schema_id]

    def _asked(self, schema_id: int) -> _Loaded:
        if self._away is not None and self._clock() < self._ask_at_s:
            raise ServiceAway(str(self._away))
        try:
            with waiting_for(self._url):
                found = _loaded(self._client, schema_id)
        except ServiceAway as error:
            self._away, self._ask_at_s = error, self._clock() + _AGAIN_S
            raise
        self._away = None
        return found


def reader_of(options: RegistryOptions) -> AvroReader | None:
    """Returns a reader for the options' registry; None: there is none."""
    return AvroReader(registry_client(options), options.registry_url) if options.registry_url else None


def _loaded(client: "SchemaRegistryClient", schema_id: int) -> _Loaded:
    """Returns a parsed schema and the type of its values.

    Raises ``Undecodable`` for a schema that is unusable, and errors of the registry.
    """
    import json

    from fastavro import parse_schema

    texts: list[str] = []

    def load(schema: Any) -> None:
        if schema.schema_type not in (None, "AVRO"):
            raise Undecodable(f"schema {schema_id} is of type {schema.schema_type}, not AVRO")
        for reference in schema.references or ():
            load(client.get_version(reference.subject, reference.version).schema)
        texts.append(schema.schema_str)

    load(client.get_schema(schema_id))
    named: dict[str, Any] = {}
    try:
        parsed: Any = None
        for text in texts:
            parsed = parse_schema(json.loads(text), named_schemas=named)
        return _Loaded(parsed, arrow_type(parsed, named), tuple(texts))
    except Undecodable:
        raise
    except Exception as error:  # whatever the error is, the schema causes it
        problem = str(error) or type(error).__name__
        raise Undecodable(f"schema {schema_id} has no column type: {problem}") from None


def arrow_type(schema: Any, named: Mapping[str, Any]) -> "pa.DataType":
    """Returns the type of values of a parsed schema; ``named`` holds the schemas that it refers to, by name.

    Raises ``Undecodable`` for types that columns cannot have: unions of several types, types that contain
    themselves.
    """
    import pyarrow as pa

    entered: list[str] = []

    def of(part: Any) -> pa.DataType:
        if isinstance(part, list):
            others = [one for one in part if one != "null"]
            if len(others) > 1:
                raise Undecodable(f"a union of {len(others)} types has no column type")
            return of(others[0]) if others else pa.null()
        if isinstance(part, str) and part not in _SIMPLE:
            if part in entered:
                raise Undecodable(f"{part} contains itself, which has no column type")
            part = named[part]
        name, logical = (part, "") if isinstance(part, str) else (part["type"], part.get("logicalType", ""))
        if name == "record":
            entered.append(part["name"])
            struct = pa.struct([pa.field(one["name"], of(one["type"])) for one in part["fields"]])
            entered.pop()
            return struct
        if name == "array":
            return pa.list_(of(part["items"]))
        if name == "map":
            return pa.map_(pa.string(), of(part["values"]))
        if name not in _SIMPLE:
            return of(name)
        if logical == "decimal":
            return pa.decimal128(part["precision"], part.get("scale", 0))
        if logical in _LOGICAL:
            return pa.timestamp("us", tz=_LOGICAL[logical])
        return pa.type_for_alias({"date": "date32", **_TIMES}.get(logical, _SIMPLE[name]))

    return of(schema)


def _python(value: Any) -> Any:
    """Returns a value that Arrow accepts."""
    if isinstance(value, dict):
        return {name: _python(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_python(part) for part in value]
    if isinstance(value, UUID) or type(value).__name__ == "time":
        return str(value)
    return value


def registered(client: "SchemaRegistryClient", subject: str, schema: Any) -> int:
    """Registers a schema as Connect's converter does, and returns its id. Raises errors of the registry."""
    import json

    from confluent_kafka.schema_registry import Schema

    text = json.dumps(schema if isinstance(schema, dict) else {"type": schema})
    return int(client.register_schema(subject, Schema(text, "AVRO")))


def schema_name(name: str) -> str:
    """Returns a valid name in Avro for the rows of a table."""
    return _UNNAMED.sub("_", name)


def avro_schema(kind: "pa.DataType", name: str) -> Any:
    """Returns the schema of a type; raises ``OptionError`` when a field's name is not valid in Avro."""
    import pyarrow as pa

    def of(part: pa.DataType, path: str) -> Any:
        if pa.types.is_struct(part):
            fields = []
            for field in part:
                if not _NAME.match(field.name):
                    remedy = "rename it (transform.sql, a view), or use another converter"
                    problem = (
                        f"cannot encode the column {field.name}: Avro names have letters, digits, underscores"
                    )
                    raise OptionError([Problem("value.converter", "avro", problem, remedy)])
                inside = of(field.type, f"{path}_{field.name}")
                fields.append({"name": field.name, "type": ["null", inside], "default": None})
            return {"type": "record", "name": path, "fields": fields}
        if pa.types.is_list(part):
            return {"type": "array", "items": ["null", of(part.value_type, path)]}
        if pa.types.is_decimal(part):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": part.precision,
                "scale": part.scale,
            }
        if pa.types.is_date(part):
            return {"type": "int", "logicalType": "date"}
        if pa.types.is_timestamp(part):
            return {"type": "long", "logicalType": f"timestamp-{'millis' if part.unit == 'ms' else 'micros'}"}
        return _ALIASES[str(part)]

    return of(kind, name if _NAME.match(name) else f"_{name}")
