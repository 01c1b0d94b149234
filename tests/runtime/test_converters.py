"""Converters read what they write, and what Kafka Connect's and Confluent's converters write."""

import json
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from hypothesis import example, given
from hypothesis import strategies as st

from cooperator.connectors.decoder import Decoder
from cooperator.connectors.decoding import HALF_OF_A_PAIR, DecodingOptions, read_envelope
from cooperator.connectors.encoding import EncodingOptions
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.options import parse
from cooperator.connectors.registry import AvroReader, Undecodable
from tests.harness.encoders import AvroWriter, encoder, json_schema_encoder
from tests.runtime.registry import Registry

ROW = pa.struct(
    [
        ("yes", pa.bool_()),
        ("small", pa.int16()),
        ("big", pa.int64()),
        ("real", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("many", pa.list_(pa.int32())),
    ]
)
MOMENTS = st.integers(-(10**15), 10**16).map(
    lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
ROWS = st.fixed_dictionaries(
    {
        "yes": st.none() | st.booleans(),
        "small": st.none() | st.integers(-(2**15), 2**15 - 1),
        "big": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "money": st.none() | st.decimals(-99_999_999, 99_999_999, places=2),
        "text": st.none() | st.text(),
        "raw": st.none() | st.binary(),
        "day": st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "at": st.none() | MOMENTS,
        "many": st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)),
    }
)


@given(ROWS)
def test_an_envelope_is_read_as_it_was_written(row: dict[str, Any]) -> None:
    kind, value = read_envelope(json_schema_encoder(ROW)(row))
    assert value == row
    assert [field.name for field in kind] == [field.name for field in ROW]
    assert pa.array([value], kind).to_pylist() == [row], "the value does not fit the type"


@pytest.mark.real
def test_avro_is_read_as_it_was_written(registry: Registry, unique: str) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    write, read = AvroWriter(client, unique, ROW, "shop.orders", False), AvroReader(client)

    @given(ROWS)
    def there_and_back(row: dict[str, Any]) -> None:
        kind, value = read(write(row))
        assert value == row
        assert pa.array([value], kind).to_pylist() == [row]

    there_and_back()
    # All tests of this file share the registry.
    [registered] = [subject for subject in client.get_subjects() if unique in subject]
    assert registered == f"{unique}-value"


@pytest.mark.real
def test_schemas_may_have_references_and_named_types_and_come_from_other_writers(
    registry: Registry, unique: str
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    place = {"type": "record", "name": "shop.Place", "fields": [{"name": "city", "type": "string"}]}
    client.register_schema(f"{unique}-place", Schema(json.dumps(place), "AVRO"))
    kind = {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "kind", "type": kind},
            {"name": "before", "type": ["null", "shop.Kind"]},
            {"name": "place", "type": "shop.Place"},
            {"name": "tags", "type": {"type": "map", "values": "long"}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    reference = SchemaReference("shop.Place", f"{unique}-place", 1)
    schema_id = client.register_schema(f"{unique}-value", Schema(json.dumps(order), "AVRO", [reference]))
    uuid = "00000000-0000-0000-0000-00000000000a"
    # Enum 1, union's second branch with enum 0, "Bonn", one tag, the text of the uuid.
    body = b"\x02\x02\x00" + b"\x08Bonn" + b"\x02\x02a\x0e\x00" + bytes([72]) + uuid.encode()
    found, value = AvroReader(client)(b"\x00" + schema_id.to_bytes(4, "big") + body)
    assert value == {"kind": "OLD", "before": "NEW", "place": {"city": "Bonn"}, "tags": {"a": 7}, "id": uuid}
    assert found == pa.struct(
        [
            ("kind", pa.string()),
            ("before", pa.string()),
            ("place", pa.struct([("city", pa.string())])),
            ("tags", pa.map_(pa.string(), pa.int64())),
            ("id", pa.string()),
        ]
    )


@pytest.mark.real
@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ("", b"{}", "it does not begin with a zero byte and a schema id"),
        ("", b"\x00\x7f\xff\xff\xff\x00", "the registry has no schema 2147483647"),
        ('"string"', b"\x08abc", "it does not fit schema"),
        ('["long", "string"]', b"\x00\x02", "a union of 2 types has no column type"),
        (
            '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}',
            b"\x00",
            "Node contains itself, which has no column type",
        ),
    ],
)
def test_bytes_that_are_no_avro_are_reported_as_such(
    registry: Registry, unique: str, schema: str, data: bytes, problem: str
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    if schema:
        schema_id = client.register_schema(f"{unique}-value", Schema(schema, "AVRO"))
        data = b"\x00" + schema_id.to_bytes(4, "big") + data
    with pytest.raises(Undecodable, match=problem):
        AvroReader(client)(data)


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        (b"{", "it is not valid JSON"),
        (b'{"id": 1}', "not an object with exactly schema and payload"),
        (b'{"schema": null, "payload": 1}', "its schema is null"),
        (b'{"schema": {"type": "int64"}, "payload": "1"}', 'payload is "1", not of type int64'),
        (
            b'{"schema": {"type": "int64"}, "payload": null}',
            "payload is null, which its schema does not allow",
        ),
        (b'{"schema": {"type": "int9"}, "payload": 1}', "its schema or payload is invalid"),
        (b'{"schema": {"type": "bytes"}, "payload": "%"}', "its schema or payload is invalid"),
        *(
            (
                b'{"schema": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "payload": "%s"}'
                % time,
                "no time with a zone and 6 digits",
            )
            for time in (b"2026-11-28T12:30:45", b"2026-11-28T12:30:45.1234567Z")
        ),
        (
            b'{"schema": {"type": "struct", "fields": [{"field": "a", "type": "string"}]}, "payload": {}}',
            "payload.a is null",
        ),
    ],
)
def test_values_that_are_no_envelope_are_reported_as_such(envelope: bytes, problem: str) -> None:
    with pytest.raises(Undecodable, match=problem):
        read_envelope(envelope)


@pytest.mark.parametrize(
    ("schema", "payload", "moment"),
    [
        ('"int64", "name": "org.apache.kafka.connect.data.Timestamp"', "1500", "1970-01-01T00:00:01.500Z"),
        ('"int64", "name": "io.debezium.time.MicroTimestamp"', "-1", "1969-12-31T23:59:59.999999Z"),
        (
            '"string", "name": "io.debezium.time.ZonedTimestamp"',
            '"2026-11-28T14:00:00.1234560+01:30"',
            "2026-11-28T12:30:00.123456Z",
        ),
    ],
)
def test_times_of_connect_and_of_debezium_are_instants(schema: str, payload: str, moment: str) -> None:
    envelope = f'{{"schema": {{"type": {schema}}}, "payload": {payload}}}'.encode()
    kind, value = read_envelope(envelope)
    assert (kind, value) == (pa.timestamp("us", tz="UTC"), datetime.fromisoformat(moment))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
)
KINDS = st.sampled_from(["boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "bytes"])
NAMED = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "name": st.sampled_from(
            [
                *(
                    f"org.apache.kafka.connect.data.{name}"
                    for name in ("Decimal", "Timestamp", "Date", "Time")
                ),
                *(f"io.debezium.time.{name}" for name in ("MicroTimestamp", "ZonedTimestamp")),
            ]
        ),
        "parameters": st.fixed_dictionaries({"scale": st.integers(-50, 50).map(str) | st.text(max_size=2)}),
        "optional": st.booleans(),
    },
)
SCHEMAS = st.recursive(
    NAMED,
    lambda parts: (
        st.fixed_dictionaries({"type": st.just("array"), "items": parts})
        | st.fixed_dictionaries({"type": st.just("map"), "keys": parts, "values": parts})
        | st.fixed_dictionaries(
            {
                "type": st.just("struct"),
                "fields": st.lists(parts.map(lambda one: {**one, "field": "a"}), max_size=1),
            }
        )
    ),
    max_leaves=3,
)
PAYLOADS = JSON | st.fixed_dictionaries({"a": JSON})


ENVELOPES = st.builds(lambda schema, payload: {"schema": schema, "payload": payload}, SCHEMAS, PAYLOADS)
RECORDS = st.binary() | (ENVELOPES | JSON).map(lambda one: json.dumps(one).encode())


@given(st.lists(RECORDS, max_size=4))
@example([b"[" * 200_000])
def test_any_record_is_decoded_or_reported_as_undecodable(values: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        tables, bad = Decoder(options(), FileMemory(Path(scratch, "types"))).tables(table(*values))
    decoded = [number for _, numbers, _ in tables for number in numbers]
    assert sorted(decoded + [one.row for one in bad]) == list(range(len(values)))
    assert all(one.num_rows == len(numbers) for _, numbers, one in tables)


def test_a_value_that_does_not_fit_its_type_is_undecodable_and_its_neighbours_are_not(
    tmp_path: Path,
) -> None:
    def int8(payload: int) -> bytes:
        return json.dumps({"schema": {"type": "int8"}, "payload": payload}).encode()

    tables, bad = Decoder(options(), FileMemory(tmp_path / "types")).tables(
        table(int8(1), int8(300), None, int8(2))
    )
    assert [(numbers, one.column("value").to_pylist()) for _, numbers, one in tables] == [
        ([0, 2, 3], [1, None, 2])
    ]
    [misfit] = bad
    assert (misfit.row, misfit.stage) == (1, "VALUE_CONVERTER")
    assert "its value does not fit its schema" in str(misfit.error)


class CountingRegistry:
    """A client of an empty registry, which counts requests."""

    def __init__(self) -> None:
        self.asked = 0

    def get_schema(self, schema_id: int) -> Any:
        self.asked += 1
        raise SchemaRegistryError(404, 40403, "not found")


def test_a_missing_schema_is_requested_once_per_batch() -> None:
    client: Any = CountingRegistry()
    read = AvroReader(client)
    for asked in (1, 2):
        read.ask_again()
        for _ in range(100):
            with pytest.raises(Undecodable, match="the registry has no schema 99"):
                read(b"\0\0\0\0c")
        assert client.asked == asked


class OneSchema:
    """A client of a registry that has one schema under every id."""

    def __init__(self, schema: object) -> None:
        self._schema = Schema(json.dumps(schema), "AVRO")

    def get_schema(self, schema_id: int) -> Schema:
        return self._schema


def reader(schema: object) -> AvroReader:
    client: Any = OneSchema(schema)
    return AvroReader(client)


def record(*types: object) -> dict[str, object]:
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


MONEY = logical("bytes", "decimal", precision=4, scale=2)
AVRO = [
    *(MONEY, logical("string", "uuid"), logical("int", "date"), logical("int", "time-millis")),
    *(logical("long", "time-micros"), logical("long", "timestamp-millis"), ["null", "long"], "string"),
    {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    {"type": "map", "values": "long"},
    {"type": "array", "items": ["null", MONEY]},
    {"type": "fixed", "name": "F", "size": 12, "logicalType": "decimal", "precision": 9},
]


@given(st.sampled_from(AVRO).map(record), st.binary())
@example(record(MONEY), b"\x28" + b"\x7f" * 20)
@example(record(logical("int", "date")), b"\xfe\xff\xff\xff\x0f")
@example(record(logical("long", "time-micros")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")
def test_any_bytes_are_read_as_avro_or_reported_as_undecodable(schema: object, data: bytes) -> None:
    try:
        kind, value = reader(schema)(b"\0\0\0\0\1" + data)
    except Undecodable:
        return
    assert isinstance(value, dict)
    assert pa.types.is_struct(kind)


@pytest.mark.parametrize(
    "schema",
    [
        record(logical("bytes", "decimal", precision=90, scale=2)),
        record({"type": "unheard-of"}),
        record({"type": "array"}),
    ],
)
def test_a_schema_without_a_column_type_makes_its_records_undecodable(schema: object) -> None:
    with pytest.raises(Undecodable, match="schema 1 has no column type"):
        reader(schema)(b"\0\0\0\0\1\0")


def test_an_envelope_may_have_defaults_maps_and_connects_own_types() -> None:
    connect = "org.apache.kafka.connect.data."
    fields = [
        {"field": "a", "type": "int32", "default": 7},
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
        {"field": "n", "type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}},
        {"field": "d", "type": "bytes", "name": f"{connect}Decimal", "parameters": {"scale": "2"}},
        {"field": "t", "type": "int32", "name": f"{connect}Time"},
    ]
    payload = {"a": None, "m": {"x": 1}, "n": [[1, "y"]], "d": "/w==", "t": 3_600_001}
    _, value = read_envelope(
        json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()
    )
    expected = {"a": 7, "m": [("x", 1)], "n": [(1, "y")], "d": Decimal("-0.01"), "t": "01:00:00.001000"}
    assert value == expected


def test_decimals_of_an_envelope_keep_all_of_their_digits() -> None:
    kind, longest = pa.decimal128(38, 2), Decimal("9" * 36 + ".99")
    assert read_envelope(json_schema_encoder(kind)(longest)) == (kind, longest)


def table(*values: bytes | None) -> pa.Table:
    numbers = range(len(values))
    return pa.table({"key": pa.array([None] * len(values), pa.binary()), "value": values, "offset": numbers})


def options(**config: str) -> DecodingOptions:
    return parse(DecodingOptions, {"connector.class": "x", "value.converter": "json-schema", **config})


def written(kind: pa.DataType, value: Any) -> bytes:
    return json_schema_encoder(kind)(value)


def test_rows_are_grouped_by_their_types_wherever_they_are_and_a_null_joins_the_rows_before_it(
    tmp_path: Path,
) -> None:
    a, b = written(pa.int32(), 1), written(pa.string(), "x")
    tables, bad = Decoder(options(), FileMemory(tmp_path / "types")).tables(
        table(None, a, None, b, b"?", b, None, a)
    )
    assert [(numbers, one.column("value").to_pylist()) for _, numbers, one in tables] == [
        ([0, 1, 2, 7], [None, 1, None, 1]),
        ([3, 5, 6], ["x", "x", None]),
    ]
    assert [(one.row, one.stage) for one in bad] == [(4, "VALUE_CONVERTER")]
    assert tables[1].rows.column("offset").to_pylist() == [3, 5, 6]


def test_a_null_takes_no_type_that_the_select_refuses(tmp_path: Path) -> None:
    a, b = written(pa.int32(), 1), written(pa.string(), "x")
    values = table(None, b, None, a, b, None)
    tables, _ = Decoder(options(), FileMemory(tmp_path / "types")).tables(
        values, lambda kinds: {types for types in kinds if types == (pa.int32(),)}
    )
    assert [(types, numbers) for types, numbers, _ in tables] == [
        ((pa.int32(),), [0, 2, 3, 5]),
        ((pa.string(),), [1, 4]),
    ]


def test_nulls_take_the_types_that_are_remembered_also_in_the_next_incarnation(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "types")
    Decoder(options(), memory).remember((pa.int32(),))
    [found], _ = Decoder(options(), memory).tables(table(None, None))
    assert found.types == (pa.int32(),)
    assert found.rows.schema.field("value").type == pa.int32()


def test_a_key_of_one_column_is_its_value_and_of_several_a_struct() -> None:
    schema = pa.schema([("id", pa.int32()), ("kind", pa.string()), ("money", pa.decimal128(5, 2))])
    row: Mapping[str, Any] = {"id": 1, "kind": "é", "money": Decimal("1.50")}

    def record(key: list[str], **config: str) -> Any:
        chosen = parse(EncodingOptions, {"connector.class": "x", **config})
        return encoder(chosen, schema, key, "topic", "orders")(row)

    value = '{"id":1,"kind":"é","money":"1.50"}'.encode()
    assert record([]) == (None, value)
    assert record(["kind"]) == ('"é"'.encode(), value)
    assert record(["kind"], **{"key.converter": "string"}) == ("é".encode(), value)
    assert record(["id", "kind"]) == ('{"id":1,"kind":"é"}'.encode(), value)


PARTS = ("\\\\", r"\ud83d", r"\ude00", r"\uD800", r"\udFFF", "ud83d", "ude00", r"\n", r"\u0041", r"\"", "a")


@given(st.lists(st.sampled_from(PARTS)))
@example(["\\\\", "ud83d", r"\ude00"])
def test_the_escape_of_half_of_a_pair_is_found_wherever_it_stands(parts: list[str]) -> None:
    text = f'"{"".join(parts)}"'
    has_half = any(0xD800 <= ord(character) <= 0xDFFF for character in json.loads(text))
    assert bool(re.search(HALF_OF_A_PAIR, text)) == has_half
