"""The columns of PostgreSQL's tables, as Arrow has them."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import sql

_MAX_DIGITS = 38  # of Spark's decimals
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_SIZE = re.compile(r"\(\d+\)")
_ZONED = ("timestamp with time zone",)
_ALIASES = {
    "boolean": "bool",
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "real": "float32",
    "double precision": "float64",
    "bytea": "binary",
    "date": "date32",
    "timestamp without time zone": "timestamp[us]",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``type`` is the database's name of its type."""

    name: str
    type: str

    @property
    def arrow(self) -> "pa.DataType":
        """The Arrow type of its values as they are read.

        Types without an Arrow counterpart are text, as PostgreSQL writes it: among others json, uuid,
        intervals, and numbers without precision.
        """
        import pyarrow as pa

        element = self.type.removesuffix("[]")
        if (number := _NUMERIC.fullmatch(element)) and int(number[1]) <= _MAX_DIGITS and int(number[2]) >= 0:
            kind: pa.DataType = pa.decimal128(int(number[1]), int(number[2]))
        else:
            kind = pa.type_for_alias(_ALIASES.get(_SIZE.sub("", element), "string"))
        if _SIZE.sub("", element) in _ZONED:
            kind = pa.timestamp("us", tz="UTC")
        return pa.list_(kind) if self.type.endswith("[]") else kind

    @property
    def selected(self) -> "sql.Composed":
        """The expression in a SELECT that returns its value with the type ``arrow``."""
        import pyarrow as pa
        from psycopg import sql

        name, kind = sql.Identifier(self.name), self.arrow
        if pa.types.is_string(kind):
            return sql.SQL("{0}::text AS {0}").format(name)
        if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
            return sql.SQL("{0}::text[] AS {0}").format(name)
        return sql.SQL("{}").format(name)
