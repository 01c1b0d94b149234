"""Texts of values, as independent readers have read them: one form for each kind of value.

Dates and times are counted by integers, since Python's end at the year 9999 and begin with the year 1.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

_DAY_US = 86_400_000_000
_ISO = re.compile(
    r"(?P<year>[+-]?\d{4,})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d){0,2})?"
)


def day_text(days: int) -> str:
    """The ISO date of a number of days since 1970 in the proleptic Gregorian calendar (year 0 is 1 BC)."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:0{4 + (year < 0)}d}-{month:02d}-{day:02d}"


def days_of(year: int, month: int, day: int) -> int:
    """The inverse of ``day_text``."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468


def moment_text(us: int, zone: str = "Z") -> str:
    """The ISO time of a number of microseconds since 1970."""
    days, rest = divmod(us, _DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
    return f"{day_text(days)}T{clock}{zone}"


def parsed_moment(text: str, zoned: bool) -> str:
    """The form of ``moment_text`` of an ISO text. It says so if a zone is missing or unexpected."""
    match = _ISO.fullmatch(text)
    if match is None:
        return f"{text} (no ISO time)"
    us, zone = moment_us(text), match["zone"]
    if zoned != (zone is not None):
        return moment_text(us, " (without a zone)" if zoned else f" (with the zone {zone})")
    return moment_text(us, "Z" if zoned else "")


def moment_us(text: str) -> int:
    """The microseconds of an ISO time since 1970, by its own zone if it has one."""
    match = _ISO.fullmatch(text)
    assert match is not None, text
    days = days_of(int(match["year"]), int(match["month"]), int(match["day"]))
    clock_s = int(match["hour"] or 0) * 3600 + int(match["minute"] or 0) * 60 + int(match["second"] or 0)
    fraction_us = int((match["fraction"] or "").ljust(6, "0")[:6])
    return days * _DAY_US + clock_s * 1_000_000 + fraction_us - _offset_us(match["zone"])


def _offset_us(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return (-seconds if zone[0] == "-" else seconds) * 1_000_000


def float_text(value: float, single: bool = False) -> str:
    """The shortest text that is this number, of 32 bits or 64."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not single:
        return repr(float(value))
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", value):
            return repr(float(text))
    raise AssertionError(value)


def of_text(kind: str, value: Any) -> str:
    """The text of what a reader of JSON or of CSV has read; fractions of JSON are decimals."""
    if value is None:
        return "null"
    if kind in ("float", "double"):
        try:
            return float_text(float(value), kind == "float")
        except (TypeError, ValueError, OverflowError):
            return f"{value} (no number)"
    if kind == "binary":
        try:
            return base64.b64decode(str(value), validate=True).hex()
        except (binascii.Error, ValueError):
            return f"{value} (no base64)"
    if kind == "timestamp":
        return parsed_moment(str(value), zoned=True)
    if kind == "timestamp_ntz":
        return parsed_moment(str(value), zoned=False)
    if kind == "date":
        return parsed_moment(str(value), zoned=False).removesuffix("T00:00:00.000000")
    if kind == "decimal":
        return decimal_text(value)
    if kind == "struct":
        return json_text(_members(value))
    if kind == "json":
        return json_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value if isinstance(value, str) else json_text(value)


def decimal_text(value: Any) -> str:
    """All digits of a decimal; its trailing zeros count."""
    try:
        return format(Decimal(str(value)), "f")
    except InvalidOperation:
        return f"{value} (no decimal)"


def _members(value: Any) -> Any:
    """A struct of which members that are null are left out, and times have one form."""
    if isinstance(value, Mapping):
        return {name: _members(each) for name, each in value.items() if each is not None}
    if isinstance(value, str) and _ISO.fullmatch(value) and "T" in value:
        return parsed_moment(value, zoned=True)
    return value


def json_text(value: Any) -> str:
    """JSON in one form: sorted names, numbers with all their digits, no spaces."""
    if isinstance(value, Mapping):
        inner = ",".join(f"{json.dumps(str(name))}:{json_text(value[name])}" for name in sorted(value))
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(json_text(each) for each in value)}]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return float_text(value) if math.isfinite(value) else json.dumps(float_text(value))
    return json.dumps(value)


def json_value(text: str) -> Any:
    """JSON as a strict reader reads it, with all digits of its numbers."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_float=Decimal, parse_constant=refuse)
