"""Checks of rows against the columns of their table, as expressions of Spark.

A row that the database refuses fails its whole batch, and the database cannot tell which record it came from.
So with ``errors.tolerance`` = all, rows are checked before: one with a value that its column cannot hold
raises an error of Spark, and its record is left out like any other that cannot be converted.
"""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres import Table
from cooperator.connectors.postgres_sink import DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHOLE = {"smallint": "smallint", "integer": "int", "bigint": "bigint"}
_REAL = {"real": "float", "double precision": "double", "numeric": "double"}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_LIMITED = re.compile(r"character(?: varying)?\((\d+)\)")
_MAX_DIGITS = 38  # of Spark's decimals
_SPARK_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SPARK_REAL = ("float", "double")


def storable(rows: "DataFrame", table: Table | None = None, key: Collection[str] = ()) -> "DataFrame":
    """Returns the rows with text that PostgreSQL can hold; with ``table`` their values fit its columns, too.

    Bytes that are not valid UTF-8 (of a CAST) become U+FFFD; a row with the character U+0000 fails, and so
    does one with a value that does not fit. So does one with a null in the ``key`` of an upsert: a unique
    index takes such rows for different ones, and a batch for one. Raises ``OptionError`` when no value of a
    column fits.
    """
    import pyspark.sql.functions as F  # noqa: N812

    if len(set(rows.columns)) < len(rows.columns):
        return rows  # refused later, with an explanation
    is_deleted = F.coalesce(_column(DELETED), F.lit(False)) if DELETED in rows.columns else F.lit(False)

    def checked(name: str, kind: str) -> "Column":
        found = _column(name)
        problems: list[tuple[Column, str]] = []
        if kind == "string":
            problem = "contains the character U+0000, which PostgreSQL does not support in text"
            problems.append((found.contains("\0"), problem))
        if name in key:
            problem = "is null, and is in the key by which rows replace others: see pk.fields"
            problems.append((found.isNull(), problem))
        if table is not None and name in table.columns:
            problems += _misfits(found, name, kind, table)
            if name in table.required:
                problems.append((found.isNull() & ~is_deleted, f"is null, which table {table.name} refuses"))
        if not problems:
            return found
        value = F.make_valid_utf8(found) if kind == "string" else found
        for condition, problem in reversed(problems):
            refused = F.raise_error(F.lit(f"column {name} {problem}")).cast(kind)
            value = F.when(condition, refused).otherwise(value)
        return value.alias(name)

    return rows.select([checked(name, kind) for name, kind in rows.dtypes])


def missing(names: Sequence[str], table: Table) -> list[str]:
    """Returns the columns without a default that must not be null, and that rows with these columns lack."""
    return [name for name, has_default in table.required.items() if not has_default and name not in names]


def _column(name: str) -> "Column":
    import pyspark.sql.functions as F  # noqa: N812

    return F.col("`" + name.replace("`", "``") + "`")


def _misfits(found: "Column", name: str, kind: str, table: Table) -> "list[tuple[Column, str]]":
    """Returns conditions under which a value does not fit its column, each with the problem."""
    import pyspark.sql.functions as F  # noqa: N812

    held = table.columns[name]
    if (limited := _LIMITED.fullmatch(held)) is not None and kind == "string":
        return [(F.length(F.rtrim(found)) > int(limited[1]), f"does not fit {held}")]
    number = _NUMERIC.fullmatch(held)
    as_decimal = ""
    if number is not None and int(number[2]) <= int(number[1]) <= _MAX_DIGITS:
        as_decimal = f"decimal({number[1]},{number[2]})"
    wanted = _WHOLE.get(held) or as_decimal or _REAL.get(held)
    if wanted is None or kind in ("void", wanted):
        return []
    problem = f"does not fit {held}"
    if kind == "string":
        text = F.trim(found)
        is_number = text.try_cast(wanted).isNotNull()
        if held not in _WHOLE:
            is_number = is_number | (F.lower(text) == "nan")
        return [(found.isNotNull() & ~is_number, problem)]
    is_whole = kind in _SPARK_WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)"))
    if not (is_whole or (held not in _WHOLE and (kind in _SPARK_REAL or kind.startswith("decimal(")))):
        reason = f"has column {name} as {kind}, which table {table.name} has as {held}"
        raise OptionError([Problem("transform.sql", None, reason, "cast it in the SELECT")])
    if held in _REAL:
        return []
    fits = found.try_cast(wanted).isNotNull()
    if kind in _SPARK_REAL:
        fits = fits | F.isnan(found)  # any numeric column holds it
    return [(found.isNotNull() & ~fits, problem)]
