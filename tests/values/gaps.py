"""Cells that are known not to be equal. A gap that closes fails the run until it is taken off this list."""

from __future__ import annotations

from tests.values.cells import Gap, Listed, Refusal

POSTGRES = "kafka-to-postgres, *"
BY_ROW = "kafka-to-postgres, row by row"
TABLES = "postgres-to-kafka, *"
PARQUET, JSON, CSV = (f"kafka-to-files, json to {form}" for form in ("parquet", "json", "csv"))

_FILES: tuple[Listed, ...] = (
    Gap(
        "kafka-to-files, *",
        "STRING",
        ("unpaired surrogate",),
        "half of a pair becomes a question mark",
        "3.8",
    ),
    Gap(
        "kafka-to-files, names of topics",
        "name of a topic",
        (".events",),
        "the Connector fails, with all of its topics: unit ids must be distinct file names",
        "3.4",
        alone=True,
    ),
    Gap(
        "kafka-to-files, one column of csv",
        "STRING",
        ("null and empty among others",),
        "the Connector is refused, as its nulls would be empty lines; no row arrives",
        "3.2",
    ),
    Gap(
        CSV,
        "BINARY",
        ("ordinary", "empty", "quote"),
        "bytes are a list of numbers in the form that Spark prints",
        "3.2",
    ),
)

_NOT_STORED = (
    ("ARRAY<ARRAY<INT>> to integer[]", ("[[1],[]]", "[[],[null],null]"), "a ragged array"),
    ("STRING to text", ("U+0000",), "a character that no text of the database has"),
    ("STRING to jsonb", ('"\\u0000"',), "a character that no text of the database has"),
    ("STRING to uuid", ("no uuid",), "no value of the type"),
    ("STRING to mood", ("unknown",), "no value of the enum"),
    ("STRING to varchar(4)", ("too long",), "longer than the column"),
    ("INT to smallint", ("40000",), "out of the range of the column"),
    ("INT to integer, checked", ("-1",), "the constraint is violated"),
)
"""What the database refuses."""

_TO_POSTGRES: tuple[Listed, ...] = (
    Gap(POSTGRES, "STRING to text", ("unpaired surrogate",), "half of a pair becomes a question mark", "3.8"),
    # A refused record makes its batch go row by row: so all cells go this way once, beside the refused ones.
    *(Refusal(BY_ROW, type_name, values, reason) for type_name, values, reason in _NOT_STORED),
    *(Refusal(POSTGRES, type_name, values, reason, alone=True) for type_name, values, reason in _NOT_STORED),
)

_FROM_POSTGRES: tuple[Listed, ...] = (
    Gap(TABLES, "inet", ("10.0.0.1", "::1"), "an address becomes a network: 10.0.0.1/32", "3.3"),
    Gap(
        "postgres-to-kafka, json-schema",
        "timestamp *",
        (
            "2026-11-28 12:30:45.123456+00",
            "2026-11-28 12:30:45.123456",
            "9999-12-31 23:59:59.999999+00",
            "9999-12-31 23:59:59.999999",
        ),
        "microseconds are rounded to milliseconds, up into the next year",
        "3.3",
    ),
    Gap(
        TABLES,
        "date",
        ("0044-03-15 BC", "10000-01-01", "infinity"),
        "the task stops; its message names table, column, value and remedy, but no key",
        "3.8",
        alone=True,
    ),
    Gap(
        TABLES,
        "timestamp with time zone",
        ("0044-03-15 12:00:00+00 BC", "10000-01-01 00:00:00+00", "infinity"),
        "the task stops; its message names table, column, value and remedy, but no key",
        "3.8",
        alone=True,
    ),
    Gap(
        TABLES,
        "timestamp without time zone",
        ("infinity",),
        "the task stops; its message names table, column, value and remedy, but no key",
        "3.8",
        alone=True,
    ),
    Gap(
        "postgres-to-kafka, json-schema",
        "numeric(10,2)",
        ("NaN",),
        "the task stops; its message names table, column, value and remedy, but no key",
        "3.8",
        alone=True,
    ),
)

_FROM_FILES: tuple[Listed, ...] = (
    Gap("files-to-kafka, *", "text", ("byte order mark",), "the byte order mark is cut off", "2"),
    Gap("files-to-kafka, *", "text", ("a CR within a line",), "a CR alone ends a line", "2"),
    Gap(
        "files-to-kafka, json",
        "text",
        ("bytes that are not UTF-8", "an unpaired surrogate"),
        "bytes that are no text become U+FFFD",
        "2",
    ),
)

_MIRROR: tuple[Listed, ...] = (
    Gap(
        "kafka-to-kafka, bytes",
        "timestamp",
        ("in nanoseconds", "the largest"),
        "a time so far ahead becomes the time of writing",
        "4",
    ),
)

EXCEPTIONS: tuple[Listed, ...] = (*_FILES, *_TO_POSTGRES, *_FROM_POSTGRES, *_FROM_FILES, *_MIRROR)
