"""Rows as lines of PostgreSQL's COPY format (text), made by expressions in Spark's plan.

So no value of a row becomes an object of Python, and the column of lines is, as Arrow has it in memory, what
COPY reads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

LINE: Final = "line"
_AS_TEXT: Final = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|date|timestamp_ntz|void)\Z"
)
_JSON: Final = ("json", "jsonb")
_ESCAPED: Final = "cooperator_copy_text"


def can_be_lines(types: Sequence[tuple[str, str]], columns: Mapping[str, str]) -> bool:
    """Whether rows of these columns (names and Spark's types) can be lines for a table's columns."""
    return all(_is_known(kind, columns.get(name, "")) for name, kind in types)


def lines(rows: "DataFrame", columns: Mapping[str, str]) -> "DataFrame":
    """Returns a single column ``LINE`` of the rows' lines, each with its end.

    ``columns`` maps the table's columns to their types; others are written as the text of their type.
    """
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql.types import BinaryType

    rows.sparkSession.udf.registerJavaFunction(_ESCAPED, "dev.cooperator.spark.CopyText", BinaryType())
    parts: list[Column] = []
    for field in rows.schema.fields:
        name = "`" + field.name.replace("`", "``") + "`"
        text = _text(F.col(name), field.dataType, columns.get(field.name, ""))
        parts += [F.lit("\t"), F.coalesce(_escaped(text, field.dataType), F.lit(r"\N"))]
    return rows.select(F.concat(*parts[1:], F.lit("\n")).alias(LINE))


def payloads(rows: "pa.Table | pa.RecordBatch") -> Iterator[memoryview]:
    """Yields the bytes of a column of lines, without a copy."""
    import pyarrow as pa

    column = rows.column(0)
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk):
            wide = pa.types.is_large_string(chunk.type)
            _, offsets, data = chunk.buffers()
            ends = memoryview(offsets).cast("q" if wide else "i")
            first, last = ends[chunk.offset], ends[chunk.offset + len(chunk)]
            yield memoryview(data)[first:last]


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


def _escaped(text: "Column", kind: "DataType") -> "Column":
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if not isinstance(kind, T.StringType | T.BinaryType | T.ArrayType | T.StructType | T.MapType):
        return text
    return F.call_function(_ESCAPED, text.cast("binary")).cast("string")
