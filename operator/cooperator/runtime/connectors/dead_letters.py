"""Rows that cannot be converted: found one by one, and written to a dead-letter topic.

With ``errors.tolerance`` = all the SELECT runs on the batch as it was collected. When that fails, the
batch is halved until the rows stand alone that fail by themselves; the rest is converted as if they were
not there. That takes a small query for each half, so it is meant for few bad rows. The SELECT must treat
each row by itself (no aggregate over several, no order, no limit), or halving would change its result.

Names of options and headers are Kafka Connect's (KIP-298).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import model_validator

from cooperator.runtime.connectors.base import Cancelled, UnitContext
from cooperator.runtime.connectors.exactly_once import Record
from cooperator.runtime.connectors.spark import SparkOptions
from cooperator.runtime.connectors.transform import first_line
from cooperator.runtime.options import TopicName, option, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PREFIX = "__connect.errors."
_TOPIC_OPTION = "errors.deadletterqueue.topic.name"
_MESSAGE_LIMIT = 2_000  # characters: headers count against the size of a record


class DeadLetterOptions(SparkOptions):
    tolerance: Literal["none", "all"] = option(
        "errors.tolerance",
        "none",
        expected="none (a row that cannot be converted fails the task) or all (it is left out)",
    )
    dead_letters: TopicName | Literal[""] = option(
        _TOPIC_OPTION, "", expected="the topic for rows that are left out, as they were read"
    )

    @property
    def select(self) -> str:
        """The SELECT that rows go through; empty: there is none."""
        return self.transform_sql

    @property
    def select_option(self) -> str:
        """The option that it comes from."""
        return "transform.sql"

    @property
    def can_fail(self) -> bool:
        """Whether something else can fail for a row than the SELECT."""
        return False

    @model_validator(mode="after")
    def _tolerant(self) -> Self:
        if self.dead_letters and self.tolerance == "none":
            raise refuse("is not used with errors.tolerance = none", "set that to all", _TOPIC_OPTION)
        if self.tolerance == "all" and not self.select and not self.can_fail:
            remedy = "give transform.sql, or leave it out: without it nothing is converted"
            raise refuse("has nothing to tolerate", remedy, "errors.tolerance")
        if self.tolerance == "all" and self.select and not treats_rows_alone(self.select):
            remedy = "leave out aggregates, windows, DISTINCT, ORDER BY, LIMIT and joins, or set it to none"
            raise refuse("needs a SELECT that treats each row by itself", remedy, "errors.tolerance")
        return self


def treats_rows_alone(sql: str) -> bool:
    """Whether each row of ``input`` is converted without looking at another."""
    import sqlglot
    from sqlglot import exp

    over_several = (exp.AggFunc, exp.Group, exp.Window, exp.Distinct, exp.Order, exp.Limit, exp.Join)
    query = sqlglot.parse_one(sql, read="spark")
    if query.find(*over_several, exp.SetOperation, exp.TableSample) is not None:
        return False
    tables = [table.name.lower() for table in query.find_all(exp.Table)]
    return len(tables) == len(set(tables))  # a table that is read twice is compared with itself


class Failed(NamedTuple):
    """A row (by its number) that something failed for."""

    row: int
    error: Exception


def sift(
    rows: "pa.Table",
    session: "SparkSession",
    conversion: "Callable[[DataFrame], DataFrame]",
    context: UnitContext,
) -> tuple[list["pa.Table"], list[Failed]]:
    """What ``conversion`` makes of the rows, in order, and the rows that it fails for."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    good: list[pa.Table] = []
    bad: list[Failed] = []
    parts = [range(rows.num_rows)] if rows.num_rows else []
    while parts:
        part = parts.pop()
        # Copied: Arrow cannot ship slices of nested columns.
        taken = rows if len(part) == rows.num_rows else rows.take(list(part))
        try:
            good.append(conversion(session.createDataFrame(taken)).toArrow())
        except (PySparkException, Py4JJavaError) as error:
            # A query that is being stopped has its jobs cancelled: no row is to blame.
            if context.cancelled.is_set():
                raise Cancelled from error
            state, told = error_of(error)
            if not blames_a_row(state):
                raise
            if len(part) == 1:
                bad.append(Failed(part[0], told))
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
    return good, bad


class SparkFailure(Exception):
    """An error of Spark that pyspark has no class for. ``name``: of its class in Java."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def error_of(error: Any) -> tuple[str | None, Exception]:
    """The SQLSTATE of an error of Spark and the error to tell: of those that led to it the first one that has
    a state, and so knows best."""
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return error.getSqlState(), error
    found: tuple[str | None, Exception] = None, error
    cause = error.java_exception
    while cause is not None:
        state = cause.getSqlState() if hasattr(cause, "getSqlState") else None
        if state:
            found = state, SparkFailure(cause.getClass().getSimpleName(), str(cause.getMessage()))
        cause = cause.getCause()
    return found


def blames_a_row(sql_state: str | None) -> bool:
    """Whether an error is about the values of a row: data exceptions (class 22: casts, overflows, divisions
    by zero), failed functions of users (39), and ``raise_error``. A lost executor or a lack of memory is
    not: no row may be left out for it."""
    return sql_state is not None and (sql_state[:2] in ("22", "39") or sql_state == "P0001")


def reason(error: Exception) -> str:
    return first_line(error)[:_MESSAGE_LIMIT]


class Letter(NamedTuple):
    """A record as it was read, and what failed for it at which of Connect's stages."""

    row: Mapping[str, Any]
    stage: str
    error: Exception


def letters(found: Iterable[Letter], topic: str, context: UnitContext) -> Iterator[Record]:
    """The records as they were read, with what went wrong in their headers."""
    for row, stage, error in found:
        told = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "connector.name": context.task.connector,
            "task.id": context.task.task,
            "stage": stage,
            "exception.class.name": error.name if isinstance(error, SparkFailure) else type(error).__name__,
            "exception.message": reason(error),
        }
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        headers += [(f"{_PREFIX}{name}", str(value).encode()) for name, value in told.items()]
        yield Record(row["key"], row["value"], topic=topic, headers=tuple(headers))
