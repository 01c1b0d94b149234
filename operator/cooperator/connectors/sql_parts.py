"""A parsed plan as a tree of parts. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A part of a parsed plan. ``kind`` is its class without the package."""

    kind: str
    is_plan: bool = False
    names: tuple[str, ...] = ()
    value: Any = None
    children: tuple["QueryPart", ...] = ()

    @property
    def plans(self) -> Iterable["QueryPart"]:
        return (each for each in self.children if each.is_plan)

    @property
    def expressions(self) -> Iterable["QueryPart"]:
        return (each for each in self.children if not each.is_plan)


def tree_of(found: Sequence[Mapping[str, Any]]) -> QueryPart:
    """Returns the tree that ``ParsedSelect`` lists: a parent is before its parts, the last part first."""
    children: list[list[QueryPart]] = [[] for _ in found]
    for number in range(len(found) - 1, -1, -1):
        each = found[number]
        kind = each["kind"].rpartition(".")[2]
        node = QueryPart(kind, each["isPlan"], tuple(each["names"]), each["value"], tuple(children[number]))
        if each["parent"] >= 0:
            children[each["parent"]].append(node)
    return node


def texts_of(node: QueryPart) -> int:
    """Returns how many bytes of names and texts a part itself has."""
    written = (*node.names, *((node.value,) if isinstance(node.value, str) else ()))
    return sum(len(each.encode(errors="replace")) for each in written)


def parts_of(node: QueryPart, *, plans: bool = False) -> Iterable[QueryPart]:
    left = [node]
    while left:
        each = left.pop()
        yield each
        left.extend(child for child in each.children if plans or not child.is_plan)


def value_of(node: QueryPart) -> Any:
    sign = 1
    while node.kind == "UnaryMinus" and node.children:
        node, sign = node.children[0], -sign
    return sign * node.value if isinstance(node.value, (int, float)) else node.value


def number_at(given: Sequence[QueryPart], at: int) -> float | None:
    value = value_of(given[at]) if len(given) > at else None
    return value if isinstance(value, (int, float)) else None
