"""Connectors whose units are Structured Streaming queries: one query and one checkpoint per unit."""

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cooperator.connectors.base import Cancelled, Connector, UnitContext
from cooperator.connectors.fence import Fence, claim
from cooperator.connectors.options import OptionError, Options, Problem, option
from cooperator.connectors.output_owner import output_refused
from cooperator.connectors.places import uri
from cooperator.connectors.query import QueryStarts, SparkQuery, activate, guard_session, query_name
from cooperator.connectors.remote import open_remotely
from cooperator.connectors.stateful import set_state_format
from cooperator.connectors.transform import Select
from cooperator.connectors.units import PASSED_OVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOCAL_ROWS_PARTITIONS = 8


LOOP_INTERVAL_MS = 500
"""For tasks whose batches are cheap: one loop for all units (``microbatch``)."""


def trigger_interval(default_ms: int) -> Any:
    """Returns the option ``trigger.interval.ms``."""
    expected = "milliseconds between the starts of two batches, 0 (no pause) or more"
    return option("trigger.interval.ms", default_ms, expected=expected, ge=0)


class SparkOptions(Options):
    """The options of every Spark connector."""

    trigger_interval_ms: int = trigger_interval(1_000)
    transform_sql: Select = option(
        "transform.sql", "", expected="a SELECT from the view input (its columns: see the connector)"
    )


S = TypeVar("S", bound=SparkOptions)


class SparkConnector(Connector[S], Generic[S]):
    """The base class of connectors: subclasses write ``units``, ``reader`` and ``writer``.

    Resources that reader and writer open (a producer) are closed by ``context.closing``, after the query has
    ended.
    """

    keeps_checkpoints: ClassVar[bool] = True

    @abstractmethod
    def reader(self, spark: "SparkSession", options: S, context: UnitContext) -> "DataFrame":
        """Returns the unit's stream: any ``spark.readStream`` format, with any transformation.

        ``spark`` is the unit's own session: its views, data sources and settings are not shared.
        """

    @abstractmethod
    def writer(self, stream: "DataFrame", options: S, context: UnitContext) -> "DataStreamWriter":
        """Returns the stream's writer: any ``writeStream`` format, or ``foreachBatch``.

        The caller sets name, checkpoint and trigger. A directory must be the unit's own: a file sink refuses
        to open one that another checkpoint has written to.
        """

    def runs_remotely(self, options: S) -> bool:
        """Whether a Spark Connect server can run the query.

        Reader and writer must not depend on the member's process: Spark's own formats on both sides, and no
        ``foreachBatch``.
        """
        return False

    def open(self, options: S, context: UnitContext) -> SparkQuery:
        def prepare(session: "SparkSession", context: UnitContext, fence: Fence) -> QueryStarts:
            stream = self.reader(session, options, context)
            guard_session(stream.sparkSession, fence, context)
            set_state_format(stream, context.checkpoint, context.is_learned)
            return query_starts(self, stream, options, context)

        server = context.server
        if server is not None:
            if not self.runs_remotely(options):
                raise server.refusal(context.task.connector)
            return open_remotely(prepare, context, server)
        member = context.session()
        gateway: Any = member.sparkContext._gateway
        fence = claim(context.checkpoint, context.epoch, context.attempt, context.owner)
        context = replace(context, fence=fence)
        try:
            return SparkQuery(prepare(member.newSession(), context, fence), context, gateway.proc)
        except BaseException:
            context.closing.close()
            raise


def query_starts(
    connector: SparkConnector[S], stream: "DataFrame", options: S, context: UnitContext
) -> QueryStarts:
    """Returns functions that start the unit's query on its checkpoint, from any thread.

    All raise ``OutputTaken`` when the sink is a directory of another checkpoint, and the functions raise
    ``Cancelled`` if the unit is to stop already.
    """
    name = query_name(context)

    def made() -> "DataStreamWriter":
        with _refusals(context):
            writer = connector.writer(stream, options, context)
        return writer.queryName(name).option("checkpointLocation", uri(context.checkpoint))

    def started(writer: "DataStreamWriter") -> "StreamingQuery":
        if context.cancelled.is_set():
            raise Cancelled
        if context.server is None:
            _set_thread(stream.sparkSession, name)
        with _refusals(context):
            return writer.start()

    interval = f"{spread(options.trigger_interval_ms, name)} milliseconds"
    writer = made().trigger(processingTime=interval)
    return QueryStarts(
        lambda: started(writer),
        # Of a writer, the sink can be replaced, but not told: so this one is a writer of its own.
        lambda: started(made().format("noop").trigger(once=True)),
    )


@contextmanager
def _refusals(context: UnitContext) -> Iterator[None]:
    """Raises ``OutputTaken`` and its siblings in place of the JVM's refusal to open a sink."""
    try:
        yield
    except Exception as error:
        taken = output_refused(error, context)
        if taken is None:
            raise
        raise taken from None


def _set_thread(session: "SparkSession", pool: str) -> None:
    """Sets what a query takes over from the thread that starts it."""
    activate(session)  # a sink's format is looked up in the active session
    # Each query has a pool of its own, so that a large batch of one does not stop the others.
    session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def partitioned(writer: "DataStreamWriter", stream: "DataFrame", names: Sequence[str]) -> "DataStreamWriter":
    """Returns ``writer`` with ``partition.by``. Raises OptionError for a column that the rows lack."""
    check_partition_by(names, stream)
    return writer.partitionBy(*names) if names else writer


def check_partition_by(names: Sequence[str], rows: "DataFrame") -> None:
    """Raises OptionError for a column of ``partition.by`` that the rows lack, or that would hide them."""
    columns = {column.lower() for column in rows.columns}
    for name in names:
        if name.startswith(PASSED_OVER):
            problem = "begins as names of directories do that most readers pass over"
            raise OptionError([Problem("partition.by", name, problem, "select it under another name")])
        if name.lower() not in columns:
            there = ", ".join(rows.columns)
            raise OptionError(
                [Problem("partition.by", name, "does not name a column of the rows", f"use one of {there}")]
            )


def spread(interval_ms: int, name: str) -> int:
    """Returns the interval, or up to an eighth more.

    Triggers align to the clock: many queries with the same interval would all start their batches at once.
    """
    return interval_ms + zlib.crc32(name.encode()) % (interval_ms // 8 + 1)


def local_rows(batch: "DataFrame") -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a batch on the driver, in bounded memory.

    A batch with few partitions (each at most ``spark.sql.files.maxPartitionBytes``) is read at once in
    columns, which is many times faster; others partition by partition.
    """
    if batch.rdd.getNumPartitions() <= _LOCAL_ROWS_PARTITIONS:
        for part in batch.toArrow().to_batches():
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)
    else:
        for row in batch.toLocalIterator():
            yield tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
