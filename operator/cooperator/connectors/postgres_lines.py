"""Rows for PostgreSQL's COPY (text format), made by expressions in Spark's plan.

Spark's tasks make lines of them (``CopyLine``), so no value of a row becomes an object of Python.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_AS_TEXT: Final = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|date|timestamp_ntz|void)\Z"
)
_JSON: Final = ("json", "jsonb")


class Texts(NamedTuple):
    """Rows of text, or bytes, and the name and the form (of ``CopyLine``) of each column."""

    rows: "DataFrame"
    forms: Sequence[tuple[str, str]]


def can_be_lines(types: Sequence[tuple[str, str]], columns: Mapping[str, str]) -> bool:
    """Whether rows of these columns (names and Spark's types) can be lines for a table's columns."""
    return all(_is_known(kind, columns.get(name, "")) for name, kind in types)


def texts(rows: "DataFrame", columns: Mapping[str, str]) -> Texts:
    """Returns the rows with the text of their values.

    ``columns`` maps the table's columns to their types; others are written as the text of their type.
    """
    import pyspark.sql.functions as F  # noqa: N812

    found: list[Column] = []
    forms: list[tuple[str, str]] = []
    for field in rows.schema.fields:
        name = "`" + field.name.replace("`", "``") + "`"
        value, form = F.col(name), _form(field.dataType)
        text = value if form == "BYTES" else _text(value, field.dataType, columns.get(field.name, ""))
        found.append(text.alias(field.name))
        forms.append((field.name, form))
    return Texts(rows.select(*found), forms)


def _form(kind: "DataType") -> str:
    from pyspark.sql import types as T  # noqa: N812

    match kind:
        case T.BinaryType():
            return "BYTES"
        case T.StringType() | T.ArrayType() | T.StructType() | T.MapType():
            return "TEXT"
    return "PLAIN"


def _is_known(kind: str, held: str) -> bool:
    if _AS_TEXT.match(kind) or kind in ("boolean", "string", "binary", "timestamp"):
        return True
    if held in _JSON:
        # Spark writes JSON of any depth.
        return kind.startswith(("struct<", "array<", "map<")) and "interval" not in kind
    if kind.startswith("array<"):
        return _is_known(kind[6:-1], held.removesuffix("[]"))
    return False


def _text(value: "Column", kind: "DataType", held: str) -> "Column":
    """Returns a value as PostgreSQL reads it; null stays null."""
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if held in _JSON and isinstance(kind, T.ArrayType | T.StructType | T.MapType):
        return F.to_json(value, {"ignoreNullFields": "false"})
    match kind:
        case T.BooleanType():
            return F.when(value, F.lit("t")).when(~value, F.lit("f"))
        case T.BinaryType():
            return F.concat(F.lit(r"\x"), F.lower(F.hex(value)))
        case T.TimestampType():
            return F.concat(value.cast("string"), F.lit("+00"))
        case T.ArrayType():
            of_element, inner = kind.elementType, held.removesuffix("[]")

            def element(each: "Column") -> "Column":
                text = _text(each, of_element, inner)
                if isinstance(of_element, T.ArrayType):
                    return F.coalesce(text, F.lit("NULL"))
                quoted = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
                return F.coalesce(F.concat(F.lit('"'), quoted, F.lit('"')), F.lit("NULL"))

            return F.concat(F.lit("{"), F.array_join(F.transform(value, element), ","), F.lit("}"))
        case T.StringType():
            return value
    return value.cast("string")
