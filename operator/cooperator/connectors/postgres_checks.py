"""Checks of rows against their table, besides those of the database itself (``postgres_refusals``)."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_lines import written
from cooperator.connectors.postgres_losses import loses
from cooperator.connectors.postgres_table import Table
from cooperator.connectors.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_WHOLE = ("smallint", "integer", "bigint")
_REAL = ("real", "double precision", "numeric")
_SPARK_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SPARK_REAL = ("float", "double")
_JSON = ("json", "jsonb")
_NESTED = ("array<", "struct<", "map<")
_CLOCK = re.compile(r"time(?:\(\d\))? with(?:out)? time zone")
_SHOWN: Final = 100


def storable(rows: "DataFrame", key: Collection[str] = (), table: Table | None = None) -> "DataFrame":
    """Returns the rows with text that is UTF-8: bytes that are not (of a CAST) become U+FFFD.

    Rows fail that the database would not refuse: those with a null in the ``key`` of an upsert (a unique
    index takes such rows for different ones, and a batch for one), and those with a value that the database
    would round or cut (``postgres_losses``). ``table`` is None before it is created for these rows.
    """
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql.types import StringType

    if len(set(rows.columns)) < len(rows.columns):
        return rows  # refused later, with an explanation

    def checked(name: str, kind: "DataType") -> "Column":
        found = F.col(quoted(name))
        value = F.make_valid_utf8(found) if isinstance(kind, StringType) else found

        def without(bad: "Column", problem: "Column", remedy: str) -> "Column":
            text = F.concat(F.lit(f"column {name} "), problem, F.lit(f"; {remedy}"))
            return F.when(bad, F.raise_error(text).cast(kind)).otherwise(value)

        if name in key:
            problem = F.lit("is null, and is in the key by which rows replace others: see pk.fields")
            remedy = "select a value for it, or leave out the record in transform.sql"
            value = without(found.isNull(), problem, remedy)
        held = table.columns.get(name, "") if table is not None else ""
        if table is not None and (losing := loses(found, kind, held)) is not None:
            told = F.coalesce(F.substr(written(found, kind, held), F.lit(1), F.lit(_SHOWN)), F.lit("null"))
            lost = f", of which {held} in table {table.name} would lose a part"
            remedy = "round or cut it in transform.sql, or alter the type of the column"
            value = without(losing, F.concat(F.lit("is "), told, F.lit(lost)), remedy)
        return value.alias(name)

    return rows.select([checked(field.name, field.dataType) for field in rows.schema.fields])


def check_kinds(types: Sequence[tuple[str, str]], table: Table) -> None:
    """Raises ``OptionError`` for a column of a type of Spark of which its column can hold no value.

    The database would take some of them without an error: a list or a map as a text in its own notation, and
    of a timestamp the time.
    """
    for name, kind in types:
        held = table.columns.get(name, "")
        if held and (remedy := _why_not(kind, held)):
            reason = f"has column {name} as {kind}, which table {table.name} has as {held}"
            raise OptionError([Problem("transform.sql", None, reason, remedy)])


def _why_not(kind: str, held: str) -> str:
    """Returns the remedy if a column of the type ``held`` can hold no value of ``kind``, and otherwise
    nothing.
    """
    if kind in ("void", "string") or held in _JSON:
        return ""
    if kind.startswith("array<") and held.endswith("[]"):
        element = kind[6:-1]
        # A type of arrays has one pair of brackets, however many dimensions its arrays have.
        return _why_not(element, held if element.startswith("array<") else held.removesuffix("[]"))
    if kind.startswith(_NESTED):
        return "write it by to_json in the SELECT, or alter the type of the column to jsonb"
    if kind in ("timestamp", "timestamp_ntz") and _CLOCK.fullmatch(held):
        return "select the time as a text, by date_format, or alter the type of the column"
    base = held.partition("(")[0]
    is_whole_column = base in _WHOLE
    if held.endswith("[]") or not (is_whole_column or base in _REAL):
        return ""
    is_whole = kind in _SPARK_WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)"))
    is_number = is_whole or kind in _SPARK_REAL or kind.startswith("decimal(")
    return "" if (is_whole if is_whole_column else is_number) else "cast it in the SELECT"


def missing(names: Sequence[str], table: Table) -> list[str]:
    """Returns the columns without a default that must not be null, and that rows with these columns lack."""
    return [name for name, has_default in table.required.items() if not has_default and name not in names]
