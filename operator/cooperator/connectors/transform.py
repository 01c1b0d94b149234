"""SQL transforms of rows: a SELECT from the view ``input``, checked twice.

No Spark is available where a configuration is applied: sqlglot checks there whether the text is a query in
Spark's dialect that reads ``input``. Spark itself does the final check when a unit starts (columns, types).
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.sql_functions import REFUSED
from cooperator.connectors.sql_rules import check_select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOSED = "cooperator.closed"
"""The setting that marks a session whose features are disabled."""
_STARTS_PROGRAMS = "ScriptTransformation"
"""The node of Spark's plans for TRANSFORM … USING, which no setting disables."""
_LONGEST_CACHE = 1_000
_without_programs: set[str] = set()


def _select(value: str) -> str:
    if value:
        check_select(value)
    return value.strip().rstrip(";")


Select = Annotated[str, AfterValidator(_select)]
"""A SELECT from the view ``input``, without a trailing semicolon; or empty."""


def selected(rows: "DataFrame", sql: str, option: str = "transform.sql") -> "DataFrame":
    """Applies the SELECT to ``rows``; raises ``OptionError``, which names ``option``, when Spark refuses it.

    The view belongs to the rows' session: units that run at the same time need sessions of their own.
    """
    from pyspark.errors import AnalysisException

    rows.createOrReplaceTempView("input")
    _close(rows.sparkSession)
    try:
        _refuse_programs(rows.sparkSession, sql, option)
        return rows.sparkSession.sql(sql)
    except AnalysisException as error:  # includes errors of the parser
        remedy = f"use the columns of the view input: {', '.join(rows.columns)}"
        problem = Problem(option, sql, f"is refused by Spark: {first_line(error)}", remedy)
        raise OptionError([problem]) from None


def _close(session: Any) -> None:
    """Disables session features that transforms must not use, in case Spark parses the SQL differently from
    sqlglot.
    """
    if session.conf.get(_CLOSED, "") == "true":
        return
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    session.conf.set("spark.sql.variable.substitute", "false")
    if hasattr(session, "_jsparkSession"):
        registry = session._jsparkSession.sessionState().functionRegistry()
        for name in REFUSED:
            registry.dropFunction(session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
    session.conf.set(_CLOSED, "true")


def _refuse_programs(session: Any, sql: str, option: str) -> None:
    """Raises ``OptionError`` if Spark itself reads a program in the text. A text is parsed once."""
    if sql in _without_programs or not hasattr(session, "_jsparkSession"):
        return
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sql).toString()
    if _STARTS_PROGRAMS in plan:
        raise OptionError(
            [Problem(option, sql, "is refused: it starts a program", "remove TRANSFORM … USING")]
        )
    if len(_without_programs) >= _LONGEST_CACHE:
        _without_programs.clear()
    _without_programs.add(sql)


def first_line(error: BaseException) -> str:
    """Returns the first line of a Spark error, without the query and the trace that follow."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
