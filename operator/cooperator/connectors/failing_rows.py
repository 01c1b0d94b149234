"""Finds the rows of a batch that a conversion fails for.

Spark converts a batch by one query, which fails as a whole and does not name the row. The search goes on
after each failure with the next row, in the JVM (``RowTrial``), and then converts the rows that have failed
once more: those that fail again are found. So a batch costs at most four evaluations of each row, however
many rows fail: with the whole batch, twice in the search, and with all good rows. Rows that the last
evaluation fails for, although each had passed (``rand()``), are found by halving.

Every evaluation reads its rows from an RDD (``frame_of``), as a stream does. The optimizer sees no values, so
that all plans are the same and a column that the conversion does not use is not converted. If the rows are
in the plan itself (a local relation, as ``createDataFrame`` makes it), the optimizer evaluates all columns.

The conversion must treat each row by itself (no aggregate over several rows, no order, no limit).
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.base import Cancelled, UnitContext
from cooperator.connectors.parts import NUMBER, as_relation
from cooperator.connectors.transform import first_line
from cooperator.model.text import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_PARTITION_BYTES = 16 << 20
"""A partition is sent with its task, which may have 128 MiB (``spark.rpc.message.maxSize``)."""
Conversion = Callable[["DataFrame"], "DataFrame"]


class SparkFailure(Exception):
    """Spark's error for a row. ``name`` is the error's class in Java."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Failed(NamedTuple):
    """A row (by its number) that failed, and its error."""

    row: int
    error: Exception


def sift(
    rows: "pa.Table",
    session: "SparkSession",
    conversion: Conversion,
    context: UnitContext,
    *,
    are_suspects: bool = False,
) -> tuple[list["pa.Table"], list[Failed]]:
    """Returns the converted rows, in order, and the rows that ``conversion`` fails for.

    Of suspects each is expected to fail, which one evaluation shows.

    Errors that are not about the values of a row are raised; so is ``Cancelled`` when the unit is being
    stopped.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not rows.num_rows:
        return [], []
    with _cancellable(context):
        if are_suspects and len(failed := _failures(rows, session, conversion)) == rows.num_rows:
            return [], failed
        try:
            return [_converted(rows, session, conversion)], []
        except (PySparkException, Py4JJavaError) as error:
            if context.cancelled.is_set():
                raise
            failed = _searched(rows, session, conversion, context, error)
        bad = {one.row for one in failed}
        good = [number for number in range(rows.num_rows) if number not in bad]
        tables, late = _halved(good, rows, session, conversion, context)
        return tables, sorted([*failed, *late], key=lambda one: one.row)


def frame_of(rows: "pa.Table", session: "SparkSession") -> "DataFrame":
    """The rows, in order, as a relation whose values the optimizer does not see."""
    partitions = 1 + rows.nbytes // _PARTITION_BYTES
    return _grouped(rows, session, max(1, -(-rows.num_rows // partitions)))


def _grouped(rows: "pa.Table", session: "SparkSession", size: int) -> "DataFrame":
    """The rows, in order; each group of ``size`` rows is a partition."""
    from pyspark.sql import DataFrame

    untyped: Any = session
    given: Any = as_relation(rows, session)
    grouped = _java(session).RowTrial.grouped(given._jdf, size)
    if NUMBER in rows.column_names:
        grouped = _java(session).NumberedRows.of(grouped, NUMBER)
    return DataFrame(grouped, untyped)


def _java(session: "SparkSession") -> Any:
    untyped: Any = session
    return untyped.sparkContext._jvm.dev.cooperator.spark


def _halved(
    numbers: list[int],
    rows: "pa.Table",
    session: "SparkSession",
    conversion: Conversion,
    context: UnitContext,
) -> tuple[list["pa.Table"], list[Failed]]:
    """The rows with these numbers, converted together; where that fails, each half by itself."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not numbers:
        return [], []
    if context.cancelled.is_set():
        raise Cancelled
    try:
        return [_converted(rows.take(numbers), session, conversion)], []
    except (PySparkException, Py4JJavaError) as error:
        failure = _failure(error, session)
        if failure is None:
            raise
        if len(numbers) == 1:
            return [], [Failed(numbers[0], failure)]
    middle = len(numbers) // 2
    tables, failed = _halved(numbers[:middle], rows, session, conversion, context)
    more_tables, more_failed = _halved(numbers[middle:], rows, session, conversion, context)
    return tables + more_tables, failed + more_failed


def _failure(error: Exception, session: "SparkSession") -> SparkFailure | None:
    """Returns the part of a Spark error that concerns the values of a row, if there is one."""
    from py4j.java_gateway import is_instance_of

    untyped: Any = session
    gateway = untyped.sparkContext._gateway
    found: SparkFailure | None = None
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        # A Java object appears to have every method, so its type is checked first.
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable") and blames_a_row(
            cause.getSqlState()
        ):
            found = SparkFailure(cause.getClass().getSimpleName(), str(cause.getMessage()))
        cause = cause.getCause()
    return found


def blames_a_row(sql_state: str | None) -> bool:
    """Whether an error is about the values of a row.

    Such errors are data exceptions (class 22: casts, overflows, divisions by zero), failed user functions
    (39), and ``raise_error``. A lost executor or a lack of memory is not one: no row may be skipped for it.
    """
    return sql_state is not None and (sql_state[:2] in ("22", "39") or sql_state == "P0001")


@contextmanager
def _cancellable(context: UnitContext) -> Iterator[None]:
    """Raises ``Cancelled`` in place of Spark's errors while the unit is being stopped, since they are not
    about rows."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if context.cancelled.is_set():
            raise Cancelled from error
        raise


def _converted(rows: "pa.Table", session: "SparkSession", conversion: Conversion) -> "pa.Table":
    return conversion(frame_of(rows, session)).toArrow()


def _searched(
    rows: "pa.Table",
    session: "SparkSession",
    conversion: Conversion,
    context: UnitContext,
    reason: Exception,
) -> list[Failed]:
    """Returns the rows that the conversion fails for, in order. ``reason`` is the error of all together."""
    began, count = time.monotonic(), rows.num_rows
    log.info("%s: searching %d records for failing ones: %s", context.unit, count, first_line(reason))
    context.say(f"searching {counted(count, 'record')} for failing ones")
    try:
        failed = _failures(rows, session, conversion, reason)
        if context.cancelled.is_set():
            raise Cancelled
        if 0 < len(failed) < count:
            # A query that buffers rows would blame others.
            numbers = [one.row for one in failed]
            again = _failures(rows.take(numbers), session, conversion, reason)
            failed = [Failed(numbers[one.row], one.error) for one in again]
    finally:
        context.say("")
    log.info("%s: %d of %d records fail (%.1f s)", context.unit, len(failed), count, time.monotonic() - began)
    return failed


def _failures(
    rows: "pa.Table", session: "SparkSession", conversion: Conversion, reason: Exception | None = None
) -> list[Failed]:
    """Returns the rows after whose reading the conversion fails."""
    # Half of the cores, so that the queries of other units run meanwhile.
    partitions = max(1 + rows.nbytes // _PARTITION_BYTES, session.sparkContext.defaultParallelism // 2)
    size = -(-rows.num_rows // partitions)
    converted: Any = conversion(_grouped(rows, session, size))
    trial = _java(session).RowTrial
    found = json.loads(trial.failures(converted._jdf, -(-rows.num_rows // size)))
    for failure in found:
        if not blames_a_row(failure["state"]):
            raise SparkFailure(failure["name"], failure["message"]) from reason
    failed = [Failed(one["row"], SparkFailure(one["name"], one["message"])) for one in found]
    return sorted(failed, key=lambda one: one.row)
