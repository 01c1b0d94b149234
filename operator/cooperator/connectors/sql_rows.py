"""Rows that a SELECT makes of one row by what is written, and places that Spark allocates for rows. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import LARGEST, MOST_WINDOWS
from cooperator.connectors.sql_parts import QueryPart, number_at, parts_of, value_of
from cooperator.connectors.sql_results import elements_of_sequence
from cooperator.connectors.sql_sizes import Argument, Size

_MOST_PARTITIONS: Final = 1_000
_MOST_LIMIT: Final = 1_000_000
_ROWS: Final = frozenset(
    {"explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer"}
)
_PLAIN_VALUES: Final = frozenset(
    {"Alias", "Cast", "CreateNamedStruct", "Literal", "NamePlaceholder$", "UnaryMinus", "UnresolvedAttribute"}
)


def rows_of(node: QueryPart, elements: float) -> float:
    """Returns how many rows an expression makes of one."""
    made = 1.0
    for each in parts_of(node):
        name = (
            ".".join(each.names).lower() if each.kind in ("UnresolvedFunction", "UnresolvedGenerator") else ""
        )
        if name in _ROWS:
            made = max(made, elements)
        elif name == "stack":
            made = max(made, number_at(each.children, 0) or LARGEST)
        elif name == "window" and len(each.children) > 2:
            made = max(made, MOST_WINDOWS)
    return made


def rows_of_table(node: QueryPart, elements: Sequence[float]) -> float:
    """Returns how many rows a table function makes; ``elements`` are those of its arguments."""
    name, given = ".".join(node.names).lower(), list(node.expressions)
    if name in ("range", "stack"):
        return elements_of_sequence([Argument(Size(), value_of(each)) for each in given[:2]])
    return max(1, sum(elements))


def groupings(node: QueryPart) -> float:
    """Returns how many groupings a GROUP BY stands for: those of CUBE are all subsets."""
    product = 1.0
    for each in node.expressions if node.kind == "Aggregate" else ():
        if each.kind == "Cube":
            product *= 2.0 ** min(each.value, 1_000)
        elif each.kind in ("GroupingSets", "Rollup"):
            product *= each.value + 1
    return product


def pivoted(expressions: Sequence[QueryPart]) -> float:
    """Returns how many columns a PIVOT may make: one for each value and aggregate. Values may be written so
    that they look like aggregates, but not the other way round."""
    count = len(expressions)
    values = sum(all(part.kind in _PLAIN_VALUES for part in parts_of(each)) for each in expressions)
    values = max(values, count // 2)
    return max(1, values * (count - values))


def check_hint(values: Sequence[Any]) -> None:
    if any(isinstance(each, (int, float)) and each > _MOST_PARTITIONS for each in values):
        raise refuse(f"asks for more than {_MOST_PARTITIONS} partitions", "use fewer in the hint")


def check_limit(node: QueryPart) -> None:
    # Spark allocates as many places at once where the rows are sorted.
    given = list(node.expressions)
    for at in range(len(given)):
        value = number_at(given, at)
        if value is None or value > _MOST_LIMIT:
            raise refuse(f"has a limit above {_MOST_LIMIT}", f"write a number up to {_MOST_LIMIT}")
