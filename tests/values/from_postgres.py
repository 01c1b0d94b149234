"""Tables to topics, read by a plain consumer, a parser of JSON, and a decoder of Connect's envelopes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from tests.values.cells import Cell, Outcome
from tests.values.envelopes import AvroRecords, decimal_of
from tests.values.extremes import TEXTS
from tests.values.pairs import Flock, Pair
from tests.values.readings import day_text, json_value, moment_text, of_text
from tests.values.world import World, connector


@dataclass(frozen=True)
class Column:
    """A column of the table; ``values`` are literals of PostgreSQL with what is due, which ``kind`` reads."""

    name: str
    type: str
    kind: str
    values: Mapping[str, str]


def _same(*literals: str) -> dict[str, str]:
    return {literal: literal for literal in literals}


_FIRST_KEY = 1_000
_IN_UTC = " (with the zone Z)"
_MOMENTS = {
    "2026-11-28 12:30:45.123456+00": "2026-11-28T12:30:45.123456Z",
    "2026-10-25 00:30:00+00": "2026-10-25T00:30:00.000000Z",
    "2026-10-25 01:30:00+00": "2026-10-25T01:30:00.000000Z",
    "1890-01-01 00:00:00+00": "1890-01-01T00:00:00.000000Z",
    "0001-01-01 00:00:00+00": "0001-01-01T00:00:00.000000Z",
    "9999-12-31 23:59:59.999999+00": "9999-12-31T23:59:59.999999Z",
    "0044-03-15 12:00:00+00 BC": "-0043-03-15T12:00:00.000000Z",
    "10000-01-01 00:00:00+00": "10000-01-01T00:00:00.000000Z",
    "infinity": "infinity",
}
_CLOCKS = {
    "2026-11-28 12:30:45.123456": "2026-11-28T12:30:45.123456",
    "2026-03-29 02:30:00": "2026-03-29T02:30:00.000000",
    "1582-10-10 00:00:00": "1582-10-10T00:00:00.000000",
    "9999-12-31 23:59:59.999999": "9999-12-31T23:59:59.999999",
    "infinity": "infinity",
}
_DAYS = {
    **_same("2026-11-28", "1582-10-10", "0001-01-01", "9999-12-31", "10000-01-01", "infinity"),
    "0044-03-15 BC": "-0043-03-15",
}

DOMAINS = {
    "host": "inet",
    "deep_host": "host",
    "age": "integer CHECK (VALUE >= 0)",
    "cents": "numeric(10,2)",
    "price": "cents",
    "span": "int4range",
    "temper": "feeling",
    "marks": "integer[]",
    "day": "date",
}
"""Domains with their base types, some of which are domains: values are those of the last one."""
COLUMNS: tuple[Column, ...] = (
    Column("a_boolean", "boolean", "boolean", _same("true", "false")),
    Column("a_short", "smallint", "integer", _same("32767", "-32768")),
    Column("an_int", "integer", "integer", _same("2147483647", "-2147483648")),
    Column(
        "a_long",
        "bigint",
        "integer",
        _same("9223372036854775807", "-9223372036854775808", "9007199254740993"),
    ),
    Column(
        "a_real",
        "real",
        "float",
        {"0.1": "0.1", "3.4028235e38": "3.4028235e+38", **_same("NaN", "-Infinity", "-0.0")},
    ),
    Column(
        "a_double",
        "double precision",
        "double",
        {
            "1.7976931348623157e308": "1.7976931348623157e+308",
            **_same("0.1", "5e-324", "NaN", "Infinity", "-0.0"),
        },
    ),
    Column("money", "numeric(10,2)", "decimal", _same("1.50", "-99999999.99", "0.00", "NaN")),
    Column("a_whole", "numeric(38,0)", "decimal", _same("9" * 38)),
    Column("a_fraction", "numeric(38,38)", "decimal", _same(f"0.{'9' * 38}", f"-0.{'0' * 37}1")),
    Column(
        "a_number",
        "numeric",
        "decimal",
        _same("1.10", f"{'9' * 60}.{'1' * 60}", "NaN", "Infinity", "0.0000000001"),
    ),
    Column("a_wide", "numeric(60,10)", "decimal", _same(f"{'9' * 50}.{'1' * 10}")),
    Column("hundreds", "numeric(5,-2)", "decimal", _same("123400")),
    Column("a_text", "text", "string", {name: text for name, text in TEXTS.items() if "\0" not in text}),
    Column("a_varchar", "varchar(10)", "string", _same("abc", "")),
    # Its spaces at the end are no part of the value, as PostgreSQL compares it.
    Column("a_char", "char(4)", "string", {"ab": "ab"}),
    Column("bytes", "bytea", "binary", {r"\x00ff10": "00ff10", r"\x": ""}),
    Column("a_day", "date", "date", _DAYS),
    Column("a_moment", "timestamp with time zone", "timestamp", _MOMENTS),
    Column("a_clock", "timestamp without time zone", "timestamp_ntz", _CLOCKS),
    Column(
        "a_milli",
        "timestamp(3) with time zone",
        "timestamp",
        {"2026-11-28 12:30:45.123+00": "2026-11-28T12:30:45.123000Z", "infinity": "infinity"},
    ),
    Column(
        "a_second", "timestamp(0)", "timestamp_ntz", {"1890-01-01 00:00:01": "1890-01-01T00:00:01.000000"}
    ),
    Column("a_time", "time", "string", _same("00:00:00", "23:59:59.999999", "24:00:00")),
    Column("a_timetz", "timetz", "string", _same("12:30:45.123456+05:45")),
    Column("an_interval", "interval", "string", _same("1 year 2 mons -3 days +04:05:06.789012")),
    Column("an_uuid", "uuid", "string", _same("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    Column(
        "a_json",
        "json",
        "string",
        _same('{"b": 1, "a": [null, 1.10]}', "12345678901234567890.123456789012345678"),
    ),
    Column("a_jsonb", "jsonb", "string", _same('{"a": [null, 1.10], "b": 1}', "null", '"text"')),
    Column("an_inet", "inet", "string", _same("10.0.0.1", "10.0.0.0/8", "::1")),
    Column("a_host", "host", "string", _same("10.0.0.1", "10.0.0.0/8")),
    Column("a_deep_host", "deep_host", "string", _same("10.0.0.1", "10.0.0.0/8", "::1")),
    Column("hosts", "host[]", "json", {"{10.0.0.1,::/0}": '["10.0.0.1","::/0"]'}),
    Column("deep_hosts", "deep_host[]", "json", {"{10.0.0.1,NULL}": '["10.0.0.1",null]'}),
    # As JSON, in which a number is no text.
    Column("an_age", "age", "json", _same("7")),
    Column("ages", "age[]", "json", {"{7,NULL}": "[7,null]"}),
    Column("a_price", "price", "decimal", _same("1.50")),
    Column("a_span", "span", "string", _same("[1,5)")),
    Column("a_temper", "temper", "string", _same("so sad")),
    Column("tempers", "temper[]", "json", {'{happy,"so sad"}': '["happy","so sad"]'}),
    Column("some_marks", "marks", "json", {"{1,NULL}": "[1,null]"}),
    Column("a_domain_day", "day", "date", _same("2026-11-28")),
    Column("inets", "inet[]", "json", {"{10.0.0.1,::/0}": '["10.0.0.1","::/0"]'}),
    Column("a_cidr", "cidr", "string", _same("10.0.0.0/8", "10.0.0.1/32", "::1/128")),
    Column("a_mac", "macaddr", "string", _same("08:00:2b:01:02:03")),
    Column("a_long_mac", "macaddr8", "string", _same("08:00:2b:01:02:03:04:05")),
    Column("a_range", "int4range", "string", _same("[1,5)", "empty", "(,)")),
    Column("moments", "tstzrange", "string", _same('["2026-10-25 00:30:00+00","2026-10-25 01:30:00+00")')),
    Column("a_mood", "feeling", "string", _same("so sad")),
    Column("some_bits", "bit(4)", "string", _same("1010")),
    Column("a_document", "xml", "string", _same("<a>ü</a>")),
    Column("a_cost", "money", "string", _same("-$92,233,720,368,547,758.08")),
    Column("a_point", "point", "string", _same("(1.5,-2)")),
    Column("an_oid", "oid", "string", _same("4294967295")),
    Column("a_search", "tsvector", "string", _same("'fat':2 'rat':3")),
    Column(
        "numbers",
        "integer[]",
        "json",
        {"{1,2}": "[1,2]", "{}": "[]", "{NULL}": "[null]", "[2:3]={1,2}": "[1,2]"},
    ),
    Column("words", "text[]", "json", {'{"a,b","",NULL,"null","\\""}': '["a,b","",null,"null","\\""]'}),
    Column("nested", "integer[][]", "json", {"{{1,2},{3,4}}": "[[1,2],[3,4]]"}),
)


class FromPostgres(Pair):
    def __init__(self, converter: str) -> None:
        self.converter = converter
        self.label = f"postgres-to-kafka, {converter}"
        self.short = f"tables-{converter}"
        self._sent: dict[str, int] = {}

    def cells(self) -> Sequence[Cell]:
        values = [(column, *value) for column in COLUMNS for value in _values(column)]
        return [
            Cell(self.label, column.type, name, literal, due, column.name, str(_FIRST_KEY + number))
            for number, (column, name, literal, due) in enumerate(values)
        ]

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        if world.postgres.query("SELECT to_regtype('feeling')::text") == [(None,)]:
            world.postgres.query("CREATE TYPE feeling AS ENUM ('happy', 'so sad')")
            for name, base in DOMAINS.items():
                world.postgres.query(f"CREATE DOMAIN {name} AS {base}")
        columns = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
        world.postgres.query(f'CREATE TABLE "{flock.name}" (id integer PRIMARY KEY, {columns})')
        world.postgres.query(f'INSERT INTO "{flock.name}" (id) VALUES (1)')
        world.create_topics([f"{flock.name}-out"])
        config = {
            **world.database,
            "tables": flock.name,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic": "{table}-out",
            "key.converter": self.converter,
            "value.converter": self.converter,
            "trigger.interval.ms": 100,
            "message.max.bytes": 2_000_000,
        }
        if self.converter == "avro":
            config["schema.registry.url"] = world.registry
        return connector(flock.name, "postgres-to-kafka", config)

    def send(self, world: World, flock: Flock) -> None:
        with world.postgres.session() as session:
            for cell in flock.cells:
                statement = sql.SQL("INSERT INTO {} (id, {}) VALUES (%s, %s)").format(
                    sql.Identifier(flock.name), sql.Identifier(cell.column)
                )
                session.execute(statement, [cell.key, None if cell.value == "no value" else cell.given])
            session.commit()
        self._sent[flock.name] = len(flock.cells)

    def done(self, world: World, flock: Flock) -> bool:
        return len(world.records(f"{flock.name}-out")) >= 1 + self._sent.get(flock.name, 0)

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        avro = AvroRecords(world.registry) if self.converter == "avro" else None
        decode: dict[str, Callable[[bytes], Any]] = {
            "json": lambda given: json_value(given.decode()),
            "json-schema": lambda given: decoded(json_value(given.decode())),
            "avro": lambda given: avro.read(given) if avro is not None else None,
        }
        read = decode[self.converter]
        kinds = {column.name: column.kind for column in COLUMNS}
        rows: dict[int, dict[str, Any]] = {}
        for record in world.records(f"{flock.name}-out"):
            assert record.key is not None
            assert record.value is not None
            number = read(record.key)
            assert number not in rows, f"{number} came twice"
            rows[number] = read(record.value)
        found: dict[Cell, Outcome] = {}
        for cell in flock.cells:
            row = rows.get(int(cell.key))
            if row is None:
                found[cell] = Outcome("missing")
            else:
                text = of_text(kinds[cell.column], row.get(cell.column, "(no such field)"))
                # Connect has no type of times without a zone: its readers take them for times in UTC.
                found[cell] = Outcome("row", text.removesuffix(_IN_UTC))
        return found


def _values(column: Column) -> Sequence[tuple[str, str, str]]:
    named = TEXTS if column.type == "text" else {}
    values = [(literal, named.get(literal, literal), due) for literal, due in column.values.items()]
    return [*((name or "empty", literal, due) for name, literal, due in values), ("no value", "NULL", "null")]


def decoded(envelope: Any) -> Any:
    """The value in an envelope of Kafka Connect's JsonConverter, by its schema."""
    return _of_schema(envelope["payload"], envelope["schema"])


def _of_schema(value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    logical: dict[str, Callable[[], Any]] = {
        "org.apache.kafka.connect.data.Decimal": lambda: decimal_of(
            base64.b64decode(value), int(schema["parameters"]["scale"])
        ),
        "org.apache.kafka.connect.data.Date": lambda: day_text(value),
        "org.apache.kafka.connect.data.Timestamp": lambda: moment_text(value * 1_000),
        "io.debezium.time.MicroTimestamp": lambda: moment_text(value, ""),
    }
    if make := logical.get(schema.get("name", "")):
        return make()
    if schema["type"] == "struct":
        return {part["field"]: _of_schema(value[part["field"]], part) for part in schema["fields"]}
    if schema["type"] == "array":
        assert isinstance(value, list), value
        return [_of_schema(each, schema["items"]) for each in value]
    assert not isinstance(value, list), f"{value} is no {schema['type']}"
    return value
