"""Checks of rows against the columns of their table, as expressions of Spark.

A row that the database refuses fails its whole batch, and the database cannot tell which record it came from.
So with ``errors.tolerance`` = all, rows are checked before: one with a value that its column cannot hold
raises an error of Spark, and its record is left out like any other that cannot be converted.
"""

import operator
import re
from collections.abc import Collection, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres import Table
from cooperator.connectors.postgres_sink import DELETED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_WHOLE = {"smallint": "smallint", "integer": "int", "bigint": "bigint"}
_REAL = {"real": "float", "double precision": "double", "numeric": "double"}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_LIMITED = re.compile(r"character(?: varying)?\((\d+)\)")
_MAX_DIGITS = 38  # of Spark's decimals
_NUL = "the character U+0000, which PostgreSQL does not support in text"
_ESCAPED_NUL = r"(?<!\\)(?:\\\\)*\\u0000"
"""An escape, and not the letters after an escaped backslash."""
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
    from pyspark.sql.types import StringType

    if len(set(rows.columns)) < len(rows.columns):
        return rows  # refused later, with an explanation
    is_deleted = F.coalesce(_column(DELETED), F.lit(False)) if DELETED in rows.columns else F.lit(False)

    def checked(name: str, kind: "DataType") -> "Column":
        found = _column(name)
        held = table.columns.get(name, "") if table is not None else ""
        problems: list[tuple[Column, str]] = []
        has_nul = _has_nul(found, kind)
        # As JSON, and only there, PostgreSQL keeps its escape.
        if has_nul is not None and not (held == "json" and not isinstance(kind, StringType)):
            problems.append((has_nul, f"contains {_NUL}"))
        if held == "jsonb" and isinstance(kind, StringType):
            problems.append((found.rlike(_ESCAPED_NUL), f"contains the escape of {_NUL}"))
        if name in key:
            problem = "is null, and is in the key by which rows replace others: see pk.fields"
            problems.append((found.isNull(), problem))
        if table is not None and name in table.columns:
            problems += _misfits(found, name, kind.simpleString(), table)
            if name in table.required:
                problems.append((found.isNull() & ~is_deleted, f"is null, which table {table.name} refuses"))
        if not problems:
            return found
        value = F.make_valid_utf8(found) if isinstance(kind, StringType) else found
        for condition, problem in reversed(problems):
            refused = F.raise_error(F.lit(f"column {name} {problem}")).cast(kind)
            value = F.when(condition, refused).otherwise(value)
        return value.alias(name)

    return rows.select([checked(field.name, field.dataType) for field in rows.schema.fields])


def missing(names: Sequence[str], table: Table) -> list[str]:
    """Returns the columns without a default that must not be null, and that rows with these columns lack."""
    return [name for name, has_default in table.required.items() if not has_default and name not in names]


def _column(name: str) -> "Column":
    import pyspark.sql.functions as F  # noqa: N812

    return F.col("`" + name.replace("`", "``") + "`")


def _has_nul(value: "Column", kind: "DataType") -> "Column | None":
    """Returns whether a text within the value, at any depth, has the character; None: it has no text."""
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    match kind:
        case T.StringType():
            return value.contains("\0")
        case T.ArrayType():
            element = kind.elementType
            if not _has_text(element):
                return None

            def in_element(each: "Column") -> "Column":
                found = _has_nul(each, element)
                assert found is not None
                return F.coalesce(found, F.lit(False))

            return F.exists(value, in_element)
        case T.MapType():
            parts = [
                _has_nul(F.map_keys(value), T.ArrayType(kind.keyType)),
                _has_nul(F.map_values(value), T.ArrayType(kind.valueType)),
            ]
        case T.StructType():
            parts = [_has_nul(value.getField(field.name), field.dataType) for field in kind.fields]
        case _:
            return None
    known = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
    return reduce(operator.or_, known) if known else None


def _has_text(kind: "DataType") -> bool:
    from pyspark.sql import types as T  # noqa: N812

    match kind:
        case T.ArrayType():
            return _has_text(kind.elementType)
        case T.MapType():
            return _has_text(kind.keyType) or _has_text(kind.valueType)
        case T.StructType():
            return any(_has_text(field.dataType) for field in kind.fields)
    return isinstance(kind, T.StringType)


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
