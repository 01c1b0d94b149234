"""Rows as Kafka records: the columns that they may have, and their types."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cooperator.connectors.options import OptionError, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HEADERS = "array<struct<key:string,value:binary>>"
TIMESTAMP_MS = "timestampMs"
"""The time of a record as it is: producers have written times that no TIMESTAMP is, such as nanoseconds."""
SELECTED = ("key", "value", "headers", "partition", "timestamp")
"""The columns that a SELECT may return."""
_TYPES = {
    "key": ("string", "binary", "void"),
    "value": ("string", "binary", "void"),
    "headers": (_HEADERS, "void"),
    "partition": ("int", "void"),
    "timestamp": ("timestamp", "void"),
    TIMESTAMP_MS: ("bigint", "void"),
}
_CASTS = {"key": "binary", "value": "binary", "headers": _HEADERS, "partition": "int", TIMESTAMP_MS: "bigint"}
_IGNORED = {"topic", "offset", "path", "line"}


def as_records(
    rows: "DataFrame", columns: Sequence[str] = SELECTED, more: "Sequence[Column]" = ()
) -> "DataFrame":
    """Returns ``columns`` in that order, with ``timestamp`` as milliseconds; missing columns are null.

    ``more`` are computed from the rows and follow.

    Raises ``OptionError``, which names ``transform.sql``, when the rows cannot be records.
    """
    import pyspark.sql.functions as F  # noqa: N812

    types = dict(rows.dtypes)
    problems = []
    if "value" not in types:
        problems.append("has no column value")
    if len(types) < len(rows.columns):
        problems.append("names a column twice")
    if unknown := sorted(types.keys() - set(columns) - _IGNORED):
        problems.append(f"has the unknown columns {', '.join(unknown)}")
    for name in columns:
        if types.get(name, "void") not in _TYPES[name]:
            problems.append(f"has {name} as {types[name]}, not as {' or '.join(_TYPES[name][:-1])}")
    if problems:
        remedy = f"select value and, optionally, {', '.join(name for name in columns if name != 'value')}"
        raise OptionError([Problem("transform.sql", None, problem, remedy) for problem in problems])

    def column(name: str) -> "Column":
        found = F.col(name) if name in types else F.lit(None)
        if name == "timestamp":
            return F.unix_millis(found.cast("timestamp")).alias(name)
        return found.cast(_CASTS[name]).alias(name)

    return rows.select([*(column(name) for name in columns), *more])
