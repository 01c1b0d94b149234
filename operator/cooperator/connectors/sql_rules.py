"""Validates the SQL of a Connector where no JVM is: size limits, then an early answer. Pure.

The text is read in the operator and in members, so its cost is bounded first: length, nesting counted over
tokens, and steps of the parser, whose attempts can double with each level. Then only calls of known functions
are allowed, and only the view ``input`` and names of its own WITH can be read: SQL of Spark can otherwise
open files, run Java methods and start programs.

**This is not the check that protects a member**, since sqlglot and Spark are two parsers, and what one takes
for a column can be a table for the other. It answers early, where a manifest is applied. The decision is made
in the member, over the plan that Spark's own parser returns (``parsed_select``).
"""

import re
import threading
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Final

from pydantic_core import PydanticCustomError

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import Argument
from cooperator.connectors.sql_calls import FunctionCall, check_calls, forbidden
from cooperator.connectors.sql_functions import ALLOWED, BOUNDED, REFUSED

MAX_LENGTH: Final = 20_000
MAX_DEPTH: Final = 32
MAX_SCHEMA: Final = 100_000
MAX_CUBE: Final = 8
MAX_STEPS: Final = 10_000
"""Upper limit of a parser's steps in addition to one for each token; ordinary queries take less than two."""
_SELECT: Final = "write one SELECT from the view input, such as SELECT * FROM input"
_OTHERWISE_READ: Final = ("\\\n", "\\\r", "{{", "{%", "{#", "${")
"""Texts that sqlglot and Spark read differently (comments), or that Spark substitutes."""
_SKIPPED: Final = re.compile(
    r"""(?: \s | --[^\n\r]*(?:[\n\r]|\Z) | /\*(?!\+) (?: (?!/\*|\*/). )* \*/ )*+ \Z""", re.DOTALL | re.VERBOSE
)
"""Text that may stand between two tokens. Spark and sqlglot disagree where a comment in another one ends."""
_HINT: Final = re.compile(r"/\*\+[\w\s,.()]*\*/\Z")
_SYNTAX: Final = frozenset(
    """
    all and any as between by case cross cube dec decimal distinct div else except exists filter from full
    group having ilike in inner intersect join lateral like limit not numeric offset on or order outer over
    partition pivot qualify rlike rollup select semi anti sets some sort tablesample then try_cast union
    unpivot using values varchar char when where with within
    """.split()  # noqa: SIM905
)
"""Words that a parenthesis can follow without a call of a function."""
FOLDED: Final = frozenset("\u0130\u0131\u017f\u212a")
"""Letters that Java takes for I, S and K where it ignores case, as in keywords; Python does not."""
_RELATION: Final = "read the view input, and names of your own WITH, only"


_LOADING: Final = threading.Lock()


@cache
def load_grammar() -> None:
    """Loads sqlglot, whose modules load each other when they are needed, in one thread at a time.

    Threads that begin with different ones of them would wait for each other, and Python raises an error then.
    """
    with _LOADING:
        import sqlglot

        sqlglot.parse_one("SELECT id FROM input", dialect="spark")


def check_select(sql: str) -> None:
    """Raises ``refuse(…)`` unless ``sql`` is one bounded SELECT from ``input`` of allowed functions."""
    if len(sql) > MAX_LENGTH:
        raise refuse(f"has {len(sql)} characters", f"use {MAX_LENGTH} at most, or several Connectors")
    for text in _OTHERWISE_READ:
        if text in sql:
            raise refuse(f"contains {text!r}", "remove it: parsers read it differently")
    try:
        tokens = _tokens(sql)
        _check_skipped(tokens, sql)
        _check_tokens(tokens)
        _check_tree(_statements(tokens, sql, of_calls=True))
    except RecursionError:
        raise _too_deep() from None


def parse_bounded(sql: str) -> list[Any]:
    """Returns the statements of any SQL of users as sqlglot's trees, in bounded time for its length.

    Raises ``refuse(…)``, which names line and column, for what cannot be parsed.
    """
    try:
        return _statements(_tokens(sql), sql)
    except RecursionError:
        raise _too_deep() from None


def check_columns(value: str) -> None:
    """Raises ``refuse(…)`` unless the text is a list of columns with types alone, without defaults."""
    load_grammar()
    from sqlglot import exp

    if len(value) > MAX_SCHEMA:
        raise refuse(f"has {len(value)} characters", f"use {MAX_SCHEMA} at most")
    problem = refuse("is not a list of columns", "write names with types: id LONG, name STRING")
    try:
        parsed = parse_bounded(f"CREATE TABLE t ({value})")
    except PydanticCustomError:
        raise problem from None
    if (
        len(parsed) != 1
        or not isinstance(parsed[0], exp.Create)
        or not isinstance(parsed[0].this, exp.Schema)
    ):
        raise problem
    without_value = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)
    for column in parsed[0].this.expressions:
        constraints = column.args.get("constraints") or []
        # A default is an expression, which Spark evaluates where a file lacks the column.
        if not isinstance(column, exp.ColumnDef) or not all(
            isinstance(each.args.get("kind"), without_value) for each in constraints
        ):
            raise problem
    if any(value for name, value in parsed[0].args.items() if name not in ("this", "kind")):
        raise problem


def treats_rows_alone(sql: str) -> bool:
    """Whether a checked SELECT surely makes each row of a single row, so that Spark keeps no state for it."""
    load_grammar()
    from sqlglot import exp

    [tree] = parse_bounded(sql)
    together = (exp.AggFunc, exp.Distinct, exp.Fetch, exp.Group, exp.Join, exp.Limit, exp.Offset)
    is_plain = isinstance(tree, exp.Select) and tree.find(*together, exp.Window) is None
    return is_plain and len(list(tree.find_all(exp.Table))) == 1


class _TooManySteps(Exception):
    """No ParseError, which the parser would catch to try another reading."""


@cache
def _parser(of_calls: bool) -> Any:
    from sqlglot.dialects.spark import Spark

    class Bounded(Spark.Parser):  # type: ignore[misc, valid-type]
        """Spark's parser, which counts its steps: functions named like types are parsed twice per level."""

        steps_left = 0

        def _advance(self, times: int = 1) -> None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise _TooManySteps
            super()._advance(times)

    class OfCalls(Bounded):
        """Leaves each call as it is written; sqlglot reorders the arguments of many."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name.lower() not in BOUNDED
        }

    return OfCalls if of_calls else Bounded


def _statements(tokens: list[Any], sql: str, *, of_calls: bool = False) -> list[Any]:
    from sqlglot import TokenType as T
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import ParseError

    for token, following in pairwise(tokens):
        if token.token_type == T.WINDOW and following.token_type == T.L_PAREN:
            # sqlglot does not expect the function where a clause WINDOW may begin, which has a name first.
            token.token_type = T.VAR
    parser = _parser(of_calls)(dialect=Spark())
    parser.steps_left = MAX_STEPS + len(tokens)
    try:
        # A comment after the last semicolon is a statement for sqlglot.
        found = parser.parse(tokens, sql)
        return [each for each in found if each is not None and not isinstance(each, exp.Semicolon)]
    except _TooManySteps:
        raise refuse("is too complex", "nest fewer functions, or use several Connectors") from None
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = str(first.get("description", "it cannot be parsed")).rstrip(".")
        where = f"line {first.get('line')}, column {first.get('col')}"
        raise refuse(f"is not valid SQL ({where}: {what})", _SELECT) from None
    except RecursionError:
        raise
    except Exception as error:
        # The parser itself fails for some texts, such as map(a).
        raise refuse(f"is not valid SQL ({type(error).__name__})", _SELECT) from None


def _too_deep() -> PydanticCustomError:
    return refuse(f"is nested more than {MAX_DEPTH} deep", "split it by WITH, or use several Connectors")


def _tokens(sql: str) -> list[Any]:
    load_grammar()
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        return list(Spark().tokenize(sql))
    except TokenError:
        raise refuse("is not valid SQL (an unterminated quote or comment)", _SELECT) from None


def _check_skipped(tokens: list[Any], sql: str) -> None:
    """Refuses comments and hints that may hide from sqlglot what Spark executes."""
    from sqlglot import TokenType as T

    end = 0
    for token in tokens:
        hidden = token.token_type == T.HINT and not _HINT.match(sql[token.start : token.end + 1])
        if hidden or not _SKIPPED.match(sql[end : token.start]):
            break
        end = token.end + 1
    else:
        if _SKIPPED.match(sql[end:]):
            return
    raise refuse("has a comment inside a comment or hint", "remove it: parsers read it differently")


def _check_tokens(tokens: list[Any]) -> None:
    from sqlglot import TokenType as T

    opening = {T.L_PAREN, T.L_BRACKET, T.L_BRACE, T.CASE}
    closing = {T.R_PAREN, T.R_BRACKET, T.R_BRACE, T.END}
    depth = types = 0
    kinds = [*(token.token_type for token in tokens), None, None]
    for number, token in enumerate(tokens):
        previous = tokens[number - 1] if number else None
        after, beyond = kinds[number + 1], kinds[number + 2]
        if token.token_type in opening:
            depth += 1
        elif token.token_type in closing:
            depth = max(0, depth - 1)
        elif after == T.LT and token.text.lower() in ("array", "map", "struct"):
            types += 1
        elif token.token_type == T.GT:
            types = max(0, types - 1)
        if depth + types > MAX_DEPTH:
            raise _too_deep()
        if token.token_type == T.USING and after == T.STRING:
            raise refuse("starts a program", "remove TRANSFORM … USING")
        # Anything else than a query is refused as such.
        is_query = tokens[0].token_type in (T.SELECT, T.WITH, T.FROM, T.L_PAREN)
        is_column = not is_query or (previous is not None and previous.token_type == T.DOT)
        if token.token_type == T.TABLE and not is_column and after not in (None, T.COMMA, T.FROM, T.R_PAREN):
            # sqlglot takes (TABLE a) for a column with an alias, and Spark for a query.
            raise refuse("contains TABLE", "write SELECT * FROM a; write a column's name in backquotes")
        if after == T.L_PAREN and token.text.lower() == "cube" and _elements(tokens, number + 1) > MAX_CUBE:
            # Spark's parser writes out all of its subsets.
            raise refuse(f"has a CUBE of more than {MAX_CUBE} columns", "use fewer, or GROUPING SETS")
        if after == T.L_PAREN and token.text.lower() in REFUSED:
            raise forbidden(token.text)
        if FOLDED & set(token.text) and token.token_type not in (T.STRING, T.IDENTIFIER):
            raise refuse(f"contains {token.text!r}", "write words of SQL in ASCII, and names in backquotes")
        is_table = after not in (T.VIEW, T.L_PAREN) and beyond != T.L_PAREN
        if token.token_type == T.LATERAL and is_table and not is_column:
            raise refuse("reads a table by LATERAL", _RELATION)
        if token.text.lower() == "recursive" and previous is not None and previous.token_type == T.WITH:
            raise refuse("contains WITH RECURSIVE", "remove it: nothing bounds its rounds")
        names_columns = previous is not None and previous.text.lower() in ("as", "with")
        is_name = token.token_type == T.IDENTIFIER or token.text.isidentifier()
        if after == T.L_PAREN and is_name and not names_columns and token.token_type != T.STRING:
            known = ALLOWED if token.token_type == T.IDENTIFIER else ALLOWED | _SYNTAX
            if token.text.lower() not in known:
                raise forbidden(token.text)


def _elements(tokens: list[Any], at: int) -> int:
    """Returns how many elements the parenthesis at ``at`` has."""
    depth, found = 0, 1
    for token in tokens[at:]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            break
        found += depth == 1 and token.text == ","
    return found


def _check_tree(parsed: list[Any]) -> None:
    from sqlglot import exp

    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise refuse("is not one SELECT", _SELECT)
    tree = parsed[0]
    if tree.find(exp.QueryTransform, exp.Command, exp.Into) is not None:
        raise refuse("is not only a SELECT", _SELECT)
    check_calls(_calls(tree))
    tables = list(tree.find_all(exp.Table))
    if not any(table.name.lower() == "input" for table in tables):
        raise refuse("does not read the view input", _SELECT)
    for table in tables:
        if isinstance(table.this, exp.Func):
            continue  # a table function, which was checked above
        name = table.name.lower()
        if table.args.get("db") or table.args.get("catalog") or name not in _visible(table):
            raise refuse(f"reads {'.'.join(part.name for part in table.parts)}", _RELATION)


def _calls(tree: Any) -> Iterator[FunctionCall]:
    from sqlglot import exp

    for call in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc):
        arguments = tuple(map(_literal, call.expressions))
        is_named = any(isinstance(each, (exp.Kwarg, exp.PropertyEQ)) for each in call.expressions)
        yield FunctionCall(str(call.this), arguments, is_named)
    for like in tree.find_all(exp.Like, exp.ILike):
        several = like.expression.find(exp.Tuple) if isinstance(like.expression, (exp.Any, exp.All)) else None
        patterns = several.expressions if several is not None else [like.expression.unnest()]
        if not isinstance(like.expression, (exp.Any, exp.All)) or several is not None:
            yield FunctionCall("like", (None, *map(_literal, patterns)))
    for matched in tree.find_all(exp.RegexpLike):
        yield FunctionCall("rlike", (None, _literal(matched.expression)))


def _literal(node: Any) -> Argument:
    from sqlglot import exp

    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "map":
        found = map(_literal, node.expressions)
        return tuple(each if not isinstance(each, tuple) else None for each in found)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    try:
        return int(node.this)
    except ValueError:
        pass
    try:
        return float(node.this)
    except ValueError:
        return None


def _visible(table: Any) -> set[str]:
    """Returns the names that a table may have at its place: of enclosing WITHs, those before it."""
    from sqlglot import exp

    names, node = {"input"}, table
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, exp.With):
            before = parent.expressions[
                : next(i for i, each in enumerate(parent.expressions) if each is node)
            ]
            names |= {str(each.alias).lower() for each in before}
        else:
            own = parent.args.get("with_") or parent.args.get("with")
            if own is not None and own is not node:
                names |= {str(each.alias).lower() for each in own.expressions}
        node = parent
    return names
