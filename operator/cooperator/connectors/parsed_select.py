"""Decides over the plan that Spark's own parser returns for a SELECT, before it is resolved or run. Pure.

``dev.cooperator.spark.ParsedSelect`` lists what is in the plan. A kind of node that is not listed here is
refused: a syntax that a later Spark adds is looked at before it can be used.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_calls import FunctionCall, check_calls
from cooperator.connectors.sql_costs import MOST_PARTS
from cooperator.connectors.sql_functions import FUNCTIONS, FunctionKind
from cooperator.connectors.sql_growth import check_growth
from cooperator.connectors.sql_parts import tree_of

_SELECT: Final = "write one SELECT from the view input, such as SELECT * FROM input"
_NODES: Final = frozenset(
    [
        *(
            f"plans.logical.{name}"
            for name in """
            Aggregate CTERelationDef CTERelationRef Deduplicate Distinct Except Filter Generate
            GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit Offset
            OneRowRelation Pivot Project RepartitionByExpression Sample Sort SubqueryAlias Tail Union
            Unpivot UnresolvedHint UnresolvedWith Window WithCTE WithWindowDefinition
            """.split()  # noqa: SIM905
        ),
        *(
            f"analysis.{name}"
            for name in """
            MultiAlias NamedStar UnresolvedAlias UnresolvedAttribute
            UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedHaving
            UnresolvedInlineTable UnresolvedOrdinal UnresolvedPipeAggregateOrdinal UnresolvedRelation
            UnresolvedStar UnresolvedStarExcept UnresolvedStarExceptOrReplace
            UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
            """.split()  # noqa: SIM905
        ),
        *(
            f"expressions.{name}"
            for name in """
            Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
            Coalesce Collate Concat CreateNamedStruct Cube CurrentDate CurrentRow$ CurrentTime
            CurrentTimestamp CurrentUser Divide EqualNullSafe EqualTo Exists
            FunctionTableSubqueryArgumentExpression GreaterThan GreaterThanOrEqual GroupingSets ILike
            In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction LateralSubquery LessThan
            LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower Multiply NamePlaceholder$
            NamedArgumentExpression Not NotLikeAll NotLikeAny Or OuterReference Overlay PipeExpression
            PipeOperator RLike Remainder Rollup ScalarSubquery SemiStructuredExtract ShiftLeft
            ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim
            StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus
            UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedCollation
            UnresolvedNamedLambdaVariable UnresolvedWindowExpression UnspecifiedFrame$
            WindowExpression WindowSpecDefinition WindowSpecReference aggregate.AggregateExpression
            aggregate.AnyValue aggregate.First aggregate.Last
            """.split()  # noqa: SIM905
        ),
    ]
)
_SAID: Final = {
    # Its values were evaluated before anything was checked.
    "plans.logical.LocalRelation": ("has VALUES that were read with other settings", _SELECT),
    "plans.logical.ScriptTransformation": ("starts a program", "remove TRANSFORM … USING"),
    "WITH RECURSIVE": ("contains WITH RECURSIVE", "remove it: nothing bounds its rounds"),
    "too many parts": (f"has more than {MOST_PARTS} parts", "nest fewer CASE, or use several Connectors"),
    "options of a relation": ("sets options of a relation", "remove WITH (…) after the name"),
}


def check_parsed(plan: Mapping[str, Any], *, is_elsewhere: bool = False) -> None:
    """Raises ``refuse(…)`` unless ``check_reads`` passes, and what the plan makes of a row is bounded."""
    check_reads(plan, is_elsewhere=is_elsewhere)
    check_growth(tree_of(plan["tree"]))


def check_reads(plan: Mapping[str, Any], *, is_elsewhere: bool = False) -> None:
    """Raises ``refuse(…)`` unless the plan reads ``input`` alone, by listed syntax and allowed functions.

    ``plan`` has ``nodes``, the classes of its nodes; ``relations``, the names that are looked up once the
    query's own WITH are put in place; ``calls``; and ``tree``, of all nodes. ``is_elsewhere``: a server's
    JVM runs it.
    """
    for node in plan["nodes"]:
        if node not in _NODES:
            name = node.rpartition(".")[2].rstrip("$")
            raise refuse(*_SAID.get(node, (f"has a part that no transform may have ({name})", _SELECT)))
    calls = [_call(each) for each in plan["calls"]]
    check_calls(calls)
    for call in calls if is_elsewhere else ():
        if FUNCTIONS[call.name.lower()].kind is FunctionKind.XML:
            problem = f"calls {call.name.lower()}, which opens what a document names on a server"
            raise refuse(problem, "use a Worker whose spark.master is local, spark:// or k8s://")
    relations: Sequence[Sequence[str]] = plan["relations"]
    for parts in relations:
        if len(parts) != 1 or not parts[0].isascii() or parts[0].lower() != "input":
            raise refuse(f"reads {'.'.join(parts)}", "read the view input, and names of your own WITH, only")
    if not relations:
        raise refuse("does not read the view input", _SELECT)


def _call(found: Mapping[str, Any]) -> FunctionCall:
    arguments = (tuple(each) if isinstance(each, list) else each for each in found["arguments"])
    return FunctionCall(found["name"], tuple(arguments), found["is_named"])
