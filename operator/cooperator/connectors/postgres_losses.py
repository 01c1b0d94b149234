"""Values of which a column of PostgreSQL would take a part only, without an error.

The database rounds numbers to the scale of a ``numeric``, or to a float, and times to the digits of their
type; a ``date`` drops the time of a timestamp, a ``varchar`` spaces that it has no room for, and a ``name``,
or a column of one ``char``, whatever it has no room for; an ``oid`` has another number for a negative one.
Other values that do not fit are refused by the database itself.
"""

import re
from typing import TYPE_CHECKING, Final

from cooperator.connectors.postgres import MOST_OF_A_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TIME: Final = re.compile(r"timestamp(?:\((\d)\))? with(?:out)? time zone")
_VARCHAR: Final = re.compile(r"character varying\((\d+)\)")
_BYTES: Final = {"name": MOST_OF_A_NAME, '"char"': 1}
"""Types of texts that are cut after so many bytes."""
_OID: Final = "oid"
_MONEY: Final = "numeric(19,2)"
"""What a ``money`` holds, with the currency of most locales."""
_FLOATS: Final = {"real": "float", "double precision": "double"}
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_MICROS: Final = 6
_MAX_DIGITS: Final = 38


def loses(value: "Column", kind: "DataType", held: str) -> "Column | None":
    """Returns whether a column of the type ``held`` would take a part of the value only; None: never.

    It is no reason to refuse null.
    """
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(kind, T.ArrayType):
        element, of_element = kind.elementType, held.removesuffix("[]")
        if loses(value, element, of_element) is None:
            return None
        # Of a null in it nothing is lost.
        return F.exists(value, lambda each: F.coalesce(_some(each, element, of_element), F.lit(False)))
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return _of_time(value, kind, held)
    if isinstance(kind, T.StringType):
        if held in _BYTES:
            return F.octet_length(value) > _BYTES[held]
        size = _VARCHAR.fullmatch(held)
        if size is None:
            return None
        return (F.length(value) > int(size[1])) & (F.length(F.rtrim(value)) <= int(size[1]))
    return _of_number(value, kind, held)


def _some(value: "Column", kind: "DataType", held: str) -> "Column":
    found = loses(value, kind, held)
    assert found is not None, "it depends on the types alone"
    return found


def _of_time(value: "Column", kind: "DataType", held: str) -> "Column | None":
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(kind, T.TimestampType):
        micros = F.unix_micros(value)
    else:
        # The time zone has no effect on the part of a day that is left over.
        micros = F.unix_micros(F.to_utc_timestamp(value, "UTC"))
    digits = _TIME.fullmatch(held)
    if held == "date":
        return F.pmod(micros, F.lit(86_400_000_000)) != 0
    if digits is not None and digits[1] is not None and int(digits[1]) < _MICROS:
        return F.pmod(micros, F.lit(10 ** (_MICROS - int(digits[1])))) != 0
    return None


def _of_number(value: "Column", kind: "DataType", held: str) -> "Column | None":
    """Whether a number differs from what is left of it. What cannot be converted the database refuses."""
    import pyspark.sql.functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    name = kind.simpleString()
    if name not in (*_WHOLE, "float", "double") and not isinstance(kind, T.DecimalType):
        return None
    if held == _OID:
        return value < 0
    number = _NUMERIC.fullmatch(_MONEY if held == "money" else held)
    if number is not None:
        scale = int(number[2])
        own = kind.scale if isinstance(kind, T.DecimalType) else 0 if name in _WHOLE else _MAX_DIGITS
        if own <= scale or scale > _MAX_DIGITS:
            return None
        left = f"decimal({_MAX_DIGITS},{max(scale, 0)})"
        kept = value.try_cast(left)
        differs = _differs(value, kept, kind)
        return differs if scale >= 0 else differs | (kept % F.lit(10**-scale) != 0)
    if held not in _FLOATS or _FLOATS[held] == name or name == "float":
        return None
    # The text is what a reader sees: a tenth is a tenth in both.
    kept = value.try_cast(_FLOATS[held]).cast("string")
    if name == "double":
        return kept != value.cast("string")
    return _differs(value, kept, kind if isinstance(kind, T.DecimalType) else T.DecimalType(20, 0))


def _differs(value: "Column", kept: "Column", kind: "DataType") -> "Column":
    """Whether what is kept of a value is another one: also if it is too large, by rounding, for its type."""
    import pyspark.sql.functions as F  # noqa: N812

    return F.coalesce(kept.try_cast(kind) != value, kept.isNotNull())
