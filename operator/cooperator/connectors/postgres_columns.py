"""The columns of PostgreSQL's tables: the kinds of their values in records."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_DIGITS: Final = 38  # of Spark's decimals
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_SIZE = re.compile(r"\(\d+\)")
_KINDS: Final = {
    "boolean": "BOOL",
    "smallint": "INT16",
    "integer": "INT32",
    "bigint": "INT64",
    "real": "FLOAT32",
    "double precision": "FLOAT64",
    "bytea": "BINARY",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP_UTC",
}
_ALIASES: Final = {
    "BOOL": "bool",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FLOAT32": "float32",
    "FLOAT64": "float64",
    "BINARY": "binary",
    "DATE": "date32",
    "TIMESTAMP": "timestamp[us]",
    "STRING": "string",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``type`` is the database's name of its type."""

    name: str
    type: str

    @property
    def is_list(self) -> bool:
        return self.type.endswith("[]")

    @property
    def decimal(self) -> tuple[int, int] | None:
        """The precision and the scale of decimals that Spark has, too; None: it has other values."""
        number = _NUMERIC.fullmatch(self._element)
        if number and int(number[1]) <= _MAX_DIGITS and int(number[2]) >= 0:
            return int(number[1]), int(number[2])
        return None

    @property
    def kind(self) -> str:
        """The kind of its values, or of their elements, as ``TableColumn.java`` names it.

        Values of other types are texts, as PostgreSQL writes them: among others json, uuid, intervals, and
        numbers without precision.
        """
        return "DECIMAL" if self.decimal else _KINDS.get(_SIZE.sub("", self._element), "STRING")

    @property
    def arrow(self) -> "pa.DataType":
        """The Arrow type of its values."""
        import pyarrow as pa

        if self.decimal:
            kind: pa.DataType = pa.decimal128(*self.decimal)
        elif self.kind == "TIMESTAMP_UTC":
            kind = pa.timestamp("us", tz="UTC")
        else:
            kind = pa.type_for_alias(_ALIASES[self.kind])
        return pa.list_(kind) if self.is_list else kind

    @property
    def spec(self) -> list[object]:
        """The column as ``TableColumn.java`` reads it."""
        return [self.name, self.kind, self.is_list, *(self.decimal or (0, 0))]

    @property
    def _element(self) -> str:
        return self.type.removesuffix("[]")
