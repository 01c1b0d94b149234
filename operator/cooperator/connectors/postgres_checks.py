"""Checks of rows against their table, besides those of the database itself (``postgres_refusals``)."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres import Table
from cooperator.connectors.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_WHOLE = ("smallint", "integer", "bigint")
_REAL = ("real", "double precision", "numeric")
_SPARK_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SPARK_REAL = ("float", "double")


def storable(rows: "DataFrame", key: Collection[str] = ()) -> "DataFrame":
    """Returns the rows with text that is UTF-8: bytes that are not (of a CAST) become U+FFFD.

    A row with a null in the ``key`` of an upsert fails, since the database would not refuse it: a unique
    index takes such rows for different ones, and a batch for one.
    """
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql.types import StringType

    if len(set(rows.columns)) < len(rows.columns):
        return rows  # refused later, with an explanation

    def checked(name: str, kind: "DataType") -> "Column":
        found = F.col(quoted(name))
        value = F.make_valid_utf8(found) if isinstance(kind, StringType) else found
        if name in key:
            problem = "is null, and is in the key by which rows replace others: see pk.fields"
            remedy = "select a value for it, or leave out the record in transform.sql"
            refused = F.raise_error(F.lit(f"column {name} {problem}; {remedy}")).cast(kind)
            value = F.when(found.isNull(), refused).otherwise(value)
        return value.alias(name)

    return rows.select([checked(field.name, field.dataType) for field in rows.schema.fields])


def check_kinds(types: Sequence[tuple[str, str]], table: Table) -> None:
    """Raises ``OptionError`` for a column of a type of Spark of which its column can hold no value."""
    for name, kind in types:
        held = table.columns.get(name, "")
        is_whole_column = held in _WHOLE
        if kind in ("void", "string") or not (is_whole_column or held.partition("(")[0] in _REAL):
            continue
        is_whole = kind in _SPARK_WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)"))
        is_number = is_whole or kind in _SPARK_REAL or kind.startswith("decimal(")
        if not (is_whole if is_whole_column else is_number):
            reason = f"has column {name} as {kind}, which table {table.name} has as {held}"
            raise OptionError([Problem("transform.sql", None, reason, "cast it in the SELECT")])


def missing(names: Sequence[str], table: Table) -> list[str]:
    """Returns the columns without a default that must not be null, and that rows with these columns lack."""
    return [name for name, has_default in table.required.items() if not has_default and name not in names]
