"""Records that Spark's tasks make of rows have the bytes of those that Python makes of the same values."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

import cooperator.runtime
from cooperator.connectors.encoding import EncodingOptions
from cooperator.connectors.options import parse
from cooperator.connectors.postgres_columns import Column
from cooperator.connectors.postgres_source import SourceTable
from cooperator.connectors.registry import avro_schema
from cooperator.connectors.tablelogs import forms
from tests.harness import encoders
from tests.harness.encoders import encoder, zoned
from tests.harness.examples import examples

ID = 7
TIMES = st.datetimes(max_value=datetime.fromisoformat("2200-01-01"))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(width=32),
    "double precision": st.floats(),
    "bytea": st.binary(max_size=20),
    "date": st.dates(),
    "timestamp without time zone": TIMES,
    "timestamp(6) with time zone": TIMES.map(lambda at: at.replace(tzinfo=UTC)),
    "timestamp(3) without time zone": TIMES.map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
    "timestamp(0) with time zone": TIMES.map(lambda at: at.replace(microsecond=0, tzinfo=UTC)),
    "numeric(10,2)": st.decimals(-(10**7), 10**7, places=2),
    "numeric(38,0)": st.integers(-(10**37), 10**37).map(Decimal),
    "jsonb": TEXTS,
    "character varying(9)": TEXTS,
}


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark's classes; nothing of Spark runs there."""
    jars = Path(pyspark.__file__).parent / "jars"
    own = Path(cooperator.runtime.__file__).parent / "jars" / "cooperator-spark.jar"
    [py4j] = jars.glob("py4j*.jar")
    port = launch_gateway(
        classpath=f"{jars}/*:{own}",
        die_on_exit=True,
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
        jarpath=str(py4j),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()


def text_of(value: Any, in_array: bool = False) -> str:
    """Returns a value as PostgreSQL writes it (DateStyle ISO, time zone UTC)."""
    match value:
        case list():
            return "{" + ",".join("NULL" if each is None else quoted(each) for each in value) + "}"
        case bool():
            return ("t" if in_array else "true") if value else ("f" if in_array else "false")
        case float():
            found = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
            return found.removesuffix(".0")
        case bytes():
            return rf"\x{value.hex()}"
        case datetime():
            found = f"{value:%Y-%m-%d %H:%M:%S}".rjust(19, "0")
            fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
            return f"{found}{fraction}{'+00' if value.tzinfo else ''}"
        case Decimal():
            return format(value, "f")
    return str(value)


def quoted(value: Any) -> str:
    if isinstance(value, list):
        return text_of(value)
    text = text_of(value, in_array=True)
    if isinstance(value, bool | int | float | Decimal):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class FakeSerializer:
    """Writes Avro as Confluent's serializer does, with a registry that knows one id."""

    def __init__(self, client: Any, topic: str, kind: pa.DataType, name: str, is_key: bool) -> None:
        from fastavro import parse_schema

        self._schema = parse_schema(avro_schema(kind, name))

    def __call__(self, value: Any) -> bytes:
        from io import BytesIO

        from fastavro import schemaless_writer

        into = BytesIO()
        schemaless_writer(into, self._schema, zoned(value))
        return b"\0" + ID.to_bytes(4, "big") + into.getvalue()


def both(
    jvm: Any, monkeypatch: pytest.MonkeyPatch, table: SourceTable, converter: str, row: Sequence[Any]
) -> tuple[tuple[bytes | None, bytes | None], tuple[bytes | None, bytes | None]]:
    """Returns the record that Python makes of a row, and the one that Java makes of its texts."""
    options = options_of(converter)
    monkeypatch.setattr(encoders, "AvroWriter", FakeSerializer)
    schema = pa.schema([(column.name, column.arrow) for column in table.columns])
    encode: Any = encoder(options, schema, table.key, "topic", table.name)
    wanted = encode({column.name: value for column, value in zip(table.columns, row, strict=True)})
    return wanted, by_java(jvm, monkeypatch, table, converter, row)


def options_of(converter: str) -> EncodingOptions:
    config = {"connector.class": "x", "key.converter": converter, "value.converter": converter}
    return parse(EncodingOptions, {**config, "schema.registry.url": "http://registry:1"})


def by_java(
    jvm: Any, monkeypatch: pytest.MonkeyPatch, table: SourceTable, converter: str, row: Sequence[Any]
) -> tuple[bytes | None, bytes | None]:
    monkeypatch.setattr(forms, "registered", lambda client, subject, schema: ID)
    spec = forms.RecordForms(options_of(converter), table, "topic").specs()
    texts = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(row))
    for index, value in enumerate(row):
        texts[index] = None if value is None else text_of(value)
    columns = json.dumps([column.spec for column in table.columns])
    key = spec["key"] and java_bytes(jvm, json.dumps(spec["key"]), columns, texts)
    return key, java_bytes(jvm, json.dumps(spec["value"]), columns, texts)


def java_bytes(jvm: Any, form: str, columns: str, texts: Any) -> bytes:
    """Calls ``new RowEncoder(form, columns).encode(texts)``: the class is not public."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    of = jvm.java.lang.Class.forName
    package = "dev.cooperator.spark."
    tree = of("com.fasterxml.jackson.databind.JsonNode")

    def call(name: str, method: str, target: Any, kinds: list[Any], *arguments: Any) -> Any:
        classes = jvm.java.lang.reflect.Array.newInstance(of("java.lang.Class"), len(kinds))
        values = jvm.java.lang.reflect.Array.newInstance(of("java.lang.Object"), len(kinds))
        for index, (kind, argument) in enumerate(zip(kinds, arguments, strict=True)):
            classes[index], values[index] = kind, argument
        if method == "new":
            found = of(name).getDeclaredConstructor(classes)
            found.setAccessible(True)
            return found.newInstance(values)
        found = of(name).getDeclaredMethod(method, classes)
        found.setAccessible(True)
        return found.invoke(target, values)

    encoder_class, form_class = f"{package}RowEncoder", f"{package}RowEncoder$Form"
    spec = call(form_class, "of", None, [tree], mapper.readTree(form))
    of_columns = call(f"{package}TableColumn", "list", None, [tree], mapper.readTree(columns))
    made = call(encoder_class, "new", None, [of(form_class), of("java.util.List")], spec, of_columns)
    return bytes(call(encoder_class, "encode", made, [of("[Ljava.lang.String;")], texts))


def table(*types: str, key: Sequence[int] = ()) -> SourceTable:
    columns = tuple(Column(f"c{index}", kind) for index, kind in enumerate(types))
    return SourceTable("shop.orders", columns, tuple(f"c{index}" for index in key), (), 0, "UTC")


CONVERTERS = st.sampled_from(["json", "json-schema", "avro", "string"])
TYPES = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda kind: (
            st.tuples(st.just(f"{kind}[]"), st.none() | st.lists(st.none() | VALUES[kind], max_size=4))
            | st.tuples(st.just(kind), st.none() | VALUES[kind])
        )
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=examples(20, long=50))
@given(CONVERTERS, TYPES, st.integers(0, 3), st.data())
def test_records_of_any_rows_are_those_that_python_makes(
    jvm: Any, converter: str, values: list[tuple[str, Any]], keys: int, data: st.DataObject
) -> None:
    key_types = [data.draw(st.sampled_from(sorted(VALUES))) for _ in range(keys)]
    row = [data.draw(VALUES[kind]) for kind in key_types] + [value for _, value in values]
    found = table(*key_types, *(kind for kind, _ in values), key=range(keys))
    with pytest.MonkeyPatch.context() as monkeypatch:
        wanted, made = both(jvm, monkeypatch, found, converter, row)
    assert made == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double precision", 1e16),
        ("double precision", 123456789012345680.0),
        ("double precision", 0.0001),
        ("double precision", 1e-05),
        ("double precision", -0.0),
        ("double precision", 1.5e300),
        ("text", '\x01\x1f\x7f"\\é\u2028😀'),
        ("text", ""),
        ("text[]", ["", "NULL", "null", "a,b", "{", '"', "\\", " "]),
        ("integer[]", []),
        ("numeric(6,2)", Decimal("-1.28")),
        ("timestamp without time zone", datetime.fromisoformat("2024-01-01T00:00:00.000500")),
        ("date", date(1, 1, 1)),
    ],
)
@pytest.mark.parametrize("converter", ["json", "json-schema", "avro"])
def test_the_rare_values_of_types(
    jvm: Any, monkeypatch: pytest.MonkeyPatch, converter: str, kind: str, value: Any
) -> None:
    wanted, made = both(jvm, monkeypatch, table(kind), converter, [value])
    assert made == wanted


@pytest.mark.parametrize(
    ("converter", "kind", "value"),
    [
        ("json-schema", "integer[]", [[1, 2], [3, None]]),
        ("json-schema", "date[]", [[date(1, 1, 1)]]),
        ("avro", "integer[]", [[1, 2], [3, None]]),
    ],
)
def test_arrays_of_arrays_do_not_pass_where_a_schema_says_otherwise(
    jvm: Any, monkeypatch: pytest.MonkeyPatch, converter: str, kind: str, value: Any
) -> None:
    wanted, made = both(jvm, monkeypatch, table(kind), "json", [value])
    assert made == wanted
    with pytest.raises(Py4JJavaError, match="schemas have no arrays of arrays"):
        by_java(jvm, monkeypatch, table(kind), converter, [value])
