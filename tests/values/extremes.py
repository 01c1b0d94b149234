"""Types and their extreme values, as the fields of JSON records that connectors read from topics.

A column has the type of ``ddl``. A value is named, given as JSON, and due as a text of ``readings``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    name: str
    json: str
    due: str


@dataclass(frozen=True)
class Field:
    """A column with this name and type."""

    name: str
    ddl: str
    values: tuple[Value, ...]


def _plain(*texts: str) -> tuple[Value, ...]:
    """Values that are named and read as they are given."""
    return tuple(Value(text, text, text) for text in texts)


def _quoted(values: Iterable[tuple[str, str]]) -> tuple[Value, ...]:
    """Values that are given as texts, and due as others."""
    return tuple(Value(given, json.dumps(given), due) for given, due in values)


def _floats(largest: str, smallest: str) -> tuple[Value, ...]:
    """Numbers that JSON does not have are given as texts, as Java's writers of JSON do."""
    return (
        *(Value(text, text, repr(float(text))) for text in ("0.1", "-0.0", largest, smallest)),
        *(Value(text, f'"{text}"', text) for text in ("NaN", "Infinity", "-Infinity")),
    )


TEXTS: dict[str, str] = {
    "ordinary": "grüße",
    "empty": "",
    "spaces around": " a ",
    "quotes": 'say "hi"',
    "quote, comma": 'q",x',
    "comma": "a,b",
    "backslash": r"a\nb\\ \N \.",
    "line ends": "a\nb\r\nc\rd",
    "tab": "a\tb",
    "U+0000": "a\0b",
    "control characters": "\x01\x1f\x7f\x85",
    "line separator": "a\u2028b\u2029c",
    "byte order mark": "\ufeffa",
    "astral planes": "😀\U0010ffff",
    "combining forms": "e\u0301 \u00e9 \u212b",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u202eabc",
    "the word null": "null",
    "the word NULL": "NULL",
    "digits": "007",
    "1 MB": "x" * 999_000,
}
"""Texts by their names; a text that JSON can hold only escaped is not among them."""


def texts() -> Iterator[Value]:
    for name, text in TEXTS.items():
        yield Value(name, json.dumps(text, ensure_ascii="\0" in text), text)
    # Half of a pair is no character: UTF-8 cannot hold it, so a sink may only refuse it.
    yield Value("unpaired surrogate", r'"a\ud800b"', "a\ud800b")


DEEP = '{"a":{"b":{"c":{"d":{"e":"deep"}}}}}'

FIELDS: tuple[Field, ...] = (
    Field("a_boolean", "BOOLEAN", _plain("true", "false")),
    Field("a_byte", "BYTE", _plain("0", "127", "-128")),
    Field("a_short", "SHORT", _plain("32767", "-32768")),
    Field("an_int", "INT", _plain("2147483647", "-2147483648")),
    Field("a_long", "LONG", _plain("9223372036854775807", "-9223372036854775808", "9007199254740993")),
    Field("a_float", "FLOAT", _floats("3.4028235e38", "1e-45")),
    Field("a_double", "DOUBLE", _floats("1.7976931348623157e308", "5e-324")),
    Field("money", "DECIMAL(10,2)", _plain("1.50", "-99999999.99", "0.00")),
    Field("a_whole", "DECIMAL(38,0)", _plain("9" * 38, f"-{'9' * 38}")),
    Field("a_fraction", "DECIMAL(38,38)", _plain(f"0.{'9' * 38}", f"-0.{'0' * 37}1")),
    Field("a_text", "STRING", tuple(texts())),
    Field(
        "bytes",
        "BINARY",
        (Value("ordinary", '"AP8Q"', "00ff10"), Value("empty", '""', ""), Value("quote", '"IiwK"', "222c0a")),
    ),
    Field(
        "a_date",
        "DATE",
        _quoted(
            (day, day)
            for day in (
                "2026-11-28",
                "1970-01-01",
                "1900-01-01",
                "1582-10-10",
                "0001-01-01",
                "9999-12-31",
                "-0043-03-15",
                "10000-01-01",
            )
        ),
    ),
    Field(
        "a_moment",
        "TIMESTAMP",
        _quoted(
            [
                ("2026-11-28T12:30:45.123456Z", "2026-11-28T12:30:45.123456Z"),
                ("2026-11-28T12:30:45+05:45", "2026-11-28T06:45:45.000000Z"),
                ("2026-10-25T00:30:00Z", "2026-10-25T00:30:00.000000Z"),
                ("2026-10-25T01:30:00Z", "2026-10-25T01:30:00.000000Z"),
                ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
                ("1890-01-01T00:00:00Z", "1890-01-01T00:00:00.000000Z"),
                ("1582-10-10T00:00:00Z", "1582-10-10T00:00:00.000000Z"),
                ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
                ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
                ("-0043-03-15T12:00:00Z", "-0043-03-15T12:00:00.000000Z"),
                ("+10000-01-01T00:00:00Z", "10000-01-01T00:00:00.000000Z"),
            ]
        ),
    ),
    Field(
        "a_clock",
        "TIMESTAMP_NTZ",
        _quoted(
            [
                ("2026-11-28T12:30:45.123456", "2026-11-28T12:30:45.123456"),
                # An hour that Berlin's clocks skip.
                ("2026-03-29T02:30:00", "2026-03-29T02:30:00.000000"),
                ("1582-10-10T00:00:00", "1582-10-10T00:00:00.000000"),
                ("0001-01-01T00:00:00", "0001-01-01T00:00:00.000000"),
                ("9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999999"),
            ]
        ),
    ),
    Field("numbers", "ARRAY<INT>", _plain("[1,2]", "[]", "[null]", "[1,null,3]")),
    Field("words", "ARRAY<STRING>", _plain('["a","b c"]', '["","\\"","{}",null,"null","a,b"]')),
    Field("nested", "ARRAY<ARRAY<INT>>", _plain("[[1,2],[3,4]]", "[[1],[]]", "[[],[null],null]")),
    Field("counts", "MAP<STRING,INT>", _plain('{"a":1}', "{}", '{"":null,"b":2}')),
    Field(
        "deep",
        "STRUCT<a: STRUCT<b: STRUCT<c: STRUCT<d: STRUCT<e: STRING>>>>>",
        (Value("five deep", DEEP, DEEP),),
    ),
    Field(
        "visit",
        "STRUCT<at: TIMESTAMP, day: DATE, cost: DECIMAL(38,18), big: LONG>",
        (
            Value(
                "microseconds",
                '{"at":"2026-11-28T12:30:45.123456Z","day":"2026-11-28","cost":1.000000000000000001,"big":1}',
                '{"at":"2026-11-28T12:30:45.123456Z","big":1,"cost":1.000000000000000001,"day":"2026-11-28"}',
            ),
            Value(
                "large numbers",
                # Members that are null may be left out.
                '{"at":null,"day":null,"cost":12345678901234567890.123456789012345678,"big":9007199254740993}',
                '{"big":9007199254740993,"cost":12345678901234567890.123456789012345678}',
            ),
        ),
    ),
)

COLUMN_NAMES = (
    *(
        "a b",
        "a.b",
        "a-b",
        "a,b",
        "a;b",
        "a=b",
        "a(b)",
        "a{b}",
        "a[b]",
        "a/b",
        "a\\b",
        "a:b",
        "a`b",
        "a'b",
        'a"b',
    ),
    *(
        "größe",
        "日本",
        "e\u0301",
        "😀",
        "select",
        "UPPER",
        "TITLE",
        "$1",
        "%s",
        "{}",
        "_a",
        "1st",
        "a\tb",
        "a\nb",
    ),
    *("__deleted_", "null", "x" * 60),
)
"""Names of columns that Spark, Parquet and PostgreSQL can have. With a Turkish locale, TITLE is no title."""

NAMED: tuple[Field, ...] = tuple(
    Field(name, "STRING", (Value(name, json.dumps(name), name),)) for name in COLUMN_NAMES
)
"""A column for each name, whose value is its name."""

NULL = Value("no value", "null", "null")
