"""Cells that are known not to be equal. A gap that closes fails the run until it is taken off this list."""

from __future__ import annotations

from tests.values.cells import Apart, Gap, Listed, Refusal

POSTGRES = "kafka-to-postgres, *"
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

_TO_POSTGRES: tuple[Listed, ...] = (
    Gap(POSTGRES, "STRING to text", ("unpaired surrogate",), "half of a pair becomes a question mark", "3.8"),
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
        "a dead letter that names neither key nor remedy",
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
    Refusal(
        TABLES,
        "date",
        ("0044-03-15 BC", "10000-01-01", "infinity"),
        "records have dates of the years 1 to 9999",
        alone=True,
    ),
    Refusal(
        TABLES,
        "timestamp*",
        ("0044-03-15 12:00:00+00 BC", "10000-01-01 00:00:00+00", "infinity"),
        "records have times of the years 1 to 9999",
        alone=True,
    ),
    Refusal(
        "postgres-to-kafka, json-schema",
        "numeric(10,2)",
        ("NaN",),
        "Connect's decimals have no such number",
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
