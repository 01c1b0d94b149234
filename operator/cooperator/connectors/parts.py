"""Converted rows of a batch, part by part, and their order.

The records of each type are converted by a query of their own. The rows of its result carry the numbers of
the records that they were made of (``NumberedRows``, in the JVM), so that they return to the records' order.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NUMBER = "__cooperator_number"
"""The column of records with their numbers in the batch. The view ``input`` does not have it."""


class Part(NamedTuple):
    """Rows of one type. ``types`` holds the columns with the names of Spark's types.

    ``numbers`` has for each row that of its record, ascending; it is empty in a batch with one part.
    """

    types: tuple[tuple[str, str], ...]
    rows: "pa.Table"
    numbers: Sequence[int] = ()


def as_relation(rows: "pa.Table", session: "SparkSession") -> "DataFrame":
    """Returns the rows in Spark's types. A time without a zone stays one, whatever the session's zone is."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return session.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def with_column_of_numbers(rows: "pa.Table", numbers: Sequence[int]) -> "pa.Table":
    """Returns records with their numbers in the batch."""
    import pyarrow as pa

    return rows.append_column(pa.field(NUMBER, pa.int64(), nullable=False), pa.array(numbers, pa.int64()))


def with_numbers(converted: "DataFrame") -> "DataFrame":
    """Adds a last column with the number of each row's record."""
    import pyspark.sql.functions as F  # noqa: N812

    return converted.select("*", F.expr("input_file_block_start()").alias(NUMBER))


def numbered(types: tuple[tuple[str, str], ...], rows: "pa.Table") -> Part:
    """Returns a part of rows whose last column has the numbers."""
    last = rows.num_columns - 1
    return Part(types, rows.remove_column(last), rows.column(last).to_pylist())


def in_order(parts: Sequence[Part]) -> Iterator[tuple[Part, int, tuple[Any, ...]]]:
    """Yields all rows, with their parts and the numbers of their records, in the order of these."""

    def rows(place: int, part: Part) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        columns = [column.to_pylist() for column in part.rows.columns]
        values = zip(*columns, strict=True)
        for number, row in zip(part.numbers or [0] * part.rows.num_rows, values, strict=True):
            yield number, place, row

    ordered = merge(*(rows(*one) for one in enumerate(parts)), key=lambda one: one[0])
    return ((parts[place], number, row) for number, place, row in ordered)


def as_one_table(parts: Sequence[Part]) -> "pa.Table | None":
    """Returns all rows in the order of their records; columns that a part lacks are null.

    Raises ``pa.ArrowException`` when a column has types that do not fit together.
    """
    import pyarrow as pa

    if not parts:
        return None
    table = pa.concat_tables([part.rows for part in parts], promote_options="permissive")
    numbers = [number for part in parts for number in part.numbers]
    if len(parts) == 1 or not numbers:
        return table
    return table.take(sorted(range(len(numbers)), key=numbers.__getitem__))
