"""The columns of PostgreSQL's tables: the kinds of their values in records."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_DIGITS: Final = 38  # of Spark's decimals
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_SIZE = re.compile(r"\((\d+)\)")
_MILLIS: Final = 3
"""Digits of a second's fraction that Connect's type of times has."""
_MICROS: Final = 6
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
    def text_sql(self) -> Literal["{}::text", "abbrev({})"]:
        """The expression of a value as the database writes it: a cast makes a network of an address."""
        return "abbrev({})" if self.type == "inet" else "{}::text"

    @property
    def fraction_digits(self) -> int:
        """The digits of a second's fraction that its times have at most, as Arrow counts them: 3 or 6."""
        size = _SIZE.search(self._element)
        return _MILLIS if size is not None and int(size[1]) <= _MILLIS else _MICROS

    @property
    def arrow(self) -> "pa.DataType":
        """The Arrow type of its values."""
        import pyarrow as pa

        if self.decimal:
            kind: pa.DataType = pa.decimal128(*self.decimal)
        elif self._is_time:
            unit: Literal["ms", "us"] = "ms" if self.fraction_digits == _MILLIS else "us"
            kind = pa.timestamp(unit, tz="UTC" if self.kind == "TIMESTAMP_UTC" else None)
        else:
            kind = pa.type_for_alias(_ALIASES[self.kind])
        return pa.list_(kind) if self.is_list else kind

    @property
    def spec(self) -> list[object]:
        """The column as ``TableColumn.java`` reads it."""
        digits = (self.fraction_digits, 0) if self._is_time else (0, 0)
        return [self.name, self.kind, self.is_list, *(self.decimal or digits)]

    @property
    def _is_time(self) -> bool:
        return self.kind in ("TIMESTAMP", "TIMESTAMP_UTC")

    @property
    def _element(self) -> str:
        return self.type.removesuffix("[]")
