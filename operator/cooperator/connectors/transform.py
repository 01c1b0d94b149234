"""SQL transforms of rows: a SELECT from the view ``input``, checked twice.

No Spark is available where a configuration is applied: sqlglot checks there whether the text is a query in
Spark's dialect that reads ``input``. Spark itself does the final check when a unit starts (columns, types).
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from cooperator.connectors.options import OptionError, Problem, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REMEDY = "write one SELECT from the view input, such as SELECT * FROM input"


def _select(value: str) -> str:
    if not value:
        return value
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        parsed = [statement for statement in sqlglot.parse(value, read="spark") if statement is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = str(first.get("description", "it cannot be parsed")).rstrip(".")
        where = f"line {first.get('line')}, column {first.get('col')}"
        raise refuse(f"is not valid SQL ({where}: {what})", _REMEDY) from None
    except TokenError:
        raise refuse("is not valid SQL (an unterminated quote or comment)", _REMEDY) from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise refuse("is not one SELECT", _REMEDY)
    if "input" not in {table.name.lower() for table in parsed[0].find_all(exp.Table)}:
        raise refuse("does not read the view input", _REMEDY)
    return value.strip().rstrip(";")


Select = Annotated[str, AfterValidator(_select)]
"""A SELECT from the view ``input``, without a trailing semicolon; or empty."""


def selected(rows: "DataFrame", sql: str, option: str = "transform.sql") -> "DataFrame":
    """Applies the SELECT to ``rows``; raises ``OptionError``, which names ``option``, when Spark refuses it.

    The view belongs to the rows' session: units that run at the same time need sessions of their own.
    """
    from pyspark.errors import AnalysisException

    rows.createOrReplaceTempView("input")
    try:
        return rows.sparkSession.sql(sql)
    except AnalysisException as error:  # includes errors of the parser
        remedy = f"use the columns of the view input: {', '.join(rows.columns)}"
        problem = Problem(option, sql, f"is refused by Spark: {first_line(error)}", remedy)
        raise OptionError([problem]) from None


def first_line(error: BaseException) -> str:
    """Returns the first line of a Spark error, without the query and the trace that follow."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
