"""SQL transforms of rows: a SELECT from the view ``input``, checked twice.

No Spark is available where a configuration is applied: sqlglot gives an early answer there
(``check_select``). The check that protects a member is made in the member, over the plan of Spark's own
parser (``check_parsed``). Times that the SELECT writes as text get the options of file sinks
(``with_times``), and the rows are those of a plan that was checked. Spark does the rest when a unit starts
(columns, types).
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from cooperator.connectors.options import OptionError, Problem, refuse
from cooperator.connectors.parsed_select import check_parsed, check_reads
from cooperator.connectors.sql_rules import check_columns, check_select
from cooperator.connectors.sql_times import with_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLASS: Final = "dev.cooperator.spark.ParsedSelect"
_SETTINGS: Final = {
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.eagerEvalOfUnresolvedInlineTable": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
}
"""Settings of a session that reads SQL of Connectors: no files as tables, one way to read a text, and nothing
that the parser evaluates by itself, before the plan is checked."""
_ONE_CASE: Final = (
    "qualify the column by its relation; names that differ in upper and lower case only are the same in a "
    "SELECT: rename one where the records are made, or declare one of them only"
)
_PREPARED: Final = "cooperator.select"
"""The setting that marks a session which has them: each costs a call of the JVM."""
_PARSING_TIMEOUT_S: Final = 60
_PARSED_TEXTS: Final = 1_000


def _select(value: str) -> str:
    if value:
        check_select(value)
    return value.strip().rstrip(";")


Select = Annotated[str, AfterValidator(_select)]
"""A SELECT from the view ``input``, without a trailing semicolon; or empty."""


def _columns(value: str) -> str:
    if value:
        check_columns(value)
    return value


Columns = Annotated[str, AfterValidator(_columns)]
"""Columns as DDL, such as ``id LONG, name STRING``; or empty."""


def selected(rows: "DataFrame", sql: str, option: str = "transform.sql") -> "DataFrame":
    """Applies the SELECT to ``rows``; raises ``OptionError``, which names ``option``, when Spark refuses it.

    The view belongs to the rows' session: units that run at the same time need sessions of their own.
    """
    from pyspark.errors import AnalysisException

    rows.createOrReplaceTempView("input")
    session: Any = rows.sparkSession
    if session.conf.get(_PREPARED, "") != "true":
        for name, value in {**_SETTINGS, _PREPARED: "true"}.items():
            session.conf.set(name, value)
    try:
        return (
            read_here(session, sql) if hasattr(session, "_jsparkSession") else _read_elsewhere(session, sql)
        )
    except AnalysisException as error:  # includes errors of the parser
        remedy = f"use the columns of the view input: {', '.join(rows.columns)}"
        if str(error.getCondition()).startswith("AMBIGUOUS_"):
            remedy = f"{_ONE_CASE}; {remedy}"
        problem = Problem(option, sql, f"is refused by Spark: {first_line(error)}", remedy)
        raise OptionError([problem]) from None
    except PydanticCustomError as error:
        context = error.context or {}
        problem = Problem(option, sql, f"is refused: it {error.message()}", str(context.get("remedy", "")))
        raise OptionError([problem]) from None


def read_here(session: Any, sql: str) -> "DataFrame":
    """Returns the rows of the plan that was checked last: its text is not parsed again."""
    from pyspark.sql import DataFrame

    @cache
    def parsed(text: str) -> Any:
        return session._jvm.dev.cooperator.spark.ParsedSelect.of(session._jsparkSession, text)

    text = _checked(sql, lambda text: json.loads(parsed(text).summary()))
    return DataFrame(parsed(text).rows(), session)


def _read_elsewhere(session: Any, sql: str) -> "DataFrame":
    """Checks the text here, by a JVM for Spark's parser alone; a Spark Connect server runs it."""
    rows: DataFrame = session.sql(_checked(sql, _parsed, is_elsewhere=True))
    return rows


def _checked(sql: str, parse: Callable[[str], Mapping[str, Any]], *, is_elsewhere: bool = False) -> str:
    """Returns the SELECT as it is run. What it makes is bounded as it is written, without our options."""
    plan = parse(sql)
    check_parsed(plan, is_elsewhere=is_elsewhere)
    text = with_times(sql, plan["calls"])
    if text != sql:
        check_reads(parse(text), is_elsewhere=is_elsewhere)
    return text


@lru_cache(_PARSED_TEXTS)
def _parsed(sql: str) -> Any:
    """Returns what Spark's parser reads. A JVM for it alone needs no session, and takes a second or two."""
    # Commands that only apply a manifest read no SELECT, and need not load this.
    from cooperator.artifacts import find_java, spark_jars

    own = str(files("cooperator").joinpath("runtime/jars/cooperator-spark.jar"))
    jars = ":".join([own, *map(str, spark_jars())])
    command = [str(find_java()), "-XX:+UseSerialGC", "-Xmx256m", "-cp", jars, _CLASS]
    found = subprocess.run(
        command,
        input=sql.encode(errors="replace"),
        capture_output=True,
        timeout=_PARSING_TIMEOUT_S,
        check=False,
    )
    if found.returncode:
        raise refuse("is not read by Spark's parser", "write one SELECT from the view input")
    return json.loads(found.stdout)


def quoted(name: str) -> str:
    """Returns the name of a column as Spark reads it in expressions."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def first_line(error: BaseException) -> str:
    """Returns the first line of a Spark error, without the query and the trace that follow."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
