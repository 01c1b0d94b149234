"""Cells that are known not to be equal. A gap that closes fails the run until it is taken off this list."""

from __future__ import annotations

from tests.values.cells import Exception_, Gap

POSTGRES = "kafka-to-postgres, *"

EXCEPTIONS: tuple[Exception_, ...] = (
    Gap(
        POSTGRES,
        "DATE to date",
        ("-0043-03-15", "10000-01-01"),
        "the task repeats its batch for ever: OverflowError: date value out of range",
        "3.8",
        alone=True,
    ),
    Gap(
        POSTGRES,
        "TIMESTAMP to timestamp with time zone",
        ("-0043-03-15T12:00:00Z", "+10000-01-01T00:00:00Z"),
        "the task repeats its batch for ever: OverflowError: date value out of range",
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
    Gap(
        POSTGRES,
        "STRUCT<at*",
        ("microseconds",),
        "row by row the task fails: TypeError: Object of type datetime is not JSON serializable",
        "3.3",
        alone=True,
    ),
    Gap(POSTGRES, "STRING to text", ("U+0000",), "a dead letter that names neither key nor remedy", "3.8", alone=True),
    Gap(POSTGRES, "STRING to varchar(4)", ("too long",), "a dead letter", "3.8", alone=True),
)
