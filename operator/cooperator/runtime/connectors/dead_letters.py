"""Rows that cannot be converted: found one by one, and written to a dead-letter topic.

With ``errors.tolerance`` = all the SELECT runs on the batch as it was collected. When that fails, the
batch is halved until the rows stand alone that fail by themselves; the rest is converted as if they were
not there. That takes a small query for each half, so it is meant for few bad rows. The SELECT must treat
each row by itself (no aggregate over several, no order, no limit), or halving would change its result.

Names of options and headers are Kafka Connect's (KIP-298).
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from cooperator.runtime.connectors.base import Cancelled, UnitContext
from cooperator.runtime.connectors.exactly_once import Record
from cooperator.runtime.connectors.spark import SparkOptions
from cooperator.runtime.connectors.transform import first_line
from cooperator.runtime.options import TopicName, option, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_PREFIX = "__connect.errors."
_TOPIC_OPTION = "errors.deadletterqueue.topic.name"
_MESSAGE_LIMIT = 2_000  # characters: headers count against the size of a record


class DeadLetterOptions(SparkOptions):
    tolerance: Literal["none", "all"] = option(
        "errors.tolerance",
        "none",
        expected="none (a row that transform.sql cannot convert fails the task) or all (it is left out)",
    )
    dead_letters: TopicName | Literal[""] = option(
        _TOPIC_OPTION, "", expected="the topic for rows that are left out, as they were read"
    )

    @model_validator(mode="after")
    def _tolerant(self) -> Self:
        if self.dead_letters and self.tolerance == "none":
            raise refuse("is not used with errors.tolerance = none", "set that to all", _TOPIC_OPTION)
        if self.tolerance == "all" and not self.transform_sql:
            remedy = "give transform.sql, or leave it out: without it nothing is converted"
            raise refuse("has nothing to tolerate", remedy, "errors.tolerance")
        if self.tolerance == "all" and not treats_rows_alone(self.transform_sql):
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


def convert(
    rows: "pa.Table",
    session: "SparkSession",
    conversion: "Callable[[DataFrame], DataFrame]",
    context: UnitContext,
) -> tuple[list["pa.Table"], list[tuple[dict[str, Any], Exception]]]:
    """What ``conversion`` makes of the rows, in order, and the rows that it fails for with their errors."""
    from pyspark.errors import PySparkException

    good: list[pa.Table] = []
    bad: list[tuple[dict[str, Any], Exception]] = []
    parts = [rows] if rows.num_rows else []
    while parts:
        part = parts.pop()
        try:
            good.append(conversion(session.createDataFrame(part)).toArrow())
        except PySparkException as error:
            # A query that is being stopped has its jobs cancelled: no row is to blame.
            if context.cancelled.is_set():
                raise Cancelled from error
            if not blames_a_row(error.getSqlState()):
                raise
            if part.num_rows == 1:
                bad.append((part.to_pylist()[0], error))
            else:
                half = part.num_rows // 2
                # Copied: Arrow cannot ship slices of nested columns.
                parts += [part.take(list(range(half, part.num_rows))), part.take(list(range(half)))]
    if bad:
        log.warning("%s: %d rows could not be converted: %s", context.unit, len(bad), reason(bad[0][1]))
    return good, bad


def blames_a_row(sql_state: str | None) -> bool:
    """Whether an error is about the values of a row: data exceptions (class 22: casts, overflows, divisions
    by zero), failed functions of users (39), and ``raise_error``. A lost executor or a lack of memory is
    not: no row may be left out for it."""
    return sql_state is not None and (sql_state[:2] in ("22", "39") or sql_state == "P0001")


def reason(error: Exception) -> str:
    return first_line(error)[:_MESSAGE_LIMIT]


def letters(
    bad: list[tuple[dict[str, Any], Exception]], topic: str, context: UnitContext
) -> Iterator[Record]:
    """The rows as they were read, with what went wrong in their headers."""
    for row, error in bad:
        told = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "connector.name": context.task.connector,
            "task.id": context.task.task,
            "stage": "TRANSFORMATION",
            "exception.class.name": type(error).__name__,
            "exception.message": reason(error),
        }
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        headers += [(f"{_PREFIX}{name}", str(value).encode()) for name, value in told.items()]
        yield Record(row["key"], row["value"], topic=topic, headers=tuple(headers))
