"""Sizes of values as linear forms. Pure.

The size of a value is its bytes as they are read: those of texts and binaries, 26 for a number or a time, 82
for an interval; and 3 for each element, key, value and field, whose name counts, too. So a value has a third
as many elements as its size at most, and its text is not much longer than its size.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.connectors.options import refuse

Symbol = tuple[Any, ...]
ROW: Final[Symbol] = ("row",)
"""All values of the row."""
PLACE: Final = 3
NUMBER: Final = 52
"""Any number or time that is computed, also an interval of days."""


@dataclass(frozen=True, slots=True)
class Size:
    """At most ``bytes``, and for each symbol so many times its size."""

    bytes: float = 0
    times: Mapping[Symbol, float] = field(default_factory=dict)

    @property
    def grows(self) -> bool:
        return any(self.times.values())

    @property
    def most_times(self) -> float:
        return max(self.times.values(), default=0)

    def __add__(self, other: "Size | float") -> "Size":
        if not isinstance(other, Size):
            return Size(self.bytes + other, self.times)
        if not other.times:
            return Size(self.bytes + other.bytes, self.times)
        times = dict(self.times)
        for symbol, value in other.times.items():
            times[symbol] = times.get(symbol, 0) + value
        return Size(self.bytes + other.bytes, times)

    def __mul__(self, factor: float) -> "Size":
        if factor == 1:
            return self
        return Size(self.bytes * factor, {symbol: value * factor for symbol, value in self.times.items()})


OF_ROW: Final = Size(0, {ROW: 1})


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call. ``value`` is that of a literal, ``name`` that of a column or an alias.

    ``elements`` are those that are written (``Cost``).
    """

    size: Size
    value: Any = None
    name: str = ""
    elements: float = 1
    is_accumulator: bool = False


def total(sizes: Iterable[Size]) -> Size:
    found = Size()
    for each in sizes:
        found = found + each
    return found


def largest(sizes: Iterable[Size]) -> Size:
    """Returns a form that is above each of these."""
    times: dict[Symbol, float] = {}
    size_bytes = 0.0
    for each in sizes:
        size_bytes = max(size_bytes, each.bytes)
        for symbol, value in each.times.items():
            times[symbol] = max(times.get(symbol, 0), value)
    return Size(size_bytes, times)


def product(count: Size, each: Size, name: str, remedy: str) -> Size:
    """Returns so many of ``each``; raises ``refuse(…)`` if both grow with the data."""
    if count.grows and each.grows:
        raise refuse(f"calls {name}, whose result may grow with the square of a value", remedy)
    return each * count.bytes + count * each.bytes + -count.bytes * each.bytes
