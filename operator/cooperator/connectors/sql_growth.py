"""Bounds how much a SELECT can make of one row by what is written alone. Pure.

Names stand for what they name: ``SELECT b || b AS c FROM (SELECT a || a AS b FROM …)`` doubles a value in
each of its levels, and a WITH that is read twice is planned twice, so a short text stands for a query or
a value without bounds. Three numbers are computed over the parsed plan as if each name were written out:

* ``parts``, the work of planning and of one row: parts of the query, those of a lambda for each element;
* ``size``, of one value of any expression: times that of the row, and bytes that are written (``sql_sizes``);
* ``rows`` that are made of one row by literals, tables of the query and groupings.

What grows with the data (elements of an array, rows of a join) is unknown here. An array counts as
``ELEMENTS``, so that loops over arrays can be nested a few times and not thirty; rows of a join count as one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_costs import (
    RELATION,
    TEXT,
    Cost,
    Relation,
    check_parts,
    checked,
    checked_size,
    most,
    together,
)
from cooperator.connectors.sql_elements import elements_of
from cooperator.connectors.sql_functions import FUNCTIONS, FunctionKind
from cooperator.connectors.sql_parts import QueryPart, parts_of, texts_of, value_of
from cooperator.connectors.sql_results import RESULTS, cast
from cooperator.connectors.sql_rows import check_hint, check_limit, groupings, pivoted, rows_of, rows_of_table
from cooperator.connectors.sql_sizes import NUMBER, PLACE, Argument, Size, largest, total

ELEMENTS: Final = 20

_CONSTANT: Final = frozenset(
    """
    Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Divide EqualNullSafe EqualTo Exists GreaterThan
    GreaterThanOrEqual ILike In InSubquery IntegralDivide IsNotNull IsNull LessThan LessThanOrEqual Like
    LikeAll LikeAny Multiply Not NotLikeAll NotLikeAny Or RLike Remainder ShiftLeft ShiftRight
    ShiftRightUnsigned StringLocate Subtract TimestampAdd TimestampDiff UnaryMinus
    """.split()  # noqa: SIM905
)
"""Operators whose result is a number, a date or a truth value."""
_OPERATORS: Final = {
    "Concat": "concat",
    "Lower": "lower",
    "CreateNamedStruct": "named_struct",
    "SemiStructuredExtract": "variant_get",
}
"""Operators that are functions, too."""
_GATHERING: Final = frozenset({"aggregate", "reduce"})
_KEEPING: Final = frozenset({"filter", "map_filter", "array_sort"})
"""Loops whose result is of their elements."""
_OF_ENTRIES: Final = frozenset({"transform_keys", "transform_values", "map_zip_with"})
_WRITTEN_TWICE: Final = frozenset({"between", "nullif", "nullifzero", "regexp_substr", "right", "zeroifnull"})
"""Functions in whose place Spark puts an expression that has an argument twice."""
_WITH_THE_SAME_NAMES: Final = frozenset(
    """
    CTERelationDef Distinct Filter GlobalLimit Join LimitAll LocalLimit Offset RepartitionByExpression
    Sample Sort SubqueryAlias Tail UnresolvedHaving UnresolvedHint WithWindowDefinition
    """.split()  # noqa: SIM905
)
_UNIONS: Final = frozenset({"Except", "Intersect", "Union"})
_STARS: Final = frozenset({"UnresolvedStar", "UnresolvedStarExcept", "UnresolvedStarExceptOrReplace"})
_GROUPS: Final = frozenset({"Cube", "GroupingSets", "Rollup", "UnresolvedOrdinal"})
_UNNAMED: Final = ""
"""All columns without a name, to which an ordinal may refer."""
_PIVOTED: Final = 20
"""The parts of a column that a PIVOT makes."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a lambda. Each of its fields has a symbol of its own."""

    number: int
    elements: float = 1
    is_accumulator: bool = False


def check_growth(root: QueryPart) -> Relation:
    """Returns what the query makes of one row; raises ``refuse(…)`` if it stands for one without bounds."""
    try:
        return _Growth(root).relation(root)
    except RecursionError:
        raise refuse("is nested too deep", "split it by WITH, or use several Connectors") from None


class _Growth:
    def __init__(self, root: QueryPart) -> None:
        self._defined: dict[tuple[str, ...], Relation] = {}
        self._outer: tuple[Relation, ...] = ()
        """The rows around a subquery, whose columns may be read in it."""
        self._windows: tuple[QueryPart, ...] = ()
        """The definitions of a clause WINDOW. Each reference stands for one of them."""
        self._of_window: tuple[Relation, int, float] | None = None
        """The parts of a definition in a relation with so many columns, which many references ask for."""
        self._variables = 0
        texts = (each.value for each in parts_of(root, plans=True) if isinstance(each.value, str))
        self._longest = max((len(each.encode(errors="replace")) for each in texts), default=0)
        """The bytes of the longest text that is written: a schema has names that ``to_json`` repeats."""

    def relation(self, node: QueryPart) -> Relation:
        """Returns what a part of the plan makes of one row."""
        if node.kind == "WithCTE":
            # The definitions, each after those that it reads, stand before the query.
            for each in node.plans:
                if each.kind == "CTERelationDef":
                    self._defined[each.names] = self._of_plans(each)
            return self.relation(next(each for each in node.plans if each.kind != "CTERelationDef"))
        if node.kind == "CTERelationRef":
            return self._defined.get(node.names, Relation())
        return checked(self._of_plans(node))

    def _of_plans(self, node: QueryPart) -> Relation:
        around = self._windows
        if node.kind == "WithWindowDefinition":
            self._windows += tuple(node.expressions)
        below = [self.relation(each) for each in node.plans]
        self._windows = around
        if node.kind == "UnresolvedHint":
            check_hint(node.value)
        if node.kind in ("GlobalLimit", "LocalLimit", "Offset", "Tail"):
            check_limit(node)
        return self._of_expressions(node, self._merged(node, below))

    def _of_expressions(self, node: QueryPart, before: Relation) -> Relation:
        """Returns what a part of the plan makes of the rows ``before`` it."""
        output: dict[str, Cost] = {}
        known = dict(before.columns)
        row = replace(before, columns=known)
        costs: list[Cost] = []
        rows, made, parts = before.rows, 1.0, 0.0
        is_output = node.kind in ("Project", "Aggregate")
        has_star = False
        of_star: list[Cost] = []
        """The structs whose fields a star stands for."""
        for each in _in_order(node):
            cost = self._cost(each, row, {})
            costs.append(cost)
            parts += cost.parts
            check_parts(parts)
            made = max(made, rows_of(each, cost.elements))
            if each.kind == "UnresolvedStar":
                has_star = True
                of_star += [row.find(each.names)] if each.names else []
                continue
            if each.kind in _STARS:
                cost = most([before.most, *(self._cost(part, row, {}) for part in each.expressions)])
            is_named = each.kind in ("Alias", "UnresolvedAttribute") and is_output and each.names
            name = each.names[-1].lower() if is_named else _UNNAMED
            output[name] = most([cost, output.get(name, cost)])
            # What is read may have a column of that name, too, which Spark prefers.
            known[name] = most([cost, known.get(name, before.other)])
        own = texts_of(node)
        whole = together([Cost(Size(own), own // TEXT, 0), *map(_as_field, _in_order(node), costs)])
        parts = before.parts + (RELATION + own // TEXT + parts) * groupings(node)
        rows *= made * groupings(node)
        if node.kind == "Pivot":
            columns = pivoted(list(node.expressions))
            parts += columns * _PIVOTED
            whole = together([whole, _as_field(node, most(costs)) * columns])
        if node.kind == "Unpivot":
            parts += len(costs) * before.whole.parts
        if node.kind == "UnresolvedTableValuedFunction":
            rows *= rows_of_table(node, [cost.elements for cost in costs])
        if node.kind in ("UnresolvedInlineTable", "Unpivot"):
            rows *= max(1, len(costs))
        if is_output and has_star:
            for name, cost in (*before.columns.items(), (_UNNAMED, before.other)):
                output[name] = most([cost, *of_star, output.get(name, cost)])
            return Relation(output, output[_UNNAMED], whole, rows, parts)
        if is_output:
            return Relation(output, most(output.values()), whole, rows, parts)
        if node.kind in _WITH_THE_SAME_NAMES:
            return replace(before, rows=rows, parts=parts)
        # It may give any name to anything.
        return Relation({}, most([before.most, *costs]), together([before.whole, whole]), rows, parts)

    def _merged(self, node: QueryPart, below: Sequence[Relation]) -> Relation:
        if len(below) < 2:
            return replace(below[0]) if below else Relation(parts=0)
        parts = sum(each.parts for each in below)
        if node.kind in _UNIONS:
            rows, whole = sum(each.rows for each in below), most(each.whole for each in below)
            return Relation({}, most(each.most for each in below), whole, rows, parts)
        names = {name for each in below for name in each.columns}
        columns = {name: most(each.columns.get(name, each.other) for each in below) for name in names}
        other = most(each.other for each in below)
        whole = together(each.whole for each in below)
        return Relation(columns, other, whole, math.prod(each.rows for each in below), parts)

    def _cost(self, node: QueryPart, row: Relation, variables: Mapping[str, _Variable]) -> Cost:
        """Returns the cost of an expression; ``variables`` are those of the lambdas around it."""
        if node.is_plan:
            around, self._outer = self._outer, (*self._outer, row)
            inner = self.relation(node)
            self._outer = around
            return Cost(inner.most.size, inner.parts, inner.most.elements)
        if node.kind == "UnresolvedNamedLambdaVariable" and node.names[0].lower() in variables:
            found = variables[node.names[0].lower()]
            symbol = (found.number, node.names[1].lower() if len(node.names) > 1 else "")
            return Cost(Size(0, {symbol: 1}), 1, found.elements)
        if node.kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            return most(each.find(node.names) for each in (row, *self._outer))
        if node.kind == "UnresolvedOrdinal":
            return row.most
        own = 1 + texts_of(node) // TEXT
        if node.kind in _STARS:
            every = most(each.whole for each in (row, *self._outer))
            return together([every, *(self._cost(each, row, variables) for each in node.expressions)])
        if node.kind == "Literal":
            return Cost(Size(texts_of(node) if isinstance(node.value, str) else NUMBER), own)
        name = _name(node)
        lambdas = [each for each in node.children if each.kind == "LambdaFunction"]
        given = [each for each in node.children if each.kind != "LambdaFunction"]
        costs = [self._cost(each, row, variables) for each in given]
        parts = own + sum(cost.parts for cost in costs)
        if node.kind == "UnresolvedWindowExpression":
            parts += self._parts_of_window(row)
        if lambdas:
            return checked_size(self._of_lambdas(name, lambdas, costs, parts, row, variables))
        if name in _WRITTEN_TWICE:
            parts *= 2
        arguments = [_argument(each, cost, variables) for each, cost in zip(given, costs, strict=True)]
        if name == "to_json" and len(arguments) > 1:
            arguments.append(Argument(Size(self._longest)))
        size = _size(node, name, arguments)
        elements = elements_of(name, arguments, size)
        if name in FUNCTIONS and FUNCTIONS[name].kind is FunctionKind.GATHERS:
            # It combines all rows that are made of one.
            return checked_size(Cost(size * row.rows, parts, elements * row.rows))
        return checked_size(Cost(size, parts, elements, _count(node, name, costs, elements)))

    def _parts_of_window(self, row: Relation) -> float:
        if self._of_window is None or self._of_window[0] is not row or self._of_window[1] != len(row.columns):
            parts = max((self._cost(each, row, {}).parts for each in self._windows), default=0)
            self._of_window = (row, len(row.columns), parts)
        return self._of_window[2]

    def _of_lambdas(
        self,
        name: str,
        lambdas: Sequence[QueryPart],
        costs: Sequence[Cost],
        parts: float,
        row: Relation,
        variables: Mapping[str, _Variable],
    ) -> Cost:
        gathers = name in _GATHERING
        looped = costs[:1] if gathers else costs
        over, count = total(cost.size for cost in looped), total(cost.counted for cost in looped)
        # map_zip_with has the keys of both maps.
        several = [cost.elements for cost in looped]
        elements = sum(several) if name == "map_zip_with" else max(several, default=1)
        times = max(ELEMENTS, elements)
        size = total(cost.size for cost in costs[1:]) if gathers else Size()
        accumulator = max((cost.elements for cost in costs[1:]), default=1)
        for number, each in enumerate(lambdas):
            body, *arguments = each.children
            own: dict[str, _Variable] = {}
            for place, argument in enumerate(arguments):
                self._variables += 1
                accumulates = gathers and (place == 0 or number > 0)
                own[argument.names[0].lower()] = _Variable(
                    self._variables, accumulator if accumulates else elements, accumulates
                )
            found = self._cost(body, row, {**variables, **own})
            parts += times * found.parts
            numbers = {variable.number: variable for variable in own.values()}
            accumulated = _times_of(found.size, {n for n, each in numbers.items() if each.is_accumulator})
            of_element = _times_of(found.size, {n for n, each in numbers.items() if not each.is_accumulator})
            others = {s: value for s, value in found.size.times.items() if s[0] not in numbers}
            if gathers and number > 0:
                size, elements = size * accumulated + Size(found.size.bytes, others), found.elements
                continue
            if accumulated > 1:
                problem = f"lets {name} multiply its accumulator ({next(iter(own))}) in each step"
                raise refuse(problem, "use the accumulator, or each of its fields, once")
            if not gathers:
                of_element = of_element + 1 if name in _OF_ENTRIES else max(1, of_element)
            # What is written is made for each element.
            made = over * of_element + count * found.size.bytes
            size = size + made + Size(0, {symbol: value * times for symbol, value in others.items()})
            elements = accumulator = max(elements, 1) * max(found.elements, 1)
        if name in _KEEPING:
            return Cost(over, parts, elements, count)
        return Cost(Size(NUMBER) if name in ("exists", "forall") else size, parts, elements)


def _in_order(node: QueryPart) -> Sequence[QueryPart]:
    """Returns the expressions of a plan. GROUP BY names what is made, or has its number: it comes last."""
    if node.kind != "Aggregate":
        return list(node.expressions)
    return sorted(node.expressions, key=lambda each: (each.kind != "Alias", each.kind in _GROUPS))


def _as_field(node: QueryPart, cost: Cost) -> Cost:
    """Returns the cost of a column as a field of a row. Its name may be the text of its expression."""
    if node.kind in _STARS:
        return cost
    name = texts_of(node) if node.kind in ("Alias", "UnresolvedAttribute") else TEXT * cost.parts
    return replace(cost, size=cost.size + name + PLACE)


def _name(node: QueryPart) -> str:
    if node.kind in ("UnresolvedFunction", "UnresolvedGenerator"):
        return ".".join(node.names).lower()
    return _OPERATORS.get(node.kind, "")


def _argument(node: QueryPart, cost: Cost, variables: Mapping[str, _Variable]) -> Argument:
    own = variables.get(node.names[0].lower()) if node.kind.endswith("Variable") else None
    named = node.names[-1] if node.names and (node.kind == "Alias" or "Attribute" in node.kind) else ""
    value = value_of(node)
    if own is not None and not named:
        named = node.names[-1]
    return Argument(cost.size, value, named, cost.elements, own is not None and own.is_accumulator)


def _size(node: QueryPart, name: str, given: Sequence[Argument]) -> Size:
    """Returns the size of a call's or an operator's result."""
    if node.kind in _CONSTANT:
        return Size(NUMBER)
    if node.kind in ("CaseWhen", "Coalesce"):
        return largest(each.size for each in given)
    if node.kind == "Cast":
        return cast(node.names[0] if node.names else "", total(each.size for each in given))
    if name in RESULTS:
        return RESULTS[name](given)
    return total(each.size for each in given)


def _count(node: QueryPart, name: str, given: Sequence[Cost], elements: float) -> Size | None:
    """Returns how many elements a value has at all levels, where its bytes tell too much."""
    if name == "sequence":
        return Size(elements)
    if name == "from_json" and given:
        # The shortest element is a digit with a comma; the fields of a struct need not be in the text.
        return given[0].size * 0.5 + 1
    return given[0].count if given and node.kind in ("Alias", "UnresolvedExtractValue") else None


def _times_of(size: Size, variables: set[int]) -> float:
    """Returns how many times a value has these variables at most; its fields are within it."""
    found = [(symbol[1], value) for symbol, value in size.times.items() if symbol[0] in variables]
    return sum(value for name, value in found if not name) + max(
        (value for name, value in found if name), default=0
    )
