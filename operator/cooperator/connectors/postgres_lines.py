"""Rows for PostgreSQL's COPY (text format), made by expressions in Spark's plan.

Spark's tasks make lines of them (``CopyLine``), so no value of a row becomes an object of Python.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from cooperator.connectors.formats import JSON_WRITTEN
from cooperator.connectors.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_AS_TEXT: Final = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|date|timestamp_ntz|void)\Z"
)
_JSON: Final = ("json", "jsonb")
_MICROSECOND: Final = Decimal("0.000001")


class Texts(NamedTuple):
    """Rows of text, or bytes, and the name and the form (of ``CopyLine``) of each column."""

    rows: "DataFrame"
    forms: Sequence[tuple[str, str]]


def can_be_lines(types: Sequence[tuple[str, str]], columns: Mapping[str, str]) -> bool:
    """Whether rows of these columns (names and Spark's types) can be lines for a table's columns."""
    return all(_is_known(kind, columns.get(name, "")) for name, kind in types)


def texts(rows: "DataFrame", columns: Mapping[str, str]) -> Texts:
    """Returns the rows with the text of their values; a column whose text Spark cannot make stays as it is.

    ``columns`` maps the table's columns to their types; others are written as the text of their type.
    """
    import pyspark.sql.functions as F  # noqa: N812

    found: list[Column] = []
    forms: list[tuple[str, str]] = []
    for field in rows.schema.fields:
        value, form = F.col(quoted(field.name)), _form(field.dataType)
        held = columns.get(field.name, "")
        if form != "BYTES" and _is_known(field.dataType.simpleString(), held):
            value = written(value, field.dataType, held)
        found.append(value.alias(field.name))
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


def written(value: "Column", kind: "DataType", held: str) -> "Column":
    """Returns the text of a value, as PostgreSQL reads it in a column of the type ``held``; null stays."""
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if held in _JSON and isinstance(kind, T.ArrayType | T.StructType | T.MapType):
        return F.to_json(value, JSON_WRITTEN)
    match kind:
        case T.BooleanType():
            # In a column of text, too, it is the word that PostgreSQL's own cast writes.
            return F.when(value, F.lit("true")).when(~value, F.lit("false"))
        case T.BinaryType():
            return F.concat(F.lit(r"\x"), F.lower(F.hex(value)))
        case T.TimestampType():
            return _as_postgres_writes(_in_utc(value), "+00")
        case T.DateType() | T.TimestampNTZType():
            return _as_postgres_writes(value)
        case T.ArrayType():
            of_element, inner = kind.elementType, held.removesuffix("[]")

            def element(each: "Column") -> "Column":
                text = written(each, of_element, inner)
                if isinstance(of_element, T.ArrayType):
                    return F.coalesce(text, F.lit("NULL"))
                quoted = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
                return F.coalesce(F.concat(F.lit('"'), quoted, F.lit('"')), F.lit("NULL"))

            return F.concat(F.lit("{"), F.array_join(F.transform(value, element), ","), F.lit("}"))
        case T.StringType():
            return value
        case T.FloatType() if held == "double precision":
            # Its own text stands for it among floats only: 1.50000005E10 is 15000000512. A numeric has the
            # text, though: what was a cent is to fit two digits.
            return value.cast("double").cast("string")
    return value.cast("string")


def _in_utc(value: "Column") -> "Column":
    """Returns an instant's date and time in UTC, whatever the session's zone is."""
    import pyspark.sql.functions as F  # noqa: N812

    seconds = (F.unix_micros(value).cast("decimal(20,0)") * F.lit(_MICROSECOND)).cast("decimal(18,6)")
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + F.make_dt_interval(secs=seconds)


def _as_postgres_writes(value: "Column", zone: str = "") -> "Column":
    """Returns the text of a date or time. Spark writes years as ISO 8601 does: the year 0, years before it
    with a minus, and those of five digits with a plus. PostgreSQL has none of these, and writes BC.
    """
    import pyspark.sql.functions as F  # noqa: N812

    text = F.concat(value.cast("string"), F.lit(zone))
    year = F.regexp_extract(text, r"^-?(\d+)", 1).cast("int") + 1
    before_christ = F.concat(
        F.lpad(year.cast("string"), 4, "0"), F.regexp_replace(text, r"^-?\d+", ""), F.lit(" BC")
    )
    return (
        F.when(text.startswith("+"), F.substr(text, F.lit(2)))
        .when(text.startswith("-") | text.startswith("0000"), before_christ)
        .otherwise(text)
    )
