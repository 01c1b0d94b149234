"""Topics to tables, read by psycopg. PostgreSQL itself says which text a value of a type has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from tests.values.cells import Cell
from tests.values.extremes import FIELDS, NAMED, NULL, Value
from tests.values.pairs import Converter, Flock, FromTopic, named_cells
from tests.values.readings import json_value
from tests.values.types import NESTED, parse, typed_text
from tests.values.world import World


@dataclass(frozen=True)
class Target:
    """A column of the table, of ``type``, for fields of the type ``ddl``; ``literals`` are values due in
    PostgreSQL's spelling, where that differs.
    """

    column: str
    ddl: str
    type: str
    values: tuple[Value, ...]
    literals: Mapping[str, str] = field(default_factory=dict)
    definition: str = ""


def _of(name: str, type_name: str, literals: Mapping[str, str] | None = None) -> Target:
    """A column for a field of the extremes, with all of its values."""
    [found] = [each for each in FIELDS if each.name == name]
    column = f"{name}_{''.join(each for each in type_name if each.isalnum())}"
    return Target(column, found.ddl, type_name, found.values, literals or {})


def _texts(column: str, type_name: str, *texts: str) -> Target:
    """A column for texts that PostgreSQL parses."""
    values = tuple(Value(text or "empty", json.dumps(text), text) for text in texts)
    return Target(column, "STRING", type_name, values)


_BYTES = {"ordinary": r"\x00ff10", "empty": r"\x", "quote": r"\x222c0a"}
_BC = {"-0043-03-15": "0044-03-15 BC"}
_BC_MOMENT = {
    "-0043-03-15T12:00:00Z": "0044-03-15T12:00:00Z BC",
    "+10000-01-01T00:00:00Z": "10000-01-01T00:00:00Z",
}
_ARRAYS = {
    "[1,2]": "{1,2}",
    "[]": "{}",
    "[null]": "{NULL}",
    "[1,null,3]": "{1,NULL,3}",
    '["a","b c"]': '{"a","b c"}',
    '["","\\"","{}",null,"null","a,b"]': '{"","\\"","{}",NULL,"null","a,b"}',
    "[[1,2],[3,4]]": "{{1,2},{3,4}}",
    # No array of PostgreSQL has rows of several lengths.
    "[[1],[]]": "",
    "[[],[null],null]": "",
}

TARGETS: tuple[Target, ...] = (
    _of("a_boolean", "boolean"),
    _of("a_byte", "smallint"),
    _of("a_short", "smallint"),
    _of("an_int", "integer"),
    _of("an_int", "bigint"),
    _of("a_long", "bigint"),
    _of("a_long", "numeric"),
    _of("a_float", "real"),
    _of("a_double", "double precision"),
    _of("money", "numeric(10,2)"),
    _of("a_whole", "numeric"),
    _of("a_fraction", "numeric(38,38)"),
    _of("a_text", "text"),
    _of("bytes", "bytea", _BYTES),
    _of("a_date", "date", _BC),
    _of("a_moment", "timestamp with time zone", _BC_MOMENT),
    _of("a_clock", "timestamp without time zone"),
    _of("numbers", "integer[]", _ARRAYS),
    _of("words", "text[]", _ARRAYS),
    _of("nested", "integer[]", _ARRAYS),
    _of("counts", "jsonb"),
    _of("deep", "jsonb"),
    _of("visit", "jsonb"),
    _texts("a_varchar", "varchar(4)", "abcd", "", "äöü€", "too long", "abc   "),
    _texts("a_char", "char(4)", "ab", ""),
    _texts("an_uuid", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "no uuid"),
    _texts(
        "a_json",
        "json",
        '{"b": 1, "a": [null, 1.10]}',
        "12345678901234567890.123456789012345678",
        '"\\ud83d\\ude00"',
        '"\\u0000"',
    ),
    _texts(
        "a_jsonb",
        "jsonb",
        '{"b": 1, "a": [null, 1.10]}',
        "12345678901234567890.123456789012345678",
        "null",
        '"\\u0000"',
    ),
    _texts("an_inet", "inet", "10.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32"),
    _texts("a_cidr", "cidr", "10.0.0.0/8", "2001:db8::/32"),
    _texts("a_mac", "macaddr", "08:00:2b:01:02:03"),
    _texts("an_interval", "interval", "1 year 2 mons -3 days 04:05:06.789012", "-178000000 years"),
    _texts("a_range", "int4range", "[1,5)", "empty", "(,)"),
    _texts("moments", "tstzrange", '["2026-10-25 00:30:00+00","2026-10-25 01:30:00+00")'),
    _texts("a_time", "time", "00:00:00", "23:59:59.999999", "24:00:00"),
    _texts("a_timetz", "timetz", "12:30:45.123456+05:45"),
    _texts("a_number", "numeric", "NaN", "Infinity", "-Infinity", f"{'9' * 60}.{'1' * 60}", "1.10"),
    _texts("a_mood", "mood", "happy", "so sad", "unknown"),
    _texts("some_bits", "bit(4)", "1010"),
    _texts("a_document", "xml", "<a>ü</a>"),
    _texts("a_day", "date", "infinity", "-infinity", "0044-03-15 BC"),
    _texts(
        "an_instant", "timestamptz", "infinity", "2026-11-28 12:30:45.123456+05:45", "2026-11-28 12:30:45"
    ),
    _texts("a_money", "money", "-92233720368547758.08"),
    Target("a_large", "INT", "smallint", (Value("40000", "40000", ""),)),
    Target(
        "a_rounded",
        "DECIMAL(10,4)",
        "numeric(10,2)",
        (Value("1.5000", "1.5000", "1.50"), Value("1.2345", "1.2345", "")),
    ),
    Target(
        "a_positive",
        "INT",
        "integer, checked",
        (Value("1", "1", "1"), Value("-1", "-1", "")),
        definition="integer CHECK (a_positive > 0)",
    ),
    _texts("a_point", "point", "(1.5,-2)"),
)


class ToPostgres(FromTopic):
    class_name = "kafka-to-postgres"

    def __init__(
        self, converter: Converter = "json", targets: Sequence[Target] = TARGETS, *, by_row: bool = False
    ) -> None:
        """``by_row``: the cells travel with some that the database refuses, so that each row goes alone."""
        super().__init__(converter)
        self.targets = targets
        way = "row by row" if by_row else converter
        self.label = f"kafka-to-postgres, {way}"
        self.short = "postgres" if way == "json" else f"postgres-{way.replace(' ', '-')}"

    def all_cells(self) -> Sequence[Cell]:
        values = [
            Cell(
                self.label,
                f"{target.ddl} to {target.type}",
                value.name,
                value.json,
                _due(target, value),
                target.column,
                f"{target.column}-{number}",
            )
            for target in self.targets
            for number, value in enumerate((*target.values, NULL))
        ]
        return [*values, *(named_cells(self.label) if self.targets is TARGETS else ())]

    def types(self) -> Mapping[str, str]:
        return {target.column: target.ddl for target in self._all()}

    def target(self, world: World, flock: Flock) -> Mapping[str, Any]:
        if world.postgres.query("SELECT to_regtype('mood')::text") == [(None,)]:
            world.postgres.query("CREATE TYPE mood AS ENUM ('happy', 'so sad')")
        types = {target.column: target.definition or target.type for target in self._all()}
        columns = [f"{_quoted(name)} {types[name]}" for name in self.columns(flock)]
        with world.postgres.session() as session:
            # Without parameters, so that a name may have a percent sign.
            session.execute(f'CREATE TABLE "{flock.name}" ({", ".join(["id integer", *columns])})')
            session.commit()
        return {**world.database, "positions.table": "positions"}

    def rows(self, world: World, flock: Flock) -> Mapping[int, str]:
        found: dict[int, str] = {}
        with world.postgres.session() as session:
            # As a reader sees it who is at neither of the places.
            session.execute("SET timezone = 'UTC'")
            session.execute("SET intervalstyle = 'postgres'")
            for target in self._all():
                numbers = [
                    number for number, cell in enumerate(flock.cells, 1) if cell.column == target.column
                ]
                if not numbers:
                    continue
                statement = sql.SQL("SELECT id, {}::text FROM {} WHERE id = ANY({})").format(
                    sql.Identifier(target.column), sql.Identifier(flock.name), sql.Literal(numbers)
                )
                for number, text in session.execute(statement):
                    due = flock.cells[number - 1].due
                    if target.type == "jsonb" and target.ddl.startswith(NESTED) and text is not None:
                        # jsonb keeps members that are null.
                        found[number] = typed_text(parse(target.ddl), json_value(text))
                    else:
                        found[number] = _shown(session, target.type.partition(",")[0], text, due)
        return found

    def _all(self) -> Sequence[Target]:
        return (*self.targets, *(Target(named.name, named.ddl, "text", named.values) for named in NAMED))


def _shown(session: Any, type_name: str, text: str | None, due: str) -> str:
    """``due`` if the text is PostgreSQL's own for it, and otherwise the text: a value may have several."""
    if text is None:
        return "null"
    if due in ("null", "") and type_name not in ("text", "varchar(4)", "char(4)"):
        return text
    try:
        with session.transaction():
            [(expected,)] = session.execute(f"SELECT %s::{type_name}::text", [due]).fetchall()
    except Exception:
        return text
    return due if text == expected else text


def _due(target: Target, value: Value) -> str:
    return target.literals.get(value.name, value.due)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
