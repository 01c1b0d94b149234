"""Cells that are known not to be equal. A gap that closes fails the run until it is taken off this list."""

from __future__ import annotations

from tests.values.cells import Gap, Listed, Refusal

POSTGRES = "kafka-to-postgres, *"
BY_ROW = "kafka-to-postgres, row by row"
TABLES = "postgres-to-kafka, *"
PARQUET, JSON, CSV = (f"kafka-to-files, json to {form}" for form in ("parquet", "json", "csv"))

_FILES: tuple[Listed, ...] = (
    Refusal("kafka-to-files, json to *", "STRING", ("unpaired surrogate",), "half of a pair is no character"),
    Refusal(
        "kafka-to-files, one column of csv",
        "STRING",
        ("null and empty among others",),
        "the Connector is refused, as its nulls would be empty lines",
        alone=True,
    ),
)

_NOT_STORED = (
    ("ARRAY<ARRAY<INT>> to integer[]", ("[[1],[]]", "[[],[null],null]"), "a ragged array"),
    ("STRING to text", ("U+0000",), "a character that no text of the database has"),
    ("STRING to jsonb", ('"\\u0000"',), "a character that no text of the database has"),
    ("STRING to uuid", ("no uuid",), "no value of the type"),
    ("STRING to mood", ("unknown",), "no value of the enum"),
    ("STRING to varchar(4)", ("too long", "abc   "), "longer than the column"),
    ("DECIMAL(10,4) to numeric(10,2)", ("1.2345",), "more digits than the column has"),
    ("INT to smallint", ("40000",), "out of the range of the column"),
    ("INT to integer, checked", ("-1",), "the constraint is violated"),
)
"""What the database refuses."""

_TO_POSTGRES: tuple[Listed, ...] = (
    Refusal(POSTGRES, "STRING to text", ("unpaired surrogate",), "half of a pair is no character"),
    # A refused record makes its batch go row by row: so all cells go this way once, beside the refused ones.
    *(Refusal(BY_ROW, type_name, values, reason) for type_name, values, reason in _NOT_STORED),
    *(Refusal(POSTGRES, type_name, values, reason, alone=True) for type_name, values, reason in _NOT_STORED),
)

_FAR = (
    ("DATE*", ("-0043-03-15", "10000-01-01")),
    ("TIMESTAMP*", ("-0043-03-15T12:00:00Z", "+10000-01-01T00:00:00Z")),
)
_BY_RECORD: tuple[Listed, ...] = (
    *(
        Gap(
            pair,
            kind,
            values,
            "a dead letter that names neither column nor remedy, as Python's years are 1 to 9999",
            "2, the row-by-row converter",
        )
        for pair in ("*, avro*", "*, json-schema*")
        for kind, values in _FAR
    ),
    *(
        Gap(
            f"kafka-to-postgres, {converter}",
            "ARRAY<ARRAY<INT>> to integer[]",
            ("[[1],[]]", "[[],[null],null]"),
            "a dead letter that names the value as PostgreSQL spells arrays",
            "2, the row-by-row converter",
            alone=True,
        )
        for converter in ("json-schema", "avro")
    ),
    Gap(
        "*, json-schema*",
        "STRING*",
        ("unpaired surrogate",),
        "a dead letter that names no column",
        "2, the row-by-row converter",
    ),
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
    *(
        Refusal(
            f"postgres-to-kafka, {converter}",
            "numeric(10,2)",
            ("NaN",),
            "its decimals have no such number",
            alone=True,
        )
        for converter in ("json-schema", "avro")
    ),
    *(
        Refusal(
            f"postgres-to-kafka, {converter}",
            "integer[][]",
            ("{{1,2},{3,4}}",),
            "a schema has one dimension, whatever an array of the column has",
            alone=True,
        )
        for converter in ("json-schema", "avro")
    ),
)

_FROM_FILES: tuple[Listed, ...] = (
    Refusal(
        "files-to-kafka, json",
        "text",
        ("bytes that are not UTF-8", "an unpaired surrogate"),
        "JSON holds characters only",
        alone=True,
    ),
)

EXCEPTIONS: tuple[Listed, ...] = (*_BY_RECORD, *_FILES, *_TO_POSTGRES, *_FROM_POSTGRES, *_FROM_FILES)
