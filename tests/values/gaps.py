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
        stops=True,
    ),
    Gap(
        POSTGRES,
        "TIMESTAMP to timestamp with time zone",
        ("-0043-03-15T12:00:00Z", "+10000-01-01T00:00:00Z"),
        "the task repeats its batch for ever: OverflowError: date value out of range",
        "3.8",
        stops=True,
    ),
    Gap(
        POSTGRES,
        "ARRAY<ARRAY<INT>> to integer[]",
        ("[[1],[]]", "[[],[null],null]"),
        "the task fails: malformed array literal",
        "3.8",
        stops=True,
    ),
)
