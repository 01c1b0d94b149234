"""Bounds how much a SELECT can make of one row by what is written alone. Pure.

Names stand for what they name: ``SELECT b || b AS c FROM (SELECT a || a AS b FROM …)`` doubles a value in
each of its levels, and a WITH that is read twice is planned twice, so a short text stands for a query or
a value without bounds. Three numbers are computed over the parsed plan as if each name were written out:

* ``parts``, the work of planning and of one row: parts of the query, those of a lambda for each element;
* ``size``, of one value, in sizes of the row, or of a text of 2 characters;
* ``rows`` that are made of one row by literals, tables of the query and groupings.

What grows with the data (elements of an array, rows of a join) is unknown here. An array counts as
``ELEMENTS``, so that loops over arrays can be nested a few times and not thirty; rows of a join count as one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import LARGEST, MOST_WINDOWS

MOST_PARTS: Final = 100_000
MOST_ROWS: Final = 1_000_000
ELEMENTS: Final = 20
COLUMNS: Final = 20
"""The number of columns that ``input`` counts as; ``*`` stands for all of them."""
_RELATION: Final = 25
"""A node of the plan costs Spark as much as some parts of an expression."""
_MOST_PARTITIONS: Final = 1_000
_MOST_LIMIT: Final = 1_000_000
_MOST_FIELDS: Final = 50

_CONSTANT: Final = frozenset(
    """
    Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Divide EqualNullSafe EqualTo Exists GreaterThan
    GreaterThanOrEqual ILike In InSubquery IntegralDivide IsNotNull IsNull LessThan LessThanOrEqual Like
    LikeAll LikeAny Multiply Not NotLikeAll NotLikeAny Or RLike Remainder ShiftLeft ShiftRight
    ShiftRightUnsigned StringLocate Subtract TimestampAdd TimestampDiff UnaryMinus
    """.split()  # noqa: SIM905
)
"""Operators whose result is a number, a date or a truth value."""
_CONSTANT_CALLS: Final = frozenset(
    """
    % & * + - / < <= <=> = == > >= ^ | ~ != abs and between bool_and bool_or cardinality char_length
    character_length contains count count_if crc32 date_add date_diff date_sub datediff day div endswith
    exists forall hash hour isnotnull isnull length levenshtein like ilike lpad md5 minute month not
    octet_length or position regexp_count regexp_instr regexp_like rlike round rpad sha sha1 sha2 sign size
    space startswith sum try_add try_divide try_multiply try_subtract unix_timestamp xxhash64 year
    """.split()  # noqa: SIM905
)
_CHOICES: Final = frozenset(
    """
    any_value case coalesce first first_value greatest if ifnull last last_value least max max_by min min_by
    nullif nvl nvl2 when
    """.split()  # noqa: SIM905
)
"""Functions whose result is one of their arguments."""
_TIMES: Final[Mapping[str, float]] = {
    **dict.fromkeys(("hex", "decode", "to_json", "to_csv", "quote", "base64", "split"), 2),
    **dict.fromkeys(("url_encode", "encode"), 4),
}
"""Functions that write a value longer; nested, they multiply."""
_SEPARATED: Final = {"array_join": 1, "concat_ws": 0}
"""Functions that write a text between elements, and its argument; ``split`` makes the elements."""
_OF_FIRST: Final = frozenset(
    """
    from_csv from_json get_json_object regexp_extract regexp_extract_all regexp_substr split_part
    substring_index to_date to_number to_timestamp try_variant_get variant_get
    """.split()  # noqa: SIM905
)
"""Functions whose result is a part of their first argument, or another form of it; others only say which."""
_STARS: Final = frozenset({"UnresolvedStar", "UnresolvedStarExcept", "UnresolvedStarExceptOrReplace"})
_GATHERING: Final = frozenset({"aggregate", "reduce"})
_WRITTEN_TWICE: Final = frozenset({"between", "nullif", "nullifzero", "regexp_substr", "right", "zeroifnull"})
"""Functions in whose place Spark puts an expression that has an argument twice."""
_ROWS: Final = frozenset(
    {"explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer"}
)
_WITH_THE_SAME_NAMES: Final = frozenset(
    """
    CTERelationDef Distinct Filter GlobalLimit Join LimitAll LocalLimit Offset RepartitionByExpression
    Sample Sort SubqueryAlias Tail UnresolvedHaving UnresolvedHint WithWindowDefinition
    """.split()  # noqa: SIM905
)
_PIVOTED: Final = 20
"""The parts of a column that a PIVOT makes."""
_PLAIN_VALUES: Final = frozenset(
    {"Alias", "Cast", "CreateNamedStruct", "Literal", "NamePlaceholder$", "UnaryMinus", "UnresolvedAttribute"}
)
_UNIONS: Final = frozenset({"Except", "Intersect", "Union"})


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


@dataclass(frozen=True, slots=True)
class Cost:
    size: float = 1
    parts: float = 1

    def __mul__(self, times: float) -> "Cost":
        return Cost(self.size * times, self.parts)


@dataclass(frozen=True, slots=True)
class _Relation:
    """``columns`` has the costs of named columns, and ``other`` is the cost of all others; ``total`` is that
    of a whole row, in which several columns may have one name."""

    columns: Mapping[str, Cost] = field(default_factory=dict)
    other: Cost = Cost()
    total: Cost = Cost(1, COLUMNS)
    rows: float = 1
    parts: float = _RELATION

    @property
    def most(self) -> Cost:
        return _most([self.other, *self.columns.values()])

    def find(self, names: Sequence[str]) -> Cost:
        lower = [name.lower() for name in names]
        if not all(name.isascii() for name in lower):
            return self.most  # Java ignores case by other rules.
        return _most([self.columns[name] for name in lower if name in self.columns] or [self.other])


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


def check_growth(root: QueryPart) -> None:
    """Raises ``refuse(…)`` for a query that stands for one without bounds."""
    try:
        _Growth().relation(root)
    except RecursionError:
        raise refuse("is nested too deep", "split it by WITH, or use several Connectors") from None


class _Growth:
    def __init__(self) -> None:
        self._defined: dict[tuple[str, ...], _Relation] = {}
        self._of_leaf = 1.0
        """The size of what is not read from anything: literals."""

    def relation(self, node: QueryPart) -> _Relation:
        """Returns what a part of the plan makes of one row."""
        if node.kind == "WithCTE":
            # The definitions, each after those that it reads, stand before the query.
            for each in node.plans:
                if each.kind == "CTERelationDef":
                    self._defined[each.names] = self._of_plans(each)
            return self.relation(next(each for each in node.plans if each.kind != "CTERelationDef"))
        if node.kind == "CTERelationRef":
            return self._defined.get(node.names, _Relation())
        return _checked(self._of_plans(node))

    def _of_plans(self, node: QueryPart) -> _Relation:
        below = [self.relation(each) for each in node.plans]
        before = self._merged(node, below)
        if node.kind == "UnresolvedHint":
            _check_hint(node.value)
        if node.kind in ("GlobalLimit", "LocalLimit", "Offset", "Tail"):
            _check_limit(node)
        aliased: dict[str, Cost] = {}
        known = dict(before.columns)
        row = replace(before, columns=known)
        costs: list[Cost] = []
        unnamed: list[Cost] = []
        rows = before.rows
        is_output = node.kind in ("Project", "Aggregate")
        made = 1.0
        star = False
        for each in node.expressions:
            cost = self._cost(each, row, {})
            costs.append(cost)
            made = max(made, _made_rows(each, cost))
            if each.kind not in _STARS:  # They are many values, and not one.
                _check_size(cost)
            if each.kind == "UnresolvedStar":
                star = True
            elif each.kind in _STARS:
                unnamed += [before.most, *(self._cost(part, row, {}) for part in each.expressions)]
            elif each.kind in ("Alias", "UnresolvedAttribute") and is_output and each.names:
                name = each.names[-1].lower()
                aliased[name] = _most([cost, *([aliased[name]] if name in aliased else [])])
                known[name] = _most([cost, *([known[name]] if name in known else [])])
            else:
                unnamed.append(cost)
        total = _sum(costs)
        parts = before.parts + (_RELATION + sum(cost.parts for cost in costs)) * _groupings(node)
        if node.kind == "Pivot":
            parts += _pivoted(list(node.expressions)) * _PIVOTED
        if node.kind == "Unpivot":
            parts += len(costs) * before.total.parts
        rows *= made
        if node.kind == "UnresolvedTableValuedFunction":
            rows *= _made_rows_of_table(node, costs)
        if node.kind in ("UnresolvedInlineTable", "Unpivot"):
            rows *= max(1, len(costs))
        if is_output:
            other = _most([*unnamed, *([before.other] if star else aliased.values())])
            columns = known if star else aliased
            return _Relation(columns, other, total, rows, parts)
        if node.kind in _WITH_THE_SAME_NAMES:
            return replace(before, rows=rows, parts=parts)
        # It may give any name to anything.
        total = _sum([before.total, *costs])
        return _Relation({}, _most([before.most, *costs]), total, rows, parts)

    def _merged(self, node: QueryPart, below: Sequence[_Relation]) -> _Relation:
        if len(below) < 2:
            return replace(below[0]) if below else _Relation(parts=0)
        parts = sum(each.parts for each in below)
        if node.kind in _UNIONS:
            rows, total = sum(each.rows for each in below), _most(each.total for each in below)
            return _Relation({}, _most(each.most for each in below), total, rows, parts)
        names = {name for each in below for name in each.columns}
        columns = {name: _most(each.columns.get(name, each.other) for each in below) for name in names}
        other = _most(each.other for each in below)
        total = _sum(each.total for each in below)
        return _Relation(columns, other, total, math.prod(each.rows for each in below), parts)

    def _cost(
        self, node: QueryPart, row: _Relation, variables: Mapping[str, Mapping[str, Cost] | Cost]
    ) -> Cost:
        """Returns the cost of an expression; ``variables`` are those of the lambdas around it."""
        if node.is_plan:
            # An outer column may be read in it.
            inner = self.relation(node)
            return Cost(inner.most.size * row.most.size, inner.parts + row.most.parts)
        if node.kind == "UnresolvedNamedLambdaVariable" and node.names[0].lower() in variables:
            found = variables[node.names[0].lower()]
            if isinstance(found, Cost):
                return found
            return found[node.names[1].lower() if len(node.names) > 1 else "*"]
        if node.kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            return row.find(node.names)
        if node.kind in _STARS:
            return _sum([row.total, *(self._cost(each, row, variables) for each in node.expressions)])
        if node.kind == "Literal" and isinstance(node.value, str):
            return Cost(self._of_leaf * max(1, len(node.value) / 2))
        name = ".".join(node.names).lower() if node.kind == "UnresolvedFunction" else ""
        lambdas = [each for each in node.children if each.kind == "LambdaFunction"]
        given = [each for each in node.children if each.kind != "LambdaFunction"]
        costs = [self._cost(each, row, variables) for each in given]
        parts = 1 + sum(cost.parts for cost in costs)
        sizes = [cost.size for cost in costs]
        if lambdas:
            return self._of_lambdas(name, lambdas, Cost(sum(sizes), parts), row, variables)
        if name in _WRITTEN_TWICE:
            parts *= 2
        if not given:
            return Cost(self._of_leaf)
        size = _size(node, name, given, sizes)
        return Cost(size * self._of_leaf if name == "sequence" else size, parts)

    def _of_lambdas(
        self,
        name: str,
        lambdas: Sequence[QueryPart],
        given: Cost,
        row: _Relation,
        variables: Mapping[str, Any],
    ) -> Cost:
        times = max(ELEMENTS, given.size)
        outer = {key: _scaled(value) for key, value in variables.items()}
        columns = {key: cost * ELEMENTS for key, cost in row.columns.items()}
        inside = replace(row, columns=columns, other=row.other * ELEMENTS, total=row.total * ELEMENTS)
        size, parts = given.size, given.parts
        for number, each in enumerate(lambdas):
            body, *arguments = each.children
            names = [argument.names[0].lower() for argument in arguments if argument.names]
            # Once for each; those within are reached below.
            if name in _GATHERING and number == 0 and names and self._of_leaf:
                self._check_accumulator(body, names[0])
            own: dict[str, Any] = dict.fromkeys(names, Cost(max(self._of_leaf, min(1, given.size))))
            found = self._cost(body, inside, {**outer, **own})
            parts += times * found.parts
            size = max(size, max(1, given.size) * found.size)
        if name == "filter":
            size = given.size
        return Cost(1 if name in _CONSTANT_CALLS else size, parts)

    def _check_accumulator(self, body: QueryPart, name: str) -> None:
        """Refuses an accumulator that a step makes larger than itself and its element: it doubles."""
        fields = {
            ".".join(each.names[1:2]).lower()
            for each in _all(body)
            if each.kind == "UnresolvedNamedLambdaVariable" and each.names[0].lower() == name
        }
        if len(fields) > _MOST_FIELDS:
            problem = f"has an accumulator of more than {_MOST_FIELDS} fields ({name})"
            raise refuse(problem, "use several aggregates")
        nothing = _Relation(other=Cost(0, 0))
        self._of_leaf = 0
        for counted in fields:
            own = {each: Cost(float(each == counted), 0) for each in fields}
            found = self._cost(body, nothing, {name: {**own, "*": Cost(1, 0)}})
            if found.size > 1:
                problem = f"lets aggregate multiply its accumulator ({name}) in each step"
                raise refuse(problem, "use the accumulator, or each of its fields, once")
        self._of_leaf = 1


def _size(node: QueryPart, name: str, given: Sequence[QueryPart], sizes: Sequence[float]) -> float:
    """Returns the size of a call's or an operator's result."""
    total = sum(sizes)
    if node.kind in _CONSTANT or name in _CONSTANT_CALLS:
        return 1 if total else 0
    if node.kind in ("CaseWhen", "Coalesce") or name in _CHOICES:
        return max(sizes, default=0)
    if name in ("repeat", "array_repeat"):
        copies = _number(given, 1)
        return sizes[0] * (LARGEST if copies is None else max(1, copies)) if sizes else 0
    if name in ("sequence", "range"):
        numbers = [each for each in (_number(given, at) for at in (0, 1)) if each is not None]
        return abs(numbers[-1] - (numbers[0] if len(numbers) > 1 else 0)) + 1 if numbers else LARGEST
    if name in ("replace", "regexp_replace"):
        return _replaced(name, given, sizes)
    if name in _OF_FIRST:
        return sizes[0]
    if name in _SEPARATED:
        text = given[_SEPARATED[name]].value if len(given) > 1 else None
        # A variable that is an argument of its own is no array of what is split below.
        alone = sum(size for each, size in zip(given, sizes, strict=True) if each.kind.endswith("Variable"))
        return alone + (total - alone) * (max(1, len(text)) if isinstance(text, str) else ELEMENTS)
    if name in ("format_string", "printf"):
        text = given[0].value if given else ""
        return total * (1 + text.count("$") + text.count("<") if isinstance(text, str) else LARGEST)
    return total * _TIMES.get(name, 1)


def _replaced(name: str, given: Sequence[QueryPart], sizes: Sequence[float]) -> float:
    if len(given) < 3:
        return sum(sizes)  # What is found is removed.
    old, new = given[1].value, given[2].value
    if not isinstance(new, str):
        return sizes[0] * (1 + ELEMENTS * sizes[2])
    if name == "replace":
        return sizes[0] * max(1, len(new) / max(1, len(old)) if isinstance(old, str) else len(new))
    # A pattern may match nothing between any two characters, and a group may be repeated.
    is_plain = (isinstance(old, str) and not set(old) & set("*?{|^$()\\")) or len(new) == 0
    return sizes[0] * max(1, len(new) if is_plain else 1 + len(new))


def _number(given: Sequence[QueryPart], at: int) -> float | None:
    if len(given) <= at:
        return None
    node, sign = given[at], 1
    while node.kind == "UnaryMinus" and node.children:
        node, sign = node.children[0], -sign
    return sign * node.value if isinstance(node.value, (int, float)) else None


def _made_rows(node: QueryPart, cost: Cost) -> float:
    """Returns how many rows an expression makes of one."""
    made = 1.0
    for each in _all(node):
        name = (
            ".".join(each.names).lower() if each.kind in ("UnresolvedFunction", "UnresolvedGenerator") else ""
        )
        if name in _ROWS:
            made = max(made, cost.size)
        elif name == "stack":
            made = max(made, _number(each.children, 0) or LARGEST)
        elif name == "window" and len(each.children) > 2:
            made = max(made, MOST_WINDOWS)
    return made


def _made_rows_of_table(node: QueryPart, costs: Sequence[Cost]) -> float:
    name, given = ".".join(node.names).lower(), list(node.expressions)
    if name in ("range", "stack"):
        return max(1, _size(QueryPart("UnresolvedFunction"), "range", given[:2], [1.0] * len(given)))
    return max(1, sum(cost.size for cost in costs))


def _groupings(node: QueryPart) -> float:
    """Returns how many groupings a GROUP BY stands for: those of CUBE are all subsets."""
    product = 1.0
    for each in node.expressions if node.kind == "Aggregate" else ():
        if each.kind == "Cube":
            product *= 2.0 ** min(each.value, 1_000)
        elif each.kind in ("GroupingSets", "Rollup"):
            product *= each.value + 1
    return product


def _pivoted(expressions: Sequence[QueryPart]) -> float:
    """Returns how many columns a PIVOT may make: one for each value and aggregate. Values may be written so
    that they look like aggregates, but not the other way round."""
    count = len(expressions)
    values = sum(all(part.kind in _PLAIN_VALUES for part in _all(each)) for each in expressions)
    values = max(values, count // 2)
    return max(1, values * (count - values))


def _scaled(value: Cost | Mapping[str, Cost]) -> Cost | Mapping[str, Cost]:
    if isinstance(value, Cost):
        return value * ELEMENTS
    return {key: cost * ELEMENTS for key, cost in value.items()}


def _most(costs: Iterable[Cost]) -> Cost:
    found = list(costs)
    if not found:
        return Cost()
    return Cost(max(cost.size for cost in found), max(cost.parts for cost in found))


def _sum(costs: Iterable[Cost]) -> Cost:
    found = list(costs)
    return Cost(sum(cost.size for cost in found), sum(cost.parts for cost in found))


def _all(node: QueryPart) -> Iterable[QueryPart]:
    left = [node]
    while left:
        each = left.pop()
        yield each
        left.extend(child for child in each.children if not child.is_plan)


def _check_size(cost: Cost) -> None:
    if cost.size > LARGEST:
        raise refuse(
            f"may make a value more than {LARGEST} times as large",
            "use a column fewer times in what is made of it, and repeat it less",
        )


def _checked(found: _Relation) -> _Relation:
    if found.parts > MOST_PARTS:
        raise refuse(
            f"stands for a query of more than {MOST_PARTS} parts",
            "read names of a WITH, and columns that are made of others, fewer times; nest fewer loops",
        )
    if found.rows > MOST_ROWS:
        raise refuse(f"makes more than {MOST_ROWS} rows of one", "join fewer generated rows")
    return found


def _check_hint(values: Sequence[Any]) -> None:
    if any(isinstance(each, (int, float)) and each > _MOST_PARTITIONS for each in values):
        raise refuse(f"asks for more than {_MOST_PARTITIONS} partitions", "use fewer in the hint")


def _check_limit(node: QueryPart) -> None:
    # Spark allocates as many places at once where the rows are sorted.
    given = list(node.expressions)
    for at in range(len(given)):
        value = _number(given, at)
        if value is None or value > _MOST_LIMIT:
            raise refuse(f"has a limit above {_MOST_LIMIT}", f"write a number up to {_MOST_LIMIT}")
