"""Finds the rows of a batch that a conversion fails for.

Spark converts a batch by one query, which fails as a whole and does not name the row. The search runs the
conversion on small groups of rows, each by itself and many in one job (``RowTrial``, in the JVM), then on
each row of the groups that failed. So a batch costs at most four evaluations of each row, however many rows
fail: with the whole batch, with its group, alone, and with all good rows. Rows that the last evaluation fails
for, although each had passed (``rand()``), are found by halving.

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
from cooperator.connectors.parts import NUMBER
from cooperator.connectors.transform import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_GROUP_ROWS = 32
"""Setting up a group costs about as much as converting this many rows."""
_FIRST_JOB_GROUPS = 64
_PARTITION_BYTES = 16 << 20
"""A partition is sent with its task, which may have 128 MiB (``spark.rpc.message.maxSize``)."""
_JOB_S = 0.5
"""The approximate length of a job; between two jobs the search reports its progress, and can be stopped."""

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
    rows: "pa.Table", session: "SparkSession", conversion: Conversion, context: UnitContext
) -> tuple[list["pa.Table"], list[Failed]]:
    """Returns the converted rows, in order, and the rows that ``conversion`` fails for.

    Errors that are not about the values of a row are raised; so is ``Cancelled`` when the unit is being
    stopped.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not rows.num_rows:
        return [], []
    with _cancellable(context):
        try:
            return [_converted(rows, session, conversion)], []
        except (PySparkException, Py4JJavaError) as error:
            if context.cancelled.is_set():
                raise
            failed = _Search(session, conversion, context, rows, error).failed()
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
    given: Any = session.createDataFrame(rows)
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


class _Search:
    """One search in one batch. ``reason`` is the error of the batch as a whole."""

    def __init__(
        self,
        session: "SparkSession",
        conversion: Conversion,
        context: UnitContext,
        rows: "pa.Table",
        reason: Exception,
    ) -> None:
        self._session = session
        self._conversion = conversion
        self._context = context
        self._rows = rows
        self._reason = reason
        self._settled = 0
        self._found: list[Failed] = []

    def failed(self) -> list[Failed]:
        """Returns the rows that the conversion fails for, in order."""
        began, count, unit = time.monotonic(), self._rows.num_rows, self._context.unit
        log.info("%s: searching %d records for failing ones: %s", unit, count, first_line(self._reason))
        self._show()
        try:
            suspects = list(range(count))
            if count > _GROUP_ROWS:
                suspects = self._suspects()
            if suspects:
                self._try_alone(suspects)
        finally:
            self._context.say("")
        log.info(
            "%s: %d of %d records fail (%.1f s)", unit, len(self._found), count, time.monotonic() - began
        )
        return self._found

    def _suspects(self) -> list[int]:
        """Returns the rows of the groups that fail."""
        count = self._rows.num_rows
        suspects: list[int] = []
        for groups, failures in self._jobs(self._rows, _GROUP_ROWS):
            failing = {failure["group"] for failure in failures}
            for group in groups:
                members = range(group * _GROUP_ROWS, min(count, (group + 1) * _GROUP_ROWS))
                if group in failing:
                    suspects += members
                else:
                    self._settled += len(members)
            self._show()
        return suspects

    def _try_alone(self, suspects: list[int]) -> None:
        for tried, failures in self._jobs(self._rows.take(suspects), 1):
            self._settled += len(tried)
            self._found += [
                Failed(suspects[failure["group"]], SparkFailure(failure["name"], failure["message"]))
                for failure in sorted(failures, key=lambda failure: int(failure["group"]))
            ]
            self._show()

    def _jobs(self, rows: "pa.Table", size: int) -> Iterator[tuple[range, list[dict[str, Any]]]]:
        """Runs the conversion on groups of ``size`` rows; yields each job's groups and their failures."""
        trial = _java(self._session).RowTrial
        converted: Any = self._conversion(_grouped(rows, self._session, size))
        count, start, length = -(-rows.num_rows // size), 0, _FIRST_JOB_GROUPS
        while start < count:
            if self._context.cancelled.is_set():
                raise Cancelled
            began, end = time.monotonic(), min(count, start + length)
            failures = json.loads(trial.failures(converted._jdf, count, start, end))
            for failure in failures:
                if not blames_a_row(failure["state"]):
                    raise SparkFailure(failure["name"], failure["message"]) from self._reason
            yield range(start, end), failures
            start, length = end, next_length(length, time.monotonic() - began)

    def _show(self) -> None:
        self._context.say(
            f"searching for failing records: {self._settled} of {self._rows.num_rows} checked, "
            f"{len(self._found)} found"
        )


def next_length(length: int, took_s: float) -> int:
    """Returns how many groups the next job tries, after one of ``length`` that took ``took_s``."""
    if took_s > _JOB_S:
        return max(1, length // 2)
    return length * 2 if took_s < _JOB_S / 2 else length
