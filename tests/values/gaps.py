"""Cells that are known not to be equal. A gap that closes fails the run until it is taken off this list."""

from __future__ import annotations

from tests.values.cells import Apart, Gap, Listed

POSTGRES = "kafka-to-postgres, *"
TABLES = "postgres-to-kafka, *"
PARQUET, JSON, CSV = (f"kafka-to-files, json to {form}" for form in ("parquet", "json", "csv"))

_MICROSECONDS = ("2026-11-28T12:30:45.123456Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z")
_MICROSECONDS_OF_CLOCKS = ("2026-11-28T12:30:45.123456", "9999-12-31T23:59:59.999999")
_OF_INT96 = (
    "2026-11-28T12:30:45.123456Z",
    "2026-11-28T12:30:45+05:45",
    "2026-10-25T00:30:00Z",
    "2026-10-25T01:30:00Z",
    "1969-12-31T23:59:59.999999Z",
    "1890-01-01T00:00:00Z",
)
_BEYOND_INT96 = (
    "1582-10-10T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "-0043-03-15T12:00:00Z",
    "+10000-01-01T00:00:00Z",
)

_FILES: tuple[Listed, ...] = (
    Gap(
        "kafka-to-files, *",
        "STRING",
        ("unpaired surrogate",),
        "half of a pair becomes a question mark",
        "3.8",
    ),
    Gap(PARQUET, "TIMESTAMP", _OF_INT96, "INT96: readers get a time without a zone", "3.3"),
    Gap(
        PARQUET,
        "TIMESTAMP",
        _BEYOND_INT96,
        "INT96: readers count nanoseconds in 64 bits, and get another year",
        "3.3",
    ),
    Gap(PARQUET, "STRUCT<at*", ("microseconds",), "INT96: readers get a time without a zone", "3.3"),
    Gap(JSON, "TIMESTAMP", _MICROSECONDS, "microseconds are cut to milliseconds", "3.3"),
    Gap(JSON, "TIMESTAMP_NTZ", _MICROSECONDS_OF_CLOCKS, "microseconds are cut to milliseconds", "3.3"),
    Gap(JSON, "STRUCT<at*", ("microseconds",), "microseconds are cut to milliseconds", "3.3"),
    Gap(CSV, "TIMESTAMP", _MICROSECONDS, "microseconds are cut to milliseconds", "3.3"),
    Gap(CSV, "TIMESTAMP_NTZ", _MICROSECONDS_OF_CLOCKS, "microseconds are cut to milliseconds", "3.3"),
    Gap(CSV, "STRING", ("spaces around", "control characters"), "what surrounds a text is cut off", "3.2"),
    Gap(CSV, "STRING", ("quotes", "quote, comma"), "quotation marks are escaped by backslashes", "3.2"),
    Gap(
        "kafka-to-files, names of topics",
        "name of a topic",
        ("_events",),
        "its files begin with an underscore: readers pass over them",
        "3.4",
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
        "a row that is null is missing, since its line is empty",
        "3.2",
    ),
    Gap(CSV, "name of a column", ('a"b',), "quotation marks are escaped by backslashes", "3.2"),
    Gap(
        CSV,
        "BINARY",
        ("ordinary", "empty", "quote"),
        "bytes are a list of numbers in the form that Spark prints",
        "3.2",
    ),
)

_TO_POSTGRES: tuple[Listed, ...] = (
    Gap(POSTGRES, "STRING to text", ("unpaired surrogate",), "half of a pair becomes a question mark", "3.8"),
    Gap(
        POSTGRES,
        "TIMESTAMP to timestamp with time zone",
        (*_OF_INT96, "1582-10-10T00:00:00Z", "0001-01-01T00:00:00Z"),
        "the time is shifted by the offset of the session's zone",
        "3.1",
    ),
    Gap(
        POSTGRES,
        "DATE to date",
        ("-0043-03-15", "10000-01-01"),
        "the task fails: OverflowError: date value out of range",
        "3.8",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "TIMESTAMP to timestamp with time zone",
        ("-0043-03-15T12:00:00Z", "+10000-01-01T00:00:00Z"),
        "the task fails: OverflowError: date value out of range",
        "3.8",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "ARRAY<ARRAY<INT>> to integer[]",
        ("[[1],[]]", "[[],[null],null]"),
        "the task fails: malformed array literal",
        "3.8",
        alone=True,
    ),
    Apart(
        POSTGRES,
        "TIMESTAMP to timestamp with time zone",
        ("9999-12-31T23:59:59.999999Z",),
        "its batch is converted row by row, where no time is shifted",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "STRUCT<at*",
        ("microseconds",),
        "cut to milliseconds; row by row the task fails: Object of type datetime is not JSON serializable",
        "3.3",
        alone=True,
    ),
    Apart(
        POSTGRES,
        "STRUCT<at*",
        ("large numbers",),
        "row by row the task fails: Object of type Decimal is not JSON serializable",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "STRING to text",
        ("U+0000",),
        "a dead letter that names neither key nor remedy",
        "3.8",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "STRING to jsonb",
        ('"\\u0000"',),
        "the task fails, although bad records are tolerated",
        "3.8",
        alone=True,
    ),
    Gap(
        POSTGRES, "STRING to uuid", ("no uuid",), "the task fails with the database's text", "3.8", alone=True
    ),
    Gap(
        POSTGRES, "STRING to mood", ("unknown",), "the task fails with the database's text", "3.8", alone=True
    ),
    Gap(
        POSTGRES,
        "INT to integer, checked",
        ("-1",),
        "the task fails with the database's text",
        "3.8",
        alone=True,
    ),
    Gap(POSTGRES, "INT to smallint", ("40000",), "a dead letter that names no key", "3.8", alone=True),
    Gap(POSTGRES, "STRING to varchar(4)", ("too long",), "a dead letter", "3.8", alone=True),
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
        "value",
        ("1,000,100 bytes",),
        "Kafka takes it by default, the mirror does not: its message.max.bytes is lower than Kafka's",
        "3.11",
        alone=True,
    ),
    Gap(
        "kafka-to-kafka, bytes",
        "timestamp",
        ("in nanoseconds", "the largest"),
        "a time so far ahead becomes the time of writing",
        "4",
    ),
)

EXCEPTIONS: tuple[Listed, ...] = (*_FILES, *_TO_POSTGRES, *_FROM_POSTGRES, *_FROM_FILES, *_MIRROR)
