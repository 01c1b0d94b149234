"""The cost of a value, and of a relation with its columns. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import LARGEST
from cooperator.connectors.sql_sizes import OF_ROW, PLACE, Size, largest, total

MOST_PARTS: Final = 100_000
MOST_ROWS: Final = 1_000_000
MOST_BYTES: Final = 10_000_000
"""Upper limit of what the text itself asks for in one value, as ``space(10000)`` does."""
COLUMNS: Final = 20
"""The number of columns that ``input`` counts as; ``*`` stands for all of them."""
TEXT: Final = 100
"""A part has at most so many bytes of names and texts; longer ones count as several parts. Spark names a
column after the text of its expression, so that names can double from level to level, too."""
RELATION: Final = 25
"""A node of the plan costs Spark as much as some parts of an expression."""


@dataclass(frozen=True, slots=True)
class Cost:
    """``elements`` are those that are written; a value of the row has one. ``count`` bounds all elements.

    Without a ``count``, a value has a third as many elements as bytes.
    """

    size: Size = OF_ROW
    parts: float = 1
    elements: float = 1
    count: Size | None = None

    @property
    def counted(self) -> Size:
        return self.size * (1 / PLACE) if self.count is None else self.count

    def __mul__(self, times: float) -> "Cost":
        """Returns the cost of so many values side by side."""
        return Cost(self.size * times, self.parts * times, self.elements * times)


@dataclass(frozen=True, slots=True)
class Relation:
    """``columns`` has the costs of named columns, and ``other`` is the cost of all others; ``whole`` is that
    of all columns side by side with their names, of which several may be the same."""

    columns: Mapping[str, Cost] = field(default_factory=dict)
    other: Cost = Cost()
    whole: Cost = Cost(OF_ROW, COLUMNS)
    rows: float = 1
    parts: float = RELATION

    @property
    def most(self) -> Cost:
        return most([self.other, *self.columns.values()])

    def find(self, names: Sequence[str]) -> Cost:
        lower = [name.lower() for name in names]
        if not all(name.isascii() for name in lower):
            return self.most  # Java ignores case by other rules.
        return most([self.columns[name] for name in lower if name in self.columns] or [self.other])


def most(costs: Iterable[Cost]) -> Cost:
    found = list(costs)
    if len(found) < 2:
        return found[0] if found else Cost()
    size = largest(cost.size for cost in found)
    return Cost(size, max(cost.parts for cost in found), max(cost.elements for cost in found))


def together(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of all of them side by side."""
    found = list(costs)
    size = total(cost.size for cost in found)
    return Cost(size, sum(cost.parts for cost in found), sum(cost.elements for cost in found))


def checked_size(cost: Cost) -> Cost:
    if cost.size.most_times > LARGEST:
        raise refuse(
            f"may make a value more than {LARGEST} times as large",
            "use a column fewer times in what is made of it, and repeat it less",
        )
    if cost.size.bytes > MOST_BYTES:
        problem = f"may make a value of more than {MOST_BYTES:_} bytes of what is written"
        raise refuse(problem.replace("_", " "), "repeat texts less, and make fewer elements")
    return cost


def check_parts(parts: float) -> None:
    if parts > MOST_PARTS:
        raise refuse(
            f"stands for a query of more than {MOST_PARTS} parts",
            "read names of a WITH or WINDOW, and columns made of others, fewer times; nest fewer loops",
        )


def checked(found: Relation) -> Relation:
    check_parts(found.parts)
    if found.rows > MOST_ROWS:
        raise refuse(f"makes more than {MOST_ROWS} rows of one", "join fewer generated rows")
    return found
